"""`-`, pipes, process substitution and devices as inputs and outputs; outputs that must not replace inputs."""

import json
import os
import resource
import stat
import subprocess
import threading

import numpy as np
import pytest
from program import KITH, files_of


@pytest.fixture
def data(folder):
    base = np.random.default_rng(7).standard_normal((300, 3)).astype(np.float32)
    np.save("base.npy", base)
    np.save("queries.npy", base[:9])
    run("convert", "base.npy", "base.fvecs")
    run("convert", "queries.npy", "queries.fvecs")
    run("convert", "base.npy", "scan.ply")
    run("convert", "base.npy", "scan.las")
    run("convert", "base.npy", "base.h5")
    run("build", "base.npy", "-o", "base.kith")
    run("knn", "base.npy", "queries.npy", "-k", "3", "-o", "r.ivecs")
    run("knn", "base.npy", "queries.npy", "-k", "3", "-o", "r")
    run("knn", "base.npy", "queries.npy", "-k", "3", "-o", "r.json")
    return base


def run(*arguments, code=0, stdin=b"", timeout=60, **more):
    """Runs kith; bytes of stdout and the text of stderr."""
    more.setdefault("stdout", subprocess.PIPE)
    source = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run([KITH, *map(str, arguments)], stderr=subprocess.PIPE, timeout=timeout, **source, **more)
    assert done.returncode == code, f"status {done.returncode}, not {code}: {done.stderr.decode()}"
    return done.stdout, done.stderr.decode()


