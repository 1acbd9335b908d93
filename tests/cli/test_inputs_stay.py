"""Outputs that would replace an input, whoever names it and however it is read: refused, and nothing is lost."""

from pathlib import Path

import graph_file
import numpy as np
import pytest
from program import files_of


@pytest.fixture
def cloud(kith, folder):
    """400 points as scan.las and scan.npy, and tiles of both."""
    np.save("scan.npy", np.random.default_rng(5).random((400, 3)).round(3))
    kith("convert", "scan.npy", "scan.las")
    for name in ("las", "npy"):
        kith("build", f"scan.{name}", "--index", "point_tiles", "-o", f"{name}.tiles", "--tile-points", 64)
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(kith, folder, *arguments):
    before = contents(folder)
    message = kith(*arguments, code=1).err
    assert contents(folder) == before
    return message


@pytest.mark.parametrize("how", [[], ["--tile-points", 64]], ids=["in memory", "through tiles"])
@pytest.mark.parametrize("command", ["normals", "outliers"])
def test_an_output_is_called_what_it_was_called(kith, cloud, command, how):
    before = contents(cloud)
    for name in ("scan", "scan.bin"):
        told = kith(command, "scan.npy", "-k", 5, "-o", name, "--format", "npy", "--json", *how).json
        assert (told.get("files") or [told["file"]]) == [name]
        assert np.load(name).shape[0] > 300
        Path(name).unlink()
    assert contents(cloud) == before
    assert "input of this command" in refused(kith, cloud, command, "scan.npy", "-k", 5, "-o", "scan.npy", *how)


def test_the_rows_of_an_answer_in_the_order_of_tiles(kith, cloud):
    Path("scan.npy").rename("b.rows.npy")
    for arguments in (
        ["all-knn", "b.rows.npy", "-o", "b"],
        ["all-knn", "b.rows.npy", "-o", "b.npy"],
        ["search", "npy.tiles", "b.rows.npy", "-o", "b"],
        ["knn", "npy.tiles", "b.rows.npy", "-o", "b"],
        ["normals", "b.rows.npy", "-o", "b.npy"],
    ):
        said = refused(kith, cloud, *arguments, "-k", 2, "--order", "tiles")
        assert "'b.rows.npy': it is an input of this command" in said
    kith("all-knn", "b.rows.npy", "-k", 2, "-o", "c", "--order", "tiles")
    assert "c.rows.npy" in files_of(cloud)


@pytest.mark.parametrize("command", ["normals", "outliers"])
def test_what_tiles_were_made_of(kith, cloud, command):
    """Attributes go from there to the output."""
    for output in ("scan.las", str(cloud / "scan.las")):
        said = refused(kith, cloud, command, "las.tiles", "-k", 5, "-o", output)
        assert "cannot write" in said and "scan.las" in said and "input" in said
    kith(command, "las.tiles", "-k", 5, "-o", "other.las")
    kith(command, "npy.tiles", "-k", 5, "-o", "scan.npy")  # of these nothing is read


def test_what_an_import_reads_besides(kith, folder):
    (folder / "ann").write_bytes(graph_file.diskann())
    (folder / "ann.data").write_bytes(graph_file.data())
    (folder / "pivots.bin").write_bytes(graph_file.pq_pivots())
    np.save("base.npy", graph_file.rows())
    assert "'ann.data': it is an input" in refused(kith, folder, "import", "ann", "-o", "ann.data")
    kith("import", "ann", "--vectors", "base.npy", "-o", "ann.data")  # not read then
    kith("codes", "base.npy", "--kind", "pq", "--subspaces", 3, "--rotate", "-o", "pq.kith")
    kith("export", "pq.kith", "--format", "diskann-pq", "-o", "pq")
    rotation = "pq_rotation_matrix.bin"
    (folder / "m.kith").symlink_to(rotation)
    assert rotation in refused(kith, folder, "import", "pq", "-o", "m.kith")
    (folder / "p_disk.bin").write_bytes(b"x")
    (folder / "p_disk_metadata.bin").write_bytes(b"x")
    (folder / "n.kith").symlink_to("p_disk_metadata.bin")
    assert "p_disk_metadata.bin" in refused(kith, folder, "import", "p_disk.bin", "-o", "n.kith")


def test_folders_that_are_inputs(kith, cloud):
    kith("shard", "scan.npy", "-n", 2, "-o", "shards")
    (cloud / "link").symlink_to("npy.tiles")
    for folder, arguments in [
        ("shards", ["search", "shards", "scan.npy", "-k", 2, "--format", "json", "-o", "shards/shard-0.kith"]),
        ("npy.tiles", ["outliers", "npy.tiles", "-k", 2, "--format", "npy", "-o", "npy.tiles/manifest.json"]),
        ("npy.tiles", ["normals", "npy.tiles", "-k", 4, "-o", "npy.tiles/new.npy"]),
        ("link", ["normals", "link", "-k", 4, "-o", "npy.tiles/new.npy"]),
        ("npy.tiles", ["normals", "npy.tiles", "-k", 4, "-o", "link/new.npy"]),
        ("npy.tiles", ["radius", "npy.tiles", "npy.tiles", "-r", 1, "-o", "npy.tiles/r"]),
        ("npy.tiles", ["search", "las.tiles", "npy.tiles", "-k", 2, "-o", "npy.tiles/r"]),
        ("las.tiles", ["outliers", "las.tiles", "-k", 2, "-o", "las.tiles/"]),
    ]:
        assert f"it is in the folder '{folder}', an input" in refused(kith, cloud, *arguments)
    kith("normals", "npy.tiles", "-k", 4, "-o", "npy.tiles.npy")
