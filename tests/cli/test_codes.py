"""kith codes: bytes, error and recall of codes, files that hold them, refusals."""

import resource
import subprocess

import numpy as np
import pytest
from program import KITH, files_of


@pytest.fixture
def data(folder):
    random = np.random.default_rng(5)
    turn = random.standard_normal((8, 24)).astype(np.float32)
    noise = random.standard_normal((2000, 24)).astype(np.float32) / 4
    base = random.standard_normal((2000, 8)).astype(np.float32) @ turn + noise
    np.save("base.npy", base)
    np.save("queries.npy", base[:30] + np.float32(0.1))
    return base


def codes(kith, *arguments):
    return kith("codes", "base.npy", "--json", *arguments).json


@pytest.mark.covers("codes", "BASE", "--kind", "--bits", "--json")
def test_kinds_and_bits(kith, data):
    bytes_and_errors = {}
    for arguments, size in [
        ([], 12 + 16),
        (["--bits", 1], 12 + 4),
        (["--bits", 8], 12 + 32),
        (["--kind", "scalar"], 32),
        (["--kind", "scalar", "--bits", 4], 32),
        (["--kind", "pq"], 6),
    ]:
        out = codes(kith, *arguments)
        assert (out["rows"], out["dim"], out["code_bytes"]) == (2000, 24, size)
        assert out["codes_bytes"] == 2000 * size and out["row_bytes"] == 96
        bytes_and_errors[" ".join(map(str, arguments))] = out["reconstruction_error"]
    errors = bytes_and_errors
    assert errors["--bits 8"] < errors[""] < errors["--bits 1"] < 1
    assert errors["--kind scalar"] < errors["--kind scalar --bits 4"]


@pytest.mark.covers("codes", "--queries", "--neighbors", "--max-queries")
def test_recall(kith, data):
    low, high = (codes(kith, "--bits", bits, "--queries", "queries.npy") for bits in (1, 8))
    assert (high["k"], high["queries"]) == (10, 30)
    assert low["recall"] < high["recall"] and high["recall"] > 0.95
    one = codes(kith, "--bits", 1, "--queries", "queries.npy", "-k", 1)
    assert one["k"] == 1 and one["recall"] != low["recall"]
    few = codes(kith, "--queries", "queries.npy", "--max-queries", 7)
    assert few["queries"] == 7
    assert "recall" not in codes(kith)


@pytest.mark.covers("codes", "--metric")
def test_metric(kith, data):
    # Lengths decide inner products: another metric finds other rows, and ranks them by what it is.
    square, product = (
        codes(kith, "--bits", 8, "--queries", "queries.npy", "--metric", metric)
        for metric in ("sqeuclidean", "inner_product")
    )
    assert (square["metric"], product["metric"]) == ("sqeuclidean", "inner_product")
    assert product["recall"] > 0.9


@pytest.mark.covers("codes", "--subspaces", "--rotate", "--iterations", "--training-rows", "--seed")
def test_parameters(kith, data):
    def error(*arguments):
        return codes(kith, "--kind", "pq", *arguments)["reconstruction_error"]

    errors = [
        error(*given)
        for given in (
            [],
            ["--subspaces", 8],
            ["--rotate"],
            ["--rotate", "--seed", 3],
            ["--iterations", 1],
            ["--training-rows", 300],
        )
    ]
    assert len(set(errors)) == 6
    assert codes(kith, "--kind", "pq", "--subspaces", 8)["code_bytes"] == 8
    assert codes(kith, "--seed", 1)["reconstruction_error"] != codes(kith)["reconstruction_error"]


@pytest.mark.covers("codes", "--output", "--codes", "--quiet")
def test_files(kith, data):
    shown = kith("codes", "base.npy", "-o", "q.kith", "--codes", "codes.npy")
    assert "wrote 'q.kith': the quantizer" in shown.err or "wrote q.kith: the quantizer" in shown.err
    written = np.load("codes.npy")
    assert written.shape == (2000, 28) and written.dtype == np.uint8
    assert "quantizer" in kith("info", "q.kith").out and "rabitq" in kith("info", "q.kith").out
    quiet = kith("codes", "base.npy", "--quiet", "-o", "q2.kith")
    assert quiet.err == "" and open("q2.kith", "rb").read() == open("q.kith", "rb").read()
    assert "holds a quantizer" in kith("search", "q.kith", "queries.npy", code=2).err


