"""Help, manual and completions: complete, readable, and all from the same tree."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from program import KITH, ROOT

COMMANDS = [
    "knn",
    "build",
    "shard",
    "search",
    "insert",
    "tune",
    "all-knn",
    "radius",
    "normals",
    "outliers",
    "evaluate",
    "codes",
    "import",
    "export",
    "convert",
    "info",
    "verify",
    "generate",
    "devices",
    "bench",
    "ladder",
    "report",
    "completion",
    "man",
    "help",
]


def text(*arguments):
    return subprocess.run([KITH, *arguments], check=True, capture_output=True, text=True).stdout


def sections(page):
    return dict(re.findall(r"^([A-Z][\w @]*):\n((?:(?:  .*)?\n)+)", page, re.M))


def options_of(command):
    """Long names of the options and names of the arguments that a help page lists."""
    names = []
    for title, body in sections(text(command, "--help")).items():
        if title == "Examples":
            continue
        for line in body.splitlines():
            option = re.match(r"  (?:-\w, |    )--([\w-]+)", line)
            if option:
                names.append("--" + option[1])
            elif title == "Arguments" and re.match(r"  [A-Z]", line):
                names.append(line.split()[0].rstrip("."))
    return names


def test_top_help_lists_every_command():
    page = text("--help")
    listed = re.findall(r"^  ([\w-]+) ", sections(page)["Commands"], re.M)
    assert sorted(listed) == sorted(COMMANDS)
    assert text("-h") == page == text("help")
    for code in ["0 success", "1 usage", "2 input", "3 memory", "4 device", "70 ", "130, 143"]:
        assert code in " ".join(sections(page)["Exit status"].split())


@pytest.mark.covers("help", "COMMAND")
@pytest.mark.parametrize("command", COMMANDS)
def test_pages(command):
    page = text(command, "--help")
    assert page == text(command, "-h") == text("help", command)
    lines = page.splitlines()
    assert re.match(r"[A-Z].*\.$", lines[0]), "one sentence comes first"
    assert lines[2].startswith(f"Usage: kith {command}")
    assert max(map(len, lines)) <= 100
    assert not any(line != line.rstrip() for line in lines)
    examples = sections(page + "\n")["Examples"]
    assert f"kith {command}" in examples
    if command not in ("completion", "man", "help", "devices"):
        assert re.search(r"-[hjq-]", page)
    for name in ["--json", "--quiet", "--help"]:
        assert name in options_of(command)


def test_metrics_are_explained_and_defaults_shown():
    page = text("knn", "--help")
    for metric in ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"]:
        assert re.search(rf"^ +{metric}  +\S", page, re.M)
    for default in ["[default: 10]", "[default: sqeuclidean]", "[default: auto]", "[default: cpu]", "[default: none]"]:
        assert default in page


def covered():
    """(command, option) pairs that the tests of this folder claim."""
    pairs = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for arguments in re.findall(r"mark\.covers\(([^)]*)\)", path.read_text()):
            command, *options = re.findall(r'"([^"]+)"', arguments)
            pairs |= {(command, option) for option in options}
    return pairs


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "bench"])
def test_every_option_has_a_test(command):
    """Each option of a help page is named by a `covers` mark on a test that fails were it ignored."""
    missing = [name for name in options_of(command) if name != "--help" and (command, name) not in covered()]
    assert not missing
    known = {option for name, option in covered() if name == command}
    assert known <= set(options_of(command)), "a test covers an option that is gone"


def test_examples_name_real_options():
    """Every option in an example is one of its command."""
    for command in COMMANDS:
        for line in sections(text(command, "--help") + "\n")["Examples"].splitlines():
            words = line.split()
            if words[:1] != ["kith"]:
                continue
            for word in words[2:]:
                if word.startswith("--"):
                    assert word in options_of(words[1]), line


def test_version():
    assert re.fullmatch(r"kith \d+\.\d+\.\d+\n", text("--version"))


def test_no_arguments_is_a_usage_error():
    process = subprocess.run([KITH], capture_output=True, text=True)
    assert process.returncode == 1 and process.stdout == "" and "Usage: kith COMMAND" in process.stderr


@pytest.mark.covers("devices", "--json", "--quiet")
def test_devices(kith):
    listed = kith("devices", "--json").json["devices"]
    assert listed[0]["device"] == "cpu" and listed[0]["usable"] and listed[0]["cores"] >= 1
    assert "portable" in listed[0]["instruction_sets"]
    shown = kith("devices", "--quiet")
    assert "cpu" in shown.out and "portable" in shown.out and shown.err == ""


@pytest.mark.covers("man", "--json", "--quiet", "--markdown")
@pytest.mark.covers("completion", "--json", "--quiet", "SHELL")
@pytest.mark.covers("help", "--json", "--quiet")
def test_json_of_the_texts(kith):
    assert kith("man", "--json").json["text"] == text("man") == text("man", "-q")
    assert kith("man", "--json", "--markdown").json["text"] == text("man", "--markdown") != text("man")
    for shell in ["bash", "zsh", "fish"]:
        assert (
            kith("completion", shell, "--json").json["script"]
            == text("completion", shell)
            == text("completion", shell, "-q")
        )
    assert kith("help", "knn", "--json").json["text"] == text("help", "knn", "-q")


def test_manual_renders_without_warnings(tmp_path):
    page = tmp_path / "kith.1"
    page.write_text(text("man"))
    if shutil.which("mandoc"):
        command = ["mandoc", "-T", "lint", "-W", "warning", page]
        assert subprocess.run(command, capture_output=True, text=True).stdout == ""
    elif shutil.which("groff"):
        command = ["groff", "-ww", "-man", "-Tutf8", page]
    else:
        pytest.skip("neither mandoc nor groff is here")
    rendered = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", page] if shutil.which("groff") else ["mandoc", page], capture_output=True
    )
    assert rendered.stderr == b""
    shown = re.sub(r"\x1b\[[\d;]*m|.\x08", "", rendered.stdout.decode())
    for command in COMMANDS:
        assert f"kith {command}" in shown
    assert "--memory-limit" in shown and "EXIT STATUS" in shown
    assert (tmp_path / "kith.1").read_text().isascii()


def test_markdown_reference_is_current():
    """docs/cli.md is printed by the program; run `kith man --markdown > docs/cli.md` after a change."""
    assert (ROOT / "docs" / "cli.md").read_text() == text("man", "--markdown")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_parse(tmp_path, shell):
    script = tmp_path / "script"
    script.write_text(text("completion", shell))
    for command in COMMANDS:
        assert command in script.read_text()
    assert "metric" in script.read_text() and "manhattan" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    subprocess.run([shell, "-n", script], check=True)


def test_flags_take_no_value():
    assert "--json[" in text("completion", "zsh") and "--json=" not in text("completion", "zsh")
    assert "--metric=[" in text("completion", "zsh")
    assert re.search(r"-l json -d", text("completion", "fish")) and re.search(
        r"-l metric -x", text("completion", "fish")
    )
    assert "--json `" not in text("man", "--markdown")


def complete(*words):
    """What bash offers after these words."""
    script = (
        text("completion", "bash")
        + f"""
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
_kith
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    )
    return subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout.split()


