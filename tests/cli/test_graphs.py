"""kith import and kith export: graphs and quantizers of other libraries, and refusals."""

import graph_file
import numpy as np
import pytest


@pytest.fixture
def graphs(folder):
    """The same graph as DiskANN's and hnswlib's; its rows as base.npy."""
    (folder / "ann").write_bytes(graph_file.diskann())
    (folder / "ann.data").write_bytes(graph_file.data())
    (folder / "hnsw.bin").write_bytes(graph_file.hnswlib())
    (folder / "pivots.bin").write_bytes(graph_file.pq_pivots())
    np.save("base.npy", graph_file.rows())
    return folder


def found(kith, index, *options):
    kith("search", index, "base.npy", "-k", 5, "-o", "found", *options)
    return np.load("found.indices.npy")


@pytest.mark.covers("import", "GRAPH", "--output", "--json", "--quiet")
@pytest.mark.covers("export", "INDEX", "--output", "--format", "--json", "--quiet")
def test_there_and_back(kith, graphs):
    kith("knn", "base.npy", "base.npy", "-k", 5, "-o", "truth")
    for name, format in [("ann", "diskann"), ("hnsw.bin", "hnswlib")]:
        told = kith("import", name, "-o", "graph.kith", "--json").json
        assert (told["file"], told["format"], told["index"]) == ("graph.kith", format, "vamana")
        assert (told["rows"], told["dim"], told["dtype"], told["metric"]) == (500, 6, "f32", "sqeuclidean")
        assert told["recall_curve"]["points"] == []  # too few rows to measure anything by
        np.testing.assert_array_equal(found(kith, "graph.kith", "--list-size", 500), np.load("truth.indices.npy"))
        assert "500 rows" in kith("import", name, "-o", "graph.kith").err
        assert kith("import", name, "-o", "graph.kith", "--quiet").err == ""
        written = kith("export", "graph.kith", "--format", format, "-o", "again", "--json").json
        assert written["files"][0] == "again" and written["format"] == format
        assert open("again", "rb").read() == open(name, "rb").read()
        assert "wrote again" in kith("export", "graph.kith", "--format", format, "-o", "again").err
        assert kith("export", "graph.kith", "--format", format, "-o", "again", "--quiet").err == ""
    assert open("again.data", "rb").read() == open("ann.data", "rb").read()
    for format in ("faiss", "diskann-disk"):
        kith("export", "graph.kith", "--format", format, "-o", "other")
        assert kith("import", "other", "-o", "other.kith", "--json").json["format"] == format


@pytest.mark.covers("import", "--metric", "--format")
def test_metric_and_format(kith, graphs):
    kith("knn", "base.npy", "base.npy", "-k", 5, "--metric", "cosine", "-o", "truth")
    kith("import", "hnsw.bin", "-o", "a.kith", "--metric", "cosine")
    np.testing.assert_array_equal(found(kith, "a.kith", "--list-size", 500), np.load("truth.indices.npy"))
    assert kith("import", "ann", "-o", "a.kith", "--format", "diskann", "--json").json["format"] == "diskann"
    assert "no index of hnswlib" in kith("import", "ann", "-o", "b.kith", "--format", "hnswlib", code=2).err
    assert "P_disk.bin" in kith("import", "ann", "-o", "b.kith", "--format", "bang", code=1).err


@pytest.mark.covers("import", "--vectors", "--vectors-member", "--input-format", "--dtype")
def test_rows_from_elsewhere(kith, graphs):
    doubled = graph_file.rows(np.float64) * 2
    np.save("doubled.npy", doubled)
    told = kith("import", "ann", "-o", "a.kith", "--vectors", "doubled.npy", "--json").json
    assert told["dtype"] == "f64"
    kith("convert", "doubled.npy", "doubled.h5")
    kith("import", "ann", "-o", "b.kith", "--vectors", "doubled.h5", "--vectors-member", "train")
    assert open("a.kith", "rb").read() == open("b.kith", "rb").read()
    assert "nothing" in kith("import", "ann", "-o", "b.kith", "--vectors", "doubled.h5", "--vectors-member",
                             "nothing", code=2).err  # fmt: skip
    kith("convert", "base.npy", "base.fbin")
    (graphs / "base.fbin").rename(graphs / "base.rows")
    kith("import", "ann", "-o", "c.kith", "--vectors", "base.rows", "--input-format", "fbin")
    (graphs / "ann.data").write_bytes(graph_file.data(np.int8))
    assert "u8 or i8" in kith("import", "ann", "-o", "d.kith", code=1).err
    assert kith("import", "ann", "-o", "d.kith", "--dtype", "i8", "--json").json["dtype"] == "i8"
    (graphs / "ann.data").unlink()
    assert "ann.data" in kith("import", "ann", "-o", "e.kith", code=2).err


