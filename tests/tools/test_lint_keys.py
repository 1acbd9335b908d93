"""tools/lint_keys.py: which files clang-tidy need not look at again."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "lint_keys.py"
COMMAND = "g++ -O1 -c {root}/src/a.cpp -o a.o"
RULES = """
rule cxx
  command = g++ -O1 -MD -MF $out.d -c {root}/src/a.cpp -o $out
  depfile = $out.d
  deps = gcc
build a.o: cxx {root}/src/a.cpp
"""

pytestmark = pytest.mark.skipif(not shutil.which("ninja") or not shutil.which("g++"), reason="needs ninja and g++")


def make(root):
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.hpp").write_text("inline int two() { return 2; }\n")
    (root / "src" / "a.cpp").write_text('#include "a.hpp"\nint four() { return 2 * two(); }\n')
    build(root)
    return root


def build(root, command=COMMAND):
    folder = root / "build"
    folder.mkdir(exist_ok=True)
    (folder / "build.ninja").write_text(RULES.format(root=root))
    entry = {"directory": str(folder), "file": str(root / "src" / "a.cpp"), "command": command.format(root=root)}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    subprocess.run(["ninja", "-C", folder], check=True, capture_output=True)


def key_in(root, *files):
    run = subprocess.run(
        [sys.executable, SCRIPT, "build", *(files or ["src/a.cpp"])],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return run.stdout.split()


def change(file, text):
    time.sleep(0.01)
    file.write_text(text)


def test_the_same_files_have_the_same_key_in_every_folder(tmp_path):
    first = key_in(make(tmp_path / "one"))
    assert len(first) == 2 and first[1] == "src/a.cpp"
    assert key_in(make(tmp_path / "two")) == first


@pytest.mark.parametrize("file", ["a.cpp", "a.hpp"])
def test_a_change_has_another_key_once_it_is_compiled(tmp_path, file):
    root = make(tmp_path / "one")
    before = key_in(root)
    text = (root / "src" / file).read_text()
    change(root / "src" / file, text + "// NOLINT\n")
    assert key_in(root) == []  # what it includes may have changed as well
    build(root)
    after = key_in(root)
    assert after and after != before
    change(root / "src" / file, text)
    build(root)
    assert key_in(root) == before


def test_other_arguments_have_another_key(tmp_path):
    root = make(tmp_path / "one")
    before = key_in(root)
    build(root, COMMAND + " -DMORE")
    assert key_in(root) != before


def test_what_was_not_compiled_has_none(tmp_path):
    root = make(tmp_path / "one")
    (root / "src" / "b.cpp").write_text("int b;\n")
    assert key_in(root, "src/b.cpp") == []
    (root / "build" / "a.o").unlink()
    assert key_in(root) == []
