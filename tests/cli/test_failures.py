"""Bad input: one clear line, the documented exit status, and no partial output."""

import json
import os
import stat

import numpy as np
import pytest
from program import files_of


@pytest.fixture
def data(folder):
    base = np.random.default_rng(5).standard_normal((200, 6)).astype(np.float32)
    np.save("base.npy", base)
    np.save("queries.npy", base[:9])
    np.save("other.npy", np.zeros((4, 7), np.float32))
    open("foreign.npy", "wb").write(b"GIF89a" + bytes(100))
    open("text.fvecs", "w").write("these are no vectors at all\n")
    open("empty.npy", "wb").close()
    whole = open("base.npy", "rb").read()
    open("short.npy", "wb").write(whole[: len(whole) // 2])
    os.mkdir("folder")
    return files_of(folder)


CASES = [
    (["knn", "base.npy", "queries.npy", "-k", "0"], 1, "-k 0"),
    (["knn", "base.npy", "queries.npy", "-k", "-3"], 1, "-k -3"),
    (["knn", "base.npy", "queries.npy", "-k", "ten"], 1, "-k (--neighbors): 'ten' is not a whole number"),
    (["knn", "base.npy", "queries.npy", "-k", "99999999999999999999"], 1, "-k (--neighbors)"),
    (["knn", "base.npy", "queries.npy", "-k"], 1, "needs a value"),
    (["knn", "base.npy", "queries.npy", "-k", "3", "-k", "4"], 1, "give it once"),
    (["knn", "base.npy", "queries.npy", "--max-queries", "-5"], 1, "--max-queries -5"),
    (["knn", "base.npy", "other.npy"], 1, "dimension 6"),
    (["knn", "base.npy", "gone.npy"], 2, "gone.npy"),
    (["knn", "gone.npy", "queries.npy"], 2, "gone.npy"),
    (["knn", "base.npy", "folder"], 2, "folder"),
    (["knn", "foreign.npy", "queries.npy"], 2, "foreign.npy"),
    (["knn", "text.fvecs", "queries.npy"], 2, "text.fvecs"),
    (["knn", "empty.npy", "queries.npy"], 2, "empty.npy"),
    (["knn", "short.npy", "queries.npy"], 2, "short.npy"),
    (["knn", "base.npy", "queries.npy", "--metric", "L2"], 1, "metric 'L2' means two things"),
    (["knn", "base.npy", "queries.npy", "--metric", "cosin"], 1, "did you mean 'cosine'?"),
    (["knn", "base.npy", "queries.npy", "--filter", "in8"], 1, "did you mean 'int8'?"),
    (["knn", "base.npy", "queries.npy", "--threads", "-1"], 1, "--threads -1"),
    (["knn", "base.npy", "queries.npy", "--device", "gpu"], 1, "'gpu'"),
    (["knn", "base.npy", "queries.npy", "--metrc", "cosine"], 1, "did you mean '--metric'?"),
    (["knn", "base.npy", "queries.npy", "--metrc=cosine"], 1, "did you mean '--metric'?"),
    (["knn", "base.npy", "queries.npy", "-q", "--metrc", "cosine"], 1, "did you mean '--metric'?"),
    (["knn", "base.npy", "queries.npy", "-z"], 1, "no option '-z'"),
    (["knn", "base.npy", "queries.npy", "more.npy"], 1, "'more.npy' is one argument too many"),
    (["knn", "base.npy"], 1, "QUERIES is missing"),
    (["knn"], 1, "BASE is missing"),
    (["knn", "base.npy", "queries.npy", "-o", "gone/r"], 2, "no folder 'gone'"),
    (["knn", "base.npy", "queries.npy", "-o", "folder"], 2, "is a folder"),
    (["knn", "base.npy", "queries.npy", "-o", "r.unknown"], 1, "'.unknown'"),
    (["knn", "base.npy", "queries.npy", "-o", "r.fvecs"], 1, "'.fvecs'"),
    (["knn", "base.npy", "queries.npy", "-o", ""], 1, "empty"),
    (["knn", "base.npy", "queries.npy", "-o", "/dev/full", "--format", "json"], 2, "No space left"),
    (["knn", "base.npy", "queries.npy", "--format", "yaml", "-o", "r"], 1, "one of"),
    (["build", "base.npy"], 1, "-o (--output) is missing"),
    (["build", "base.npy", "-o", "/dev/full"], 2, "No space left"),
    (["build", "base.npy", "-o", "gone/x"], 2, "no folder"),
    (["build", "foreign.npy", "-o", "x.kith"], 2, "foreign.npy"),
    (["search", "gone.kith", "queries.npy"], 2, "gone.kith"),
    (["convert", "base.npy", "folder"], 2, "is a folder"),
    (["convert", "base.npy", "/dev/full", "--format", "npy"], 2, "No space left"),
    (["convert", "base.npy", "x.txt"], 1, "'.txt'"),
    (["convert", "base.npy", "x"], 1, "no extension"),
    (["generate", "uniform", "-n", "5", "-o", "/dev/full", "--format", "npy"], 2, "No space left"),
    (["generate", "uniform", "-n", "9000000000000000000", "-o", "x.npy"], 3, "this machine has"),
    (["info", "gone.npy"], 2, "gone.npy"),
    (["info"], 1, "FILE is missing"),
    (["evaluate", "base.npy", "gone"], 2, ""),
    (["devices", "x"], 1, "too many"),
    (["completion", "tcsh"], 1, "bash, zsh, fish"),
    (["help", "knm"], 1, "did you mean 'knn'?"),
    (["knm", "base.npy"], 1, "did you mean 'knn'?"),
    (["serach"], 1, "did you mean 'search'?"),
    (["xyzzy"], 1, "no sub-command 'xyzzy'"),
    (["--jsn"], 1, "'--jsn'"),
    (["--json", "knn"], 1, "comes after the command"),
]


@pytest.mark.parametrize(
    "arguments, code, words", CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_one_clear_line(kith, data, folder, arguments, code, words):
    if arguments[0] == "--json":
        pytest.skip("this one is answered in JSON")
    outcome = kith(*arguments, code=code)
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert words in lines[0]
    command = "kith " + arguments[0] if not arguments[0].startswith("-") else "kith"
    if arguments[0] in ("knm", "serach", "xyzzy"):
        command = "kith"
    assert lines[0].startswith(f"{command}: error: ")
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("try 'kith"))
    assert files_of(folder) == data, "a failing call left something behind"
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode), "/dev/full must stay a device"


@pytest.mark.parametrize(
    "arguments, code, words", CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_errors_as_json(kith, data, folder, arguments, code, words):
    outcome = kith(*arguments, "--json", code=code) if arguments[0] != "--jsn" else kith(*arguments, code=code)
    if arguments[0] in ("--jsn",):
        return
    if arguments[-1] == "-k":  # --json became its value
        return
    assert outcome.out == ""
    error = json.loads(outcome.err)["error"]
    assert error["exit_code"] == code and words in error["message"]
    assert error["kind"] in {1: ("usage", "invalid_argument"), 2: ("io",), 3: ("out_of_memory",), 4: ("device",)}[code]
    assert files_of(folder) == data


@pytest.mark.parametrize(
    "arguments",
    [
        ["knn", "base.npy", "queries.npy"],
        ["knn", "base.npy", "queries.npy", "--json"],
        ["info", "base.npy"],
        ["devices"],
        ["man"],
        ["completion", "bash"],
        ["--help"],
        ["--version"],
        ["knn", "--help"],
    ],
)
def test_a_full_standard_output_is_an_error(kith, data, arguments):
    with open("/dev/full", "w") as full:
        outcome = kith(*arguments, code=2, stdout=full)
    assert "standard output" in outcome.err


def test_a_failing_search_keeps_the_old_answer(kith, data, folder):
    kith("knn", "base.npy", "queries.npy", "-k", 2, "-o", "r")
    before = (folder / "r.indices.npy").read_bytes()
    kith("knn", "base.npy", "other.npy", "-k", 3, "-o", "r", code=1)
    kith("knn", "base.npy", "queries.npy", "-k", 3, "-o", "r", "--memory-limit", 10, code=3)
    assert (folder / "r.indices.npy").read_bytes() == before


def test_links_stay_links(kith, data, folder):
    (folder / "target.npy").write_bytes(b"old")
    (folder / "link.npy").symlink_to("target.npy")
    kith("convert", "base.npy", "link.npy")
    assert (folder / "link.npy").is_symlink()
    assert (folder / "target.npy").read_bytes() == (folder / "base.npy").read_bytes()


def test_output_through_a_pipe(kith, data):
    outcome = kith("knn", "base.npy", "queries.npy", "-k", 1, "-o", "/dev/stdout", "--format", "json")
    assert json.loads(outcome.out)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(kith, data, folder):
    (folder / "folder").chmod(0o500)
    assert "Permission denied" in kith("knn", "base.npy", "queries.npy", "-o", "folder/r", code=2).err