def shell(line, code=0):
    """A line of bash with kith on its path."""
    environment = {**os.environ, "PATH": f"{KITH.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == code, f"status {done.returncode}, not {code}: {done.stderr.decode()}"
    return done.stdout, done.stderr.decode()


def unchanged(folder):
    """Names and bytes of all files."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# What an output may not replace.


@pytest.mark.parametrize(
    "arguments, file",
    [
        (["convert", "base.npy", "base.npy"], "base.npy"),
        (["convert", "base.npy", "./base.npy"], "./base.npy"),
        (["convert", "link.npy", "base.npy"], "base.npy"),
        (["convert", "base.npy", "link.npy"], "link.npy"),
        (["convert", "base.npy", "hard.npy"], "hard.npy"),
        (["build", "base.h5", "-o", "alias"], "alias"),
        (["outliers", "scan.las", "-o", "scan.las"], "scan.las"),
        (["outliers", "base.npy", "--mark", "-o", "base.npy"], "base.npy"),
        (["normals", "scan.ply", "-o", "scan.ply"], "scan.ply"),
        (["knn", "base.npy", "q.indices.npy", "-k", "1", "-o", "q"], "q.indices.npy"),
        (["knn", "base.npy", "q.indices.npy", "-k", "1", "-o", "q.npy"], "q.indices.npy"),
        (["knn", "q.distances.npy", "queries.npy", "-k", "1", "-o", "q"], "q.distances.npy"),
        (["knn", "base.fvecs", "queries.fvecs", "-k", "1", "-o", "queries.ivecs"], "queries.fvecs"),
        (["knn", "base.h5", "queries.npy", "-k", "1", "-o", "base.h5"], "base.h5"),
        (["search", "base.kith", "q.indices.npy", "-k", "1", "-o", "q"], "q.indices.npy"),
        (["search", "base.kith", "queries.npy", "-k", "1", "-o", "base.kith", "--format", "json"], "base.kith"),
        (["all-knn", "q.distances.npy", "-k", "1", "-o", "q"], "q.distances.npy"),
        (["radius", "base.npy", "q.offsets.npy", "-r", "1", "-o", "q"], "q.offsets.npy"),
        (["radius", "base.npy", "queries.npy", "-r", "1", "--count", "-o", "queries.npy"], "queries.npy"),
        (["convert", "r.ivecs", "r.ivecs"], "r.ivecs"),
        (["convert", "r.indices.npy", "r"], "r.indices.npy"),
        (["bench", "base.npy", "queries.npy", "--repeats", "1", "-o", "base.npy"], "base.npy"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_output_replaces_an_input(folder, data, arguments, file):
    for name in ["q.indices.npy", "q.distances.npy", "q.offsets.npy"]:
        (folder / name).write_bytes((folder / "queries.npy").read_bytes())
    (folder / "link.npy").symlink_to("base.npy")
    (folder / "alias").symlink_to("base.h5")
    os.link("base.npy", "hard.npy")
    before = unchanged(folder)
    out, err = run(*arguments, code=1)
    assert out == b"" and f"cannot write '{file}'" in err and "input" in err
    assert unchanged(folder) == before


def test_standard_output_that_is_the_input(folder, data):
    before = unchanged(folder)
    _, err = shell("kith convert base.npy - --format npy >> base.npy", code=1)
    assert "input 'base.npy'" in err
    _, err = shell("kith convert - base.npy < base.npy", code=1)
    assert "cannot write 'base.npy'" in err
    assert unchanged(folder) == before


@pytest.mark.parametrize("name", ["x.npy", "x.fvecs", "x.bin", "x.las", "x.json", "x.txt", "x.h5"])
def test_an_index_is_not_called_data(folder, data, name):
    _, err = run("build", "base.npy", "-o", name, code=1)
    assert ".kith" in err and not (folder / name).exists()


# Streams as outputs.


@pytest.mark.parametrize("output", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["knn", "base.npy", "queries.npy", "-k", "2", "-o"],
        ["search", "base.kith", "queries.npy", "-k", "2", "-o"],
        ["all-knn", "base.npy", "-k", "2", "-o"],
        ["convert", "r.json"],
        ["convert", "base.npy"],
        ["generate", "uniform", "-n", "5", "-d", "2", "-o"],
        ["normals", "scan.ply", "-o"],
        ["outliers", "scan.ply", "-o"],
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_a_stream_needs_a_format(folder, data, arguments, output):
    before = files_of(folder)
    out, err = run(*arguments, output, code=1)
    assert out == b"" and "--format" in err and len(err.splitlines()) == 1
    assert files_of(folder) == before
    assert not any(name.startswith("stdout.") for name in os.listdir("/dev"))


@pytest.mark.parametrize("name", ["npy", "ivecs"])
def test_results_of_two_files_are_no_stream(folder, data, name):
    for output in ["-", "/dev/null"]:
        _, err = run("knn", "base.npy", "queries.npy", "-o", output, "--format", name, code=1)
        assert "two files" in err and "json" in err
    _, err = run("radius", "base.npy", "queries.npy", "-r", "1", "-o", "-", code=1)
    assert "three files" in err
    assert not any(name.startswith(("null.", "-.")) for name in [*os.listdir("/dev"), *files_of(folder)])


STREAMED = [
    (["knn", "base.npy", "queries.npy", "-k", "2", "-o", "OUT", "--format", "json"], "json"),
    (["knn", "base.npy", "queries.npy", "-k", "2", "-o", "OUT", "--format", "table"], "txt"),
    (["knn", "base.npy", "queries.npy", "-k", "2", "-o", "OUT", "--format", "ibin"], "ibin"),
    (["search", "base.kith", "queries.npy", "-k", "2", "-o", "OUT", "--format", "json"], "json"),
    (["all-knn", "base.npy", "-k", "2", "-o", "OUT", "--format", "table"], "txt"),
    (["radius", "base.npy", "queries.npy", "-r", "1", "--count", "-o", "OUT"], "npy"),
    (["normals", "scan.ply", "-o", "OUT", "--format", "ply"], "ply"),
    (["normals", "scan.ply", "-o", "OUT", "--format", "npy"], "npy"),
    (["outliers", "scan.ply", "-o", "OUT", "--format", "pcd"], "pcd"),
    (["outliers", "scan.las", "-o", "OUT", "--format", "las"], "las"),
    (["outliers", "base.npy", "--mark", "-o", "OUT"], "npy"),
    (["build", "base.npy", "-o", "OUT"], "kith"),
    (["convert", "base.npy", "OUT", "--format", "fvecs"], "fvecs"),
    (["convert", "r.json", "OUT", "--format", "ibin"], "ibin"),
    (["generate", "uniform", "-n", "5000", "-d", "9", "-o", "OUT", "--format", "npy"], "npy"),
]


@pytest.mark.covers("normals", "--format")
@pytest.mark.covers("outliers", "--format")
@pytest.mark.parametrize(
    "arguments, extension", STREAMED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_streams_get_what_files_get(folder, data, arguments, extension):
    def with_output(path):
        return [path if word == "OUT" else word for word in arguments]

    run(*with_output(f"whole.{extension}"))
    whole = (folder / f"whole.{extension}").read_bytes()
    before = files_of(folder)
    for output in ["-", "/dev/stdout"]:
        out, err = run(*with_output(output))
        assert out == whole and ("standard output" in err or "removed" in err)
    # A named pipe, process substitution, and a device.
    os.mkfifo("pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append(open("pipe", "rb").read()))
    reader.start()
    run(*with_output("pipe"))
    reader.join(timeout=30)
    assert got == [whole]
    os.unlink("pipe")
    shell(
        "kith "
        + " ".join(with_output(">(cat > copied)"))
        + "; for i in $(seq 100); do [ -s copied ] && break; sleep 0.05; done; sleep 0.2"
    )
    assert (folder / "copied").read_bytes() == whole
    os.unlink("copied")
    run(*with_output("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    # Appended to what is there, and after what the same shell group has written.
    shell("echo before > f; kith " + " ".join(with_output("-")) + " >> f; echo after >> f")
    assert (folder / "f").read_bytes() == b"before\n" + whole + b"after\n"
    for output in ["-", "/dev/stdout", "/dev/fd/1"]:
        shell(
            "{ echo one; kith " + " ".join(with_output(output)) + "; kith " + " ".join(with_output(output)) + "; } > f"
        )
        assert (folder / "f").read_bytes() == b"one\n" + whole + whole
    shell("{ echo one >&7; kith " + " ".join(with_output("/dev/fd/7")) + "; echo two >&7; } 7> f")
    assert (folder / "f").read_bytes() == b"one\n" + whole + b"two\n"
    os.unlink("f")
    assert files_of(folder) == before


def test_hdf5_goes_to_streams(folder, data):
    (folder / "got.h5").write_bytes(run("convert", "base.npy", "-", "--format", "hdf5")[0])
    run("convert", "got.h5", "back.npy")
    np.testing.assert_array_equal(np.load("back.npy"), data)
    (folder / "answer.h5").write_bytes(
        run("knn", "base.npy", "queries.npy", "-k", "3", "-o", "-", "--format", "hdf5")[0]
    )
    assert "exact queries     9 (100 %)" in run("evaluate", "answer.h5", "r")[0].decode()


def test_json_does_not_mix_with_data(folder, data):
    _, err = run("knn", "base.npy", "queries.npy", "-o", "-", "--format", "json", "--json", code=1)
    assert "--json" in json.loads(err)["error"]["message"]
    with open("out", "wb") as out:
        run("generate", "uniform", "-n", "5", "-o", "-", "--format", "npy", "--json", code=1, stdout=out)
    assert os.path.getsize("out") == 0
    os.unlink("out")
    # Other streams leave standard output to --json.
    shell("kith generate uniform -n 5 -d 2 -o /dev/fd/5 --format npy --json 5> out > said")
    assert np.load("out").shape == (5, 2) and json.load(open("said"))["rows"] == 5


def test_measurements_to_standard_output(folder, data):
    out, _ = run(
        "bench", "base.npy", "-", "-k", "1", "--repeats", "1", "-o", "-", stdin=(folder / "queries.npy").read_bytes()
    )
    assert json.loads(out)["runs"]
    out, _ = run("ladder", "--case", "3,4,50", "--rungs", "1", "--repeat", "1", "--device", "cpu", "-o", "-")
    assert json.loads(out)["cases"]


def test_a_closed_standard_output_is_an_error(folder, data):
    before = unchanged(folder)
    _, err = shell("kith convert base.npy - --format npy >&-", code=2)
    assert "cannot write" in err
    assert unchanged(folder) == before


# Streams as inputs.

READING = [
    ["knn", "IN:base.npy", "queries.npy", "-k", "2"],
    ["knn", "base.npy", "IN:queries.npy", "-k", "2", "--json"],
    ["build", "IN:base.npy", "-o", "made.kith", "-q"],
    ["search", "IN:base.kith", "queries.npy", "-k", "2"],
    ["search", "base.kith", "IN:queries.npy", "-k", "2"],
    ["all-knn", "IN:base.npy", "-k", "2"],
    ["radius", "IN:base.npy", "queries.npy", "-r", "1"],
    ["radius", "base.npy", "IN:queries.npy", "-r", "1", "--count"],
    ["normals", "IN:scan.ply", "-o", "made.npy", "-q"],
    ["outliers", "IN:scan.las", "-o", "made.las", "-q"],
    ["outliers", "IN:base.npy", "-o", "made.npy", "-q"],
    ["evaluate", "IN:r.json", "r"],
    ["evaluate", "r", "IN:r.json", "--json"],
    ["convert", "IN:base.npy", "made.fvecs", "-q"],
    ["convert", "IN:base.h5", "made.fvecs", "-q"],
    ["convert", "IN:scan.las", "made.npy", "-q", "--rows", "3:20"],
    ["convert", "IN:r.json", "made.txt", "-q"],
    ["info", "IN:base.npy", "--json"],
    ["info", "IN:base.kith", "--json"],
    ["info", "IN:base.h5", "--json", "--stats"],
]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_pipes_are_read_like_files(folder, data, arguments):
    name = next(word for word in arguments if word.startswith("IN:"))[3:]

    def with_input(path):
        return [path if word.startswith("IN:") else word for word in arguments]

    def forget(out):
        """The output without times and names."""
        text = out.decode()
        for shown in ["pipe", "-", "/dev/stdin", name]:
            text = text.replace(f'"file": "{shown}"', '"file": ""')
        return [line for line in text.splitlines() if "seconds" not in line and "/dev/fd/" not in line]

    def outcome(out):
        made = {path.name: path.read_bytes() for path in folder.glob("made*")}
        for path in folder.glob("made*"):
            path.unlink()
        return forget(out), made

    expected = outcome(run(*with_input(name))[0])
    content = (folder / name).read_bytes()
    assert outcome(run(*with_input("-"), stdin=content)[0]) == expected
    with open(name, "rb") as file:
        assert outcome(run(*with_input("-"), stdin=file)[0]) == expected
    assert outcome(run(*with_input("/dev/stdin"), stdin=content)[0]) == expected
    out, _ = shell("kith " + " ".join(with_input(f"<(cat {name})")))
    found = outcome(out)
    assert found[1] == expected[1] and [line for line in expected[0] if '"file"' not in line] == [
        line for line in found[0] if '"file"' not in line
    ]
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: open("pipe", "wb").write(content))
    writer.start()
    assert outcome(run(*with_input("pipe"))[0]) == expected
    writer.join(timeout=30)


@pytest.mark.covers("knn", "--input-format")
@pytest.mark.covers("build", "--input-format")
@pytest.mark.covers("search", "--input-format")
@pytest.mark.covers("all-knn", "--input-format")
@pytest.mark.covers("radius", "--input-format")
@pytest.mark.covers("normals", "--input-format")
@pytest.mark.covers("outliers", "--input-format")
@pytest.mark.covers("info", "--input-format")
@pytest.mark.parametrize(
    "arguments",
    [
        ["knn", "base.npy", "-"],
        ["knn", "-", "queries.npy"],
        ["build", "-", "-o", "x.kith"],
        ["search", "base.kith", "-"],
        ["all-knn", "-"],
        ["radius", "-", "queries.npy", "-r", "1"],
        ["normals", "-", "-o", "x.ply"],
        ["outliers", "-", "-o", "x.ply"],
        ["convert", "-", "x.npy"],
        ["info", "-"],
        ["bench", "base.npy", "-", "--repeats", "1"],
    ],
    ids=" ".join,
)
def test_input_format_where_nothing_tells(folder, data, arguments):
    content = (
        (folder / "queries.fvecs").read_bytes()
        if "base.npy" in arguments or "base.kith" in arguments
        else (folder / "base.fvecs").read_bytes()
    )
    before = files_of(folder)
    _, err = run(*arguments, stdin=content, code=2)
    assert "--input-format" in err and "standard input" in err and files_of(folder) == before
    run(*arguments, "--input-format", "fvecs", stdin=content)
    _, err = run(*arguments, "--input-format", "u8bin", stdin=content, code=2)
    assert "standard input" in err


@pytest.mark.covers("evaluate", "--input-format")
def test_input_format_of_results(folder, data):
    out, _ = run("evaluate", "-", "r", "--input-format", "ivecs", stdin=(folder / "r.ivecs").read_bytes())
    assert "exact queries     9 (100 %)" in out.decode()
    run("evaluate", "-", "r", stdin=(folder / "r.ivecs").read_bytes(), code=2)
    out, _ = run(
        "convert", "-", "-", "--input-format", "ivecs", "--format", "table", stdin=(folder / "r.ivecs").read_bytes()
    )
    assert b"queries 9, k 3" in out


def test_input_format_of_files_whose_names_tell(folder, data):
    """Of one input it says what the name says wrongly; of two that tell, both."""
    (folder / "wrong.npy").write_bytes((folder / "base.fvecs").read_bytes())
    run("info", "wrong.npy", code=2)
    assert b"fvecs" in run("info", "wrong.npy", "--input-format", "fvecs")[0]
    (folder / "also.npy").write_bytes((folder / "queries.fvecs").read_bytes())
    assert (
        run("knn", "wrong.npy", "also.npy", "-k", "2", "--input-format", "fvecs")[0]
        == run("knn", "base.npy", "queries.npy", "-k", "2")[0]
    )


@pytest.mark.parametrize("command", ["knn", "radius", "evaluate", "search", "info", "bench"])
def test_standard_input_is_read_once(folder, data, command):
    options = {"radius": ["-r", "1"]}.get(command, [])
    _, err = run(command, "-", "-", *options, stdin=(folder / "base.npy").read_bytes(), code=1)
    assert "only once" in err
    if command != "search":
        _, err = run(command, "-", "/dev/stdin", *options, stdin=(folder / "base.npy").read_bytes(), code=1)
        assert "only once" in err


def test_both_ends_are_pipes(folder, data):
    out, _ = shell(
        "cat base.npy | kith convert - - --format fvecs | kith convert - - --input-format fvecs --format npy | kith info - --json"
    )
    assert json.loads(out)["files"][0]["rows"] == 300
    out, _ = shell("kith knn <(cat base.npy) <(cat queries.fvecs) --input-format fvecs -k 1 2>&1", code=2)
    assert b"/dev/fd/" in out  # the npy is not fvecs: the format is for both
    out, _ = shell(
        "kith knn <(cat base.npy) <(cat queries.npy) -k 2 -o - --format ibin | kith evaluate - r -k 2 --input-format ibin"
    )
    assert b"exact queries     9 (100 %)" in out


def test_standard_input_from_where_it_stands(folder, data):
    """A file that the shell has read a part of is not read from its start."""
    (folder / "both").write_bytes(b"a first line\n" + (folder / "base.npy").read_bytes())
    out, _ = shell("{ read line; kith info - --json; } < both")
    assert json.loads(out)["files"][0]["rows"] == 300


def test_streams_keep_to_the_memory_limit(folder, data):
    np.save("large.npy", np.zeros((2_000_000, 3), np.float32))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    _, err = shell("cat large.npy | kith knn - queries.npy --memory-limit 10MB", code=3)
    assert "--memory-limit is" in err and "standard input" in err and "save it to a file" in err
    _, err = shell("cat /dev/zero | kith convert - x.npy --input-format npy --memory-limit 20MB", code=3)
    assert "standard input" in err
    assert max(before, 100_000) >= resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def test_empty_and_foreign_streams(folder, data):
    assert "'standard input' is empty" in run("info", "-", "--input-format", "npy", code=2)[1]
    assert "standard input" in run("info", "-", stdin=b"GIF89a" + bytes(100), code=2)[1]
    whole = (folder / "base.npy").read_bytes()
    assert "'standard input' is truncated" in run("info", "-", stdin=whole[: len(whole) // 2], code=2)[1]
    _, err = shell("kith info - <&-", code=2)
    assert "standard input" in err
