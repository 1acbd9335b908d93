"""kith generate: distributions, determinism, and each option."""

import hashlib

import numpy as np
import pytest
from program import files_of

KINDS = ["uniform", "gaussian", "clusters", "low_intrinsic_dimension", "terrain_scan"]


def make(kith, *arguments, name="out.npy"):
    kith("generate", *arguments, "-o", name)
    return np.load(name)


@pytest.mark.covers("generate", "KIND", "--rows", "--output", "--threads")
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_and_any_piece(kith, kind):
    whole = make(kith, kind, "-n", 5000, "--threads", 2)
    assert whole.shape == (5000, 3 if kind == "terrain_scan" else 128)
    assert whole.dtype == (np.float64 if kind == "terrain_scan" else np.float32)
    np.testing.assert_array_equal(make(kith, kind, "-n", 5000, "--threads", 1), whole)
    np.testing.assert_array_equal(make(kith, kind, "-n", 100, "--first-row", 4321), whole[4321:4421])
    assert len(np.unique(whole, axis=0)) > 4900


@pytest.mark.covers("generate", "--seed", "--first-row", "--dim")
@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_dimension(kith, kind):
    a = make(kith, kind, "-n", 50, "--seed", 1)
    assert (a != make(kith, kind, "-n", 50, "--seed", 2)).any(axis=1).all()
    assert (make(kith, kind, "-n", 50) != a).any()
    if kind != "terrain_scan":
        assert make(kith, kind, "-n", 5, "-d", 17).shape == (5, 17)
    else:
        kith("generate", kind, "-n", 5, "-d", 17, "-o", "x.npy", code=1)


# The same bits on every machine: recorded once, from the published definitions of Philox and AS 241.
GOLDEN = {
    "uniform": "cc55d2ccbf2146b1",
    "gaussian": "3469b0d8861216c9",
    "clusters": "1a4e86a05dd5298e",
    "low_intrinsic_dimension": "931551c1247632e2",
    "terrain_scan": "c07d50be01c8054e",
}


@pytest.mark.parametrize("kind", KINDS)
def test_golden_bits(kith, kind):
    rows = make(kith, kind, "-n", 1000, "--seed", 42, "--dtype", "f64")
    assert hashlib.sha256(rows.tobytes()).hexdigest()[:16] == GOLDEN[kind]


def philox(counter, key):
    """Philox 4x32-10 after Salmon et al., 2011."""
    counter, key = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def test_uniform_and_gaussian_by_definition(kith):
    from statistics import NormalDist

    uniform = make(kith, "uniform", "-n", 20, "-d", 4, "--seed", 7, "--dtype", "f64")
    gaussian = make(kith, "gaussian", "-n", 20, "-d", 4, "--seed", 7, "--dtype", "f64")
    for row in range(20):
        bits = []
        for block in range(2):
            word = philox([row, 0, block, 0], [7, 0])
            bits += [((word[2] << 32) | word[3]) >> 11, ((word[0] << 32) | word[1]) >> 11]
        assert uniform[row].tolist() == [value * 2.0**-53 for value in bits]
        want = [NormalDist().inv_cdf((value + 0.5) * 2.0**-53) for value in bits]
        np.testing.assert_allclose(gaussian[row], want, rtol=1e-14)


def test_distributions(kith):
    uniform = make(kith, "uniform", "-n", 20000, "-d", 4, "--dtype", "f64")
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.005
    gaussian = make(kith, "gaussian", "-n", 20000, "-d", 4, "--dtype", "f64")
    assert abs(gaussian.mean()) < 0.02 and abs(gaussian.std() - 1) < 0.01
    assert abs((gaussian**4).mean() - 3) < 0.2
    assert np.abs(np.corrcoef(gaussian.T) - np.eye(4)).max() < 0.03


@pytest.mark.covers("generate", "--clusters", "--spread")
def test_clusters(kith):
    tight = make(kith, "clusters", "-n", 2000, "-d", 8, "--clusters", 5, "--spread", 0.001)
    groups = np.unique(np.round(tight[:, :2], 1), axis=0)
    assert 5 <= len(groups) <= 10
    near = np.linalg.norm(tight[:, None] - tight[None, :50], axis=2)
    near = near[near > 0]
    assert ((near < 0.02) | (near > 0.5)).all()
    loose = make(kith, "clusters", "-n", 2000, "-d", 8, "--clusters", 1, "--spread", 2)
    assert abs(loose.std(axis=0).mean() - 2) < 0.1


@pytest.mark.covers("generate", "--intrinsic-dim", "--noise")
def test_low_intrinsic_dimension(kith):
    rows = make(
        kith, "low_intrinsic_dimension", "-n", 500, "-d", 32, "--intrinsic-dim", 3, "--noise", 0, "--dtype", "f64"
    )
    assert np.linalg.matrix_rank(rows, tol=1e-9) == 3
    rows = make(
        kith, "low_intrinsic_dimension", "-n", 500, "-d", 32, "--intrinsic-dim", 3, "--noise", 0.5, "--dtype", "f64"
    )
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) / np.sqrt(500)
    assert 0.4 < values[10] < 0.65