def test_bash_completes(folder):
    (folder / "base.npy").write_text("")
    assert set(COMMANDS) <= set(complete("kith", ""))
    assert complete("kith", "kn") == ["knn"]
    assert complete("kith", "knn", "--metr") == ["--metric"]
    assert complete("kith", "knn", "--metric", "") == [
        "sqeuclidean",
        "euclidean",
        "inner_product",
        "cosine",
        "manhattan",
    ]
    assert complete("kith", "knn", "ba") == ["base.npy"]
    assert complete("kith", "knn", "base.npy", "-o", "ba") == ["base.npy"]
    assert complete("kith", "completion", "") == ["bash", "zsh", "fish"]
    assert complete("kith", "generate", "te") == ["terrain_scan"]
    assert complete("kith", "knn", "--json", "--metr") == ["--metric"]
    for command in COMMANDS:
        if command != "bench":
            assert {name for name in options_of(command) if name.startswith("--")} == set(
                complete("kith", command, "--")
            )


def test_installed_files_are_the_printed_ones():
    share = KITH.parent.parent / "share"
    if not share.is_dir():
        pytest.skip("not a build folder")
    assert (share / "kith.1").read_text() == text("man")
    assert (share / "kith.bash").read_text() == text("completion", "bash")
    assert os.path.getsize(share / "_kith") and os.path.getsize(share / "kith.fish")
