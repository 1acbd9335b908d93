"""Point tiles on a GPU: the files that the CPU writes. Skipped where there is none."""

import os
from pathlib import Path

import numpy as np
import pytest
from program import files_of


@pytest.fixture
def gpu(kith):
    listed = kith("devices", "--json").json["devices"]
    if not any(entry["device"] != "cpu" and entry["usable"] for entry in listed):
        pytest.skip("needs a GPU")


@pytest.fixture
def cloud(folder):
    random = np.random.default_rng(14)
    points = random.random((20_000, 3)) * [30, 30, 0.2]
    points[:, 2] += np.sin(points[:, 0])
    np.save("points.npy", points.astype(np.float32))
    np.save("queries.npy", (random.random((60, 3)) * [30, 30, 2]).astype(np.float32))


def test_gpu_tiles_give_the_same_files(kith, cloud, gpu, folder):
    kith("build", "points.npy", "--index", "point_tiles", "--tile-points", 900, "-o", "tiles")
    for device in ["cpu", "cuda"]:
        os.mkdir(device)
        how = ["--device", device]
        kith("all-knn", "tiles", "-k", 8, *how, "-o", f"{device}/a")
        kith("all-knn", "tiles", "-k", 8, *how, "--inside", "brute_force", "-o", f"{device}/b")
        kith("search", "tiles", "queries.npy", "-k", 5, *how, "-o", f"{device}/s")
        kith("radius", "tiles", "queries.npy", "-r", 0.5, *how, "-o", f"{device}/r")
        kith("radius", "tiles", "tiles", "-r", 0.5, "--count", *how, "-o", f"{device}/c.npy")
        kith("normals", "tiles", "-k", 16, *how, "-o", f"{device}/n.npy")
        kith("outliers", "tiles", "-k", 8, "--mark", *how, "-o", f"{device}/o.npy")
        # Through tiles by themselves.
        kith("normals", "points.npy", "-k", 9, "--tile-points", 2000, *how, "-o", f"{device}/t.npy")
    assert files_of(Path("cpu")) == files_of(Path("cuda"))
    for name in os.listdir("cpu"):
        assert open(f"cpu/{name}", "rb").read() == open(f"cuda/{name}", "rb").read(), name
    told = kith("normals", "tiles", "-k", 16, "--device", "cuda", "-o", "n.npy", "--json").json["statistics"]
    assert told["device"] == "cuda:0" and told["device_seconds"] > 0


def test_gpu_tiles_keep_to_a_limit(kith, cloud, gpu):
    kith("build", "points.npy", "--index", "point_tiles", "--tile-points", 900, "-o", "tiles")
    how = ["normals", "tiles", "-k", 16, "--device", "cuda", "-o", "n.npy", "--device-memory-limit"]
    error = kith(*how, "100kB", code=3).err
    assert "two tiles" in error and "100000" in error and "raise the limit on GPU memory" in error
    kith(*how, "64MiB")
    error = kith("build", "points.npy", "--index", "point_tiles", "-o", "others", "--device", "cuda", code=1).err
    assert "made on the CPU" in error and "cuda:0" in error