@pytest.mark.covers("generate", "--density", "--utm")
def test_terrain_scan(kith):
    points = make(kith, "terrain_scan", "-n", 40000)
    assert points[:, 2].min() >= 0 and points[:, 2].max() < 150 and points[:, 2].std() > 1
    for density in [1, 4]:
        points = make(kith, "terrain_scan", "-n", 40000, "--density", density)
        area = np.ptp(points[:, 0]) * np.ptp(points[:, 1])
        assert 0.8 < 40000 / area / density < 1.2
    far = make(kith, "terrain_scan", "-n", 40000, "--density", 4, "--utm")
    np.testing.assert_allclose(far - points, np.broadcast_to([500000, 5400000, 200], far.shape), atol=1e-6)
    assert len(np.unique(far.astype(np.float32), axis=0)) < len(np.unique(far, axis=0))
    np.testing.assert_allclose(points, np.round(points, 2), atol=1e-9)


@pytest.mark.covers("generate", "--dtype", "--normalize")
def test_element_types(kith):
    for dtype, numpy_type in [
        ("f32", np.float32),
        ("f16", np.float16),
        ("f64", np.float64),
        ("u8", np.uint8),
        ("i8", np.int8),
    ]:
        rows = make(kith, "uniform", "-n", 3000, "-d", 4, "--dtype", dtype)
        assert rows.dtype == numpy_type
    rows = make(kith, "uniform", "-n", 3000, "-d", 4, "--dtype", "u8")
    assert rows.min() == 0 and rows.max() == 255 and abs(rows.mean() - 127.5) < 2
    rows = make(kith, "gaussian", "-n", 3000, "-d", 4, "--dtype", "i8")
    assert abs(rows.astype(float).std() - 32) < 1 and abs(rows.mean()) < 1.5
    rows = make(kith, "gaussian", "-n", 300, "-d", 40, "--dtype", "f64", "--normalize")
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-14)
    assert "length 1" in kith("generate", "uniform", "-n", 3, "--dtype", "u8", "--normalize", "-o", "x.npy", code=1).err


@pytest.mark.covers("generate", "--format", "--memory-limit", "--json", "--quiet")
def test_shared_options(kith, folder):
    kith("generate", "uniform", "-n", 10, "-d", 4, "-o", "odd.name", "--format", "fvecs")
    assert (folder / "odd.name").stat().st_size == 10 * (4 + 16)
    assert (
        "--memory-limit" in kith("generate", "uniform", "-n", 1000, "-o", "x.npy", "--memory-limit", "1KiB", code=3).err
    )
    told = kith("generate", "uniform", "-n", 10, "-d", 4, "--seed", 5, "-o", "y.npy", "--json").json
    assert told["rows"] == 10 and told["seed"] == 5 and told["file"] == "y.npy"
    assert "wrote" in kith("generate", "uniform", "-n", 10, "-o", "y.npy").err
    assert kith("generate", "uniform", "-n", 10, "-o", "y.npy", "--quiet").err == ""
    assert files_of(folder) == ["odd.name", "y.npy"]


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["gaussian", "-n", -1], "-1 rows"),
        (["gaussian", "-n", 5, "-d", 0], "at least 1"),
        (["gaussian", "-n", 5, "-d", -4], "dimension -4"),
        (["gaussian", "-n", 5, "--clusters", 3], "--clusters"),
        (["uniform", "-n", 5, "--utm"], "--utm"),
        (["clusters", "-n", 5, "--noise", 1], "--noise"),
        (["clusters", "-n", 5, "--clusters", 0], "0 clusters"),
        (["clusters", "-n", 5, "--spread", 0], "spread"),
        (["clusters", "-n", 5, "--spread", "x"], "not a number"),
        (["low_intrinsic_dimension", "-n", 5, "-d", 4, "--intrinsic-dim", 5], "intrinsic dimension"),
        (["low_intrinsic_dimension", "-n", 5, "--noise", -1], "noise"),
        (["terrain_scan", "-n", 5, "--density", 0], "square metre"),
        (["terrain_scan", "-n", 5, "--dtype", "f16"], "merge"),
        (["terrain_scan", "-n", 5, "--intrinsic-dim", 2], "--intrinsic-dim"),
        (["terrain", "-n", 5], "one of"),
        (["uniform", "-n", "1e6"], "1000000"),
        (["uniform", "-n", 5, "--seed", -1], "--seed"),
        (["uniform", "-n", 5, "--first-row", -1], "first row"),
        (["uniform", "-n", 5, "--threads", -1], "--threads"),
        (["uniform"], "-n (--rows) is missing"),
    ],
)
def test_refusals(kith, folder, arguments, word):
    assert word in kith("generate", *arguments, "-o", "x.npy", code=1).err
    assert files_of(folder) == []
