"""kith report: the program around the Python that draws. What is drawn: tests/python/test_report.py."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from program import KITH, ROOT, files_of

pytest.importorskip("matplotlib")

DATA = ROOT / "tests/data/report"
HERE = {"KITH_PYTHON": sys.executable}


@pytest.mark.covers("report", "RESULT", "--output", "--images", "--title", "--json", "--quiet")
def test_a_page_of_two_results(kith, folder):
    done = kith(
        "report", DATA / "ladder.json", DATA / "bench.json", "-o", "page.html", "--title", "Two results", env=HERE
    )
    assert done.out == "" and done.err.endswith("kith report: wrote page.html\n")
    assert "left out: Recall against queries a second: no input" in done.err
    page = (folder / "page.html").read_text()
    assert "<h1>Two results</h1>" in page and "Queries a second" in page and "The roofline" in page
    assert files_of(folder) == ["page.html"]
    done = kith("report", DATA / "bench.json", "--output", "b.html", "--images", "figures", env=HERE)
    assert "left out: The ladder: no input is a result of kith ladder" in done.err
    assert done.err.endswith("wrote b.html and 6 pictures in figures\n")
    assert len(files_of(folder / "figures")) == 6
    assert "Two results" not in (folder / "b.html").read_text()
    done = kith("report", DATA / "bench.json", "-o", "b.html", "-q", env=HERE)
    assert done.out == done.err == ""
    answer = kith("report", DATA / "bench.json", "-o", "b.html", "--json", env=HERE).json
    assert answer["output"] == "b.html" and answer["charts"] and answer["images"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gone.json", "-o", "x.html"], 2, "cannot read 'gone.json'"),
        (["text.json", "-o", "x.html"], 2, "'text.json' is not JSON: line 1, column 1"),
        (["empty.json", "-o", "x.html"], 2, "'empty.json': runs is empty: nothing was measured"),
        (["nan.json", "-o", "x.html"], 2, "'nan.json': runs[0].median_seconds is nan"),
        (["good.json", "-o", "gone/x.html"], 2, "there is no folder 'gone'"),
        (["good.json", "-o", "folder"], 2, "it is a folder"),
        (["good.json", "good.json", "-o", "x.html"], 1, "'good.json' is named twice"),
        (["good.json", "-o", "good.json"], 1, "is an input and the output"),
        (["good.json", "-o", "x.html", "--images", "text.json"], 2, "it is a file, not a folder"),
        (["good.json"], 1, "-o (--output) is missing"),
        (["-o", "x.html"], 1, "RESULT is missing"),
        (["good.json", "-o", "x.html", "--imagse", "f"], 1, "did you mean '--images'?"),
    ],
)
def test_bad_input(kith, folder, arguments, code, words):
    good = json.loads((DATA / "bench.json").read_text())
    (folder / "folder").mkdir()
    (folder / "text.json").write_text("no JSON\n")
    (folder / "good.json").write_text(json.dumps(good))
    (folder / "empty.json").write_text(json.dumps({**good, "runs": []}))
    good["runs"][0]["median_seconds"] = float("nan")
    (folder / "nan.json").write_text(json.dumps(good))
    before = files_of(folder)
    done = kith("report", *arguments, code=code, env=HERE)
    assert words in done.err and done.err.startswith("kith report: error: ") and done.out == ""
    assert files_of(folder) == before
    error = json.loads(kith("report", *arguments, "--json", code=code, env=HERE).err)["error"]
    assert error["exit_code"] == code and error["command"] == "report" and words in error["message"]


def test_standard_streams(kith, folder):
    """`-` is standard input and standard output; a stream is written from where it stands."""
    result = (DATA / "bench.json").read_bytes()
    kith("report", DATA / "bench.json", "-o", "page.html", env=HERE)
    whole = (folder / "page.html").read_bytes()
    for output in ["-", "/dev/stdout"]:
        done = kith("report", DATA / "bench.json", "-o", output, env=HERE)
        assert done.out.encode() == whole and "wrote standard output" in done.err
    call = f"{{ echo first; {KITH} report - -o - < {DATA / 'bench.json'}; echo last; }} > out"
    subprocess.run(["bash", "-c", call], cwd=folder, env={**os.environ, **HERE}, check=True, stderr=subprocess.DEVNULL)
    out = (folder / "out").read_bytes()
    assert out.startswith(b"first\n<!") and out.endswith(b"</html>\nlast\n") and b"Queries a second" in out
    done = subprocess.run(
        [KITH, "report", "-", "-o", "x.html"], input=result, cwd=folder, env={**os.environ, **HERE}, capture_output=True
    )
    assert done.returncode == 0 and b"Queries a second" in (folder / "x.html").read_bytes()
    assert "only once" in kith("report", "-", "-", "-o", "y.html", env=HERE, code=1).err
    assert "--json" in kith("report", DATA / "bench.json", "-o", "-", "--json", env=HERE, code=1).err
    shutil.copy(DATA / "bench.json", folder / "result.json")
    os.link(folder / "result.json", folder / "hard.json")
    assert "is an input" in kith("report", "result.json", "-o", "hard.json", env=HERE, code=1).err
    assert files_of(folder) == ["hard.json", "out", "page.html", "result.json", "x.html"]


def test_names_that_begin_with_a_dash(kith, folder):
    shutil.copy(DATA / "bench.json", folder / "-x.json")
    kith("report", "-o", "-page.html", "--title", "--json", "--", "-x.json", env=HERE)
    assert "<h1>--json</h1>" in (folder / "-page.html").read_text()


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.covers("report", "--python")
def test_the_python_that_draws(kith, folder):
    """The one that is named, by option before environment; whatever is wrong with it is said."""
    call = ["report", DATA / "bench.json", "-o", "x.html"]
    kith(*call, "--python", sys.executable, env={"KITH_PYTHON": "/gone"})
    for python, why in (
        ("/gone/python", "'/gone/python' does not exist"),
        ("no-such-python", "cannot start 'no-such-python': No such file"),
        (program(folder, "old", "exit 3"), "is older than Python 3.10"),
        (program(folder, "bare", "exit 4"), "has no matplotlib"),
        (program(folder, "odd", "exit 7"), "is no Python: it ended with status 7"),
    ):
        for named in (["--python", python], []):
            done = kith(*call, *named, env={} if named else {"KITH_PYTHON": python}, code=2)
            assert why in done.err and "pip install matplotlib" in done.err and "KITH_PYTHON" in done.err
    # It says it can, and then does not.
    broken = program(folder, "broken", '[ "$1" = -c ] || { echo oh >&2; exit 9; }')
    done = kith(*call, "--python", broken, code=2)
    assert "ended with status 9 and no report; its own message is above" in done.err and "oh\n" in done.err
    bare = {"PATH": str(folder), "KITH_PYTHON": ""}
    if not (KITH.parent.parent / "venv/bin/python").exists():
        assert "'python3'" in kith(*call, env=bare, code=2).err


def test_an_installed_program_finds_its_report(kith, folder):
    """Beside it in share/kith, where `make install` puts it; without either, the package of the Python."""
    (folder / "bin").mkdir()
    shutil.copy(KITH, folder / "bin/kith")
    shutil.copytree(
        ROOT / "python/kith/report", folder / "share/kith/report", ignore=shutil.ignore_patterns("__pycache__")
    )
    page = folder / "share/kith/report/_page.py"
    page.write_text(page.read_text().replace("<footer>", "<footer>the installed one "))
    call = [folder / "bin/kith", "report", DATA / "bench.json", "-o", folder / "x.html"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(call, check=True, env={**environment, **HERE}, cwd=folder, capture_output=True)
    assert "the installed one" in (folder / "x.html").read_text()
    assert not list(folder.rglob("__pycache__"))
    shutil.rmtree(folder / "share")
    done = subprocess.run(
        call, env={**environment, **HERE, "PYTHONPATH": str(folder)}, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode in (0, 2) and (done.returncode == 0 or "kith.report" in done.stderr)


def test_stopped_while_drawing(folder):
    """SIGTERM to the program alone ends the Python too, and leaves no file."""
    slow = program(
        folder,
        "slow",
        f'[ "$1" = -c ] && exit 0; echo $$ > pid; exec {sys.executable} -c "import time; time.sleep(60)"',
    )
    process = subprocess.Popen(
        [KITH, "report", DATA / "bench.json", "-o", "x.html", "--python", slow],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not ((folder / "pid").exists() and (folder / "pid").read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child = int((folder / "pid").read_text())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 143 and "interrupted; no output was written" in err
    assert files_of(folder) == ["pid", "slow"]
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