@pytest.mark.covers("import", "--labels")
def test_labels(kith, graphs):
    labels = 7000 - 2 * np.arange(500)
    (graphs / "hnsw.bin").write_bytes(graph_file.hnswlib(labels))
    assert "labels" in kith("import", "hnsw.bin", "-o", "a.kith", code=1).err
    kith("import", "hnsw.bin", "-o", "a.kith", "--labels", "labels.npy")
    np.testing.assert_array_equal(np.load("labels.npy"), np.sort(labels))
    answer = np.load("labels.npy")[found(kith, "a.kith", "--list-size", 500)]
    np.testing.assert_array_equal(answer[:, 0], labels)
    (graphs / "hnsw.bin").write_bytes(graph_file.hnswlib())
    kith("import", "hnsw.bin", "-o", "a.kith", "--labels", "labels.npy")
    np.testing.assert_array_equal(np.load("labels.npy"), np.arange(500))


def test_quantizers(kith, graphs):
    told = kith("import", "pivots.bin", "-o", "pq.kith", "--metric", "inner_product", "--json").json
    assert (told["kind"], told["dim"], told["code_bytes"], told["metric"]) == ("pq", 6, 3, "inner_product")
    assert kith("import", "pivots.bin", "-o", "pq.kith", "--dtype", "u8", "--json").json["dtype"] == "u8"
    kith("export", "pq.kith", "--format", "diskann-pq", "-o", "again.bin")
    assert open("again.bin", "rb").read() == open("pivots.bin", "rb").read()
    assert "--vectors" in kith("import", "pivots.bin", "-o", "x.kith", "--vectors", "base.npy", code=1).err
    assert "use --format diskann-pq" in kith("export", "pq.kith", "--format", "faiss", "-o", "x", code=1).err
    kith("codes", "base.npy", "--kind", "pq", "--subspaces", 2, "--rotate", "-o", "own.kith")
    files = kith("export", "own.kith", "--format", "diskann-pq", "-o", "own.bin", "--json").json["files"]
    assert files == ["own.bin", "own.bin_rotation_matrix.bin"]
    assert kith("import", "own.bin", "-o", "back.kith", "--json").json["code_bytes"] == 2


@pytest.mark.covers("import", "--threads", "--memory-limit", "--device", "--device-memory-limit")
@pytest.mark.covers("export", "--threads", "--memory-limit", "--device", "--device-memory-limit")
def test_execution(kith, graphs):
    kith("import", "ann", "-o", "one.kith", "--threads", 1)
    kith("import", "ann", "-o", "two.kith", "--threads", 2)
    assert open("one.kith", "rb").read() == open("two.kith", "rb").read()
    assert "--threads" in kith("import", "ann", "-o", "x.kith", "--threads", 5000, code=1).err
    kith("import", "ann", "-o", "x.kith", "--memory-limit", "1000B", code=3)
    kith("export", "one.kith", "--format", "faiss", "-o", "x", "--memory-limit", "1000B", code=3)
    for command in (["import", "ann"], ["export", "one.kith", "--format", "faiss"]):
        kith(*command, "-o", "x", "--device", "nowhere", code=1)
        kith(*command, "-o", "x", "--device-memory-limit", "1GiB", code=1)


def test_refusals(kith, graphs):
    kith("build", "base.npy", "-o", "exact.kith")
    assert "brute_force" in kith("export", "exact.kith", "--format", "faiss", "-o", "x", code=1).err
    assert "not an index" in kith("export", "base.npy", "--format", "faiss", "-o", "x", code=2).err
    kith("import", "ann", "-o", "a.kith")
    assert "diskann-pq" in kith("export", "a.kith", "--format", "diskann-pq", "-o", "x", code=1).err
    assert "an input of this command" in kith("import", "ann", "-o", "ann", code=1).err
    assert "an input of this command" in kith("export", "a.kith", "--format", "faiss", "-o", "a.kith", code=1).err
    assert "extension" in kith("import", "ann", "-o", "x.npy", code=1).err
    assert "one stream" in kith("export", "a.kith", "--format", "diskann", "-o", "-", code=1).err
    assert "no graph that Kith knows" in kith("import", "base.npy", "-o", "x.kith", code=2).err
    (graphs / "short").write_bytes(graph_file.hnswlib()[:-1])
    assert "truncated" in kith("import", "short", "-o", "x.kith", code=2).err
    assert not (graphs / "x.kith").exists()