def test_text(kith, data):
    text = kith("codes", "base.npy", "--queries", "queries.npy").out
    for words in [
        "2,000 x 24 f32",
        "rabitq, 4 bits a dimension",
        "28 instead of 96",
        "reconstruction error",
        "recall@10",
    ]:
        assert words in text


@pytest.mark.covers("codes", "--threads")
def test_threads_change_nothing(kith, data):
    for kind in ("scalar", "rabitq", "pq"):
        for threads in (1, 3):
            kith("codes", "base.npy", "--kind", kind, "--threads", threads, "--codes", f"{threads}.npy")
        assert open("1.npy", "rb").read() == open("3.npy", "rb").read()
    assert "--threads -1" in kith("codes", "base.npy", "--threads", -1, code=1).err


@pytest.mark.covers("codes", "--base-member", "--query-member", "--input-format")
def test_inputs(kith, data, folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File("data.hdf5", "w") as file:
        file["rows"] = data[:500]
        file["asked"] = data[:9]
        file["train"] = data
    out = kith("codes", "data.hdf5", "--base-member", "rows", "--json").json
    assert out["rows"] == 500
    out = kith(
        "codes", "data.hdf5", "--base-member", "rows", "--queries", "data.hdf5", "--query-member", "asked", "--json"
    ).json
    assert out["queries"] == 9
    (folder / "base.npy").rename(folder / "base")
    assert kith("codes", "base", "--input-format", "npy", "--json").json["rows"] == 2000


@pytest.mark.covers("codes", "--memory-limit", "--device", "--device-memory-limit")
def test_limits(kith, data):
    assert "--device cpu is none" in kith("codes", "base.npy", "--device-memory-limit", "2GiB", code=1).err
    assert "limit" in kith("codes", "base.npy", "--memory-limit", "100kB", code=3).err
    assert "nothing" in kith("codes", "base.npy", "--device", "nothing", code=1).err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--kind", "opq"], "opq"),
        (["--bits", 9], "rabitq codes of 9 bits; use 1 to 8"),
        (["--kind", "scalar", "--bits", 5], "use 8 or 4"),
        (["--kind", "pq", "--bits", 4], "--bits is for scalar and rabitq codes, not for pq"),
        (["--subspaces", 4], "--subspaces is for pq codes, not for rabitq"),
        (["--rotate"], "--rotate is for pq"),
        (["--iterations", 4], "--iterations is for pq"),
        (["--training-rows", 4], "--training-rows is for pq"),
        (["--kind", "scalar", "--seed", 4], "--seed is for rabitq and pq"),
        (["--kind", "pq", "--subspaces", 25], "25 subspaces"),
        (["--metric", "cosine"], "cosine"),
        (["-k", 0], "-k 0"),
        (["--max-queries", 3], "without --queries"),
        (["-o", "codes.npy"], "npy files"),
        (["-o", "base.npy"], "npy"),
        (["--codes", "base.npy"], "base.npy"),
        (["--codes", "codes.fvecs"], "fvecs"),
    ],
)
def test_refusals(kith, data, arguments, words):
    assert words in kith("codes", "base.npy", *arguments, code=1).err


def test_values_that_cannot_be_coded(kith, data):
    data[7, 3] = np.nan
    np.save("base.npy", data)
    assert "row 7 of the rows" in kith("codes", "base.npy", code=1).err


def test_both_files_or_none(folder):
    """The second of them does not fit."""
    np.save("base.npy", np.random.default_rng(3).random((20_000, 32), dtype=np.float32))
    process = subprocess.run(
        [str(KITH), "codes", "base.npy", "--bits", "8", "-o", "q.kith", "--codes", "c.npy"],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
    )
    assert process.returncode == 2 and b"c.npy" in process.stderr
    assert files_of(folder) == ["base.npy"]
