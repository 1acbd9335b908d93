"""kith.import_graph and its like: there and back, labels, quantizers, refusals."""

from __future__ import annotations

import kith
import numpy as np
import pytest


def rows(count=900, dim=8, seed=2):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


@pytest.mark.parametrize("format", ["diskann", "diskann-disk", "hnswlib", "faiss"])
def test_there_and_back(tmp_path, format):
    X, Q = rows(), rows(30, seed=3)
    built = kith.Vamana(X, max_degree=12, build_list_size=40)
    files = kith.export_graph(built, tmp_path / "graph", format)
    assert files == [str(tmp_path / "graph")] + ([str(tmp_path / "graph.data")] if format == "diskann" else [])
    imported = kith.import_graph(tmp_path / "graph")
    assert imported.format == format and imported.labels is None
    index = imported.index
    assert isinstance(index, kith.Vamana) and index.dtype == "float32" and index.rows == 900
    assert index.recall_curve
    exact = kith.knn(X, Q, 5)
    np.testing.assert_array_equal(index.search(Q, 5, list_size=900).indices, exact.indices)
    again = kith.export_graph(index, tmp_path / "again", format, progress=lambda done, total: None)
    assert open(again[0], "rb").read() == open(files[0], "rb").read()
    # Rows of the caller's own.
    doubles = kith.import_graph(tmp_path / "graph", format=format, vectors=X.astype(np.float64), threads=1).index
    assert doubles.dtype == "float64"
    cosine = kith.import_graph(tmp_path / "graph", vectors=X, metric="cosine").index
    np.testing.assert_array_equal(
        cosine.search(Q, 5, list_size=900).indices, kith.knn(X, Q, 5, metric="cosine").indices
    )
    with pytest.raises(kith.OutOfMemory, match="the limit is 1000"):
        kith.import_graph(tmp_path / "graph", memory_limit=1000)
    with pytest.raises(kith.InvalidArgument, match="900 nodes, there are 899 rows"):
        kith.import_graph(tmp_path / "graph", vectors=X[:899])


def test_labels_and_types(tmp_path):
    X = rows(500)
    files = kith.export_graph(kith.Vamana(X, max_degree=8, build_list_size=20), tmp_path / "a.bin", "hnswlib")
    content = bytearray(open(files[0], "rb").read())
    element = int.from_bytes(content[24:32], "little")
    for i in range(500):  # the label is the last 8 bytes of an element
        end = 96 + (i + 1) * element
        content[end - 8 : end] = (5000 - i).to_bytes(8, "little")
    (tmp_path / "b.bin").write_bytes(content)
    with pytest.raises(kith.InvalidArgument, match="labels"):
        kith.import_graph(tmp_path / "b.bin")
    imported = kith.import_graph(tmp_path / "b.bin", any_labels=True)
    index, format, labels = imported.index, imported.format, imported.labels
    assert format == "hnswlib"
    np.testing.assert_array_equal(labels, np.arange(4501, 5001))
    nearest = index.search(X, 1, list_size=500).indices[:, 0]
    np.testing.assert_array_equal(labels[nearest], 5000 - np.arange(500))
    bytes_ = np.random.default_rng(1).integers(0, 100, (400, 5)).astype(np.uint8)
    kith.export_graph(kith.Vamana(bytes_, max_degree=8, build_list_size=20), tmp_path / "u", "diskann")
    with pytest.raises(kith.InvalidArgument, match="u8 or i8"):
        kith.import_graph(tmp_path / "u")
    assert kith.import_graph(tmp_path / "u", dtype="uint8").index.dtype == "uint8"


@pytest.mark.parametrize("rotate", [False, True])
def test_quantizers(tmp_path, rotate):
    X = rows(700)
    trained = kith.Quantizer(X, kind="pq", subspaces=4, rotate=rotate)
    files = kith.export_pq(trained, tmp_path / "p.bin")
    assert len(files) == (2 if rotate else 1)
    again = kith.import_pq(tmp_path / "p.bin")
    assert (again.kind, again.dim, again.code_bytes, again.dtype) == ("pq", 8, 4, "float32")
    assert (again.encode(X) == trained.encode(X)).mean() > 0.999
    np.testing.assert_allclose(again.decode(trained.encode(X)), trained.decode(trained.encode(X)), atol=1e-4)
    assert kith.import_pq(tmp_path / "p.bin", metric="inner_product", dtype="uint8").metric == "inner_product"


def test_refusals(tmp_path):
    with pytest.raises(TypeError, match="no Vamana"):
        kith.export_graph(kith.BruteForce(rows(9)), tmp_path / "x", "faiss")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no Quantizer"):
        kith.export_pq(rows(9), tmp_path / "x")  # type: ignore[arg-type]
    with pytest.raises(kith.InvalidArgument, match="kind rabitq"):
        kith.export_pq(kith.Quantizer(rows(300)), tmp_path / "x")
    graph = kith.Vamana(rows(50))
    with pytest.raises(kith.InvalidArgument, match="read only"):
        kith.export_graph(graph, tmp_path / "x", "bang")
    with pytest.raises(kith.InvalidArgument, match="nsg"):
        kith.export_graph(graph, tmp_path / "x", "nsg")
    with pytest.raises(kith.InvalidArgument, match="f64"):
        kith.export_graph(kith.Vamana(rows(50).astype(float)), tmp_path / "x", "faiss")
    with pytest.raises(kith.IoError):
        kith.import_graph(tmp_path / "missing")
    (tmp_path / "other").write_bytes(b"nothing" * 40)
    with pytest.raises(kith.IoError, match="no graph that Kith knows"):
        kith.import_graph(tmp_path / "other")
    assert not (tmp_path / "x").exists()
