"""Graphs and product quantizers of other libraries, read and written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kith
from ._arrays import to_rows
from ._codes import Quantizer
from ._index import METRICS, _execution, flag, name_of
from ._progress import Progress, reporting
from ._vamana import Vamana

__all__ = ["ImportedGraph", "export_graph", "export_pq", "import_graph", "import_pq"]

_FORMATS = "'diskann', 'diskann-disk', 'hnswlib', 'faiss' or 'bang'"
_DTYPES = "'float32', 'float16', 'int8' or 'uint8'"


@dataclass(frozen=True)
class ImportedGraph:
    """What :func:`import_graph` gives."""

    index: Vamana  #: the graph over its rows, as an index like any other
    format: str  #: whose file it was: ``"diskann"``, ``"diskann-disk"``, ``"hnswlib"``, ``"faiss"`` or ``"bang"``
    labels: NDArray[np.int64] | None  #: the label of each row, ascending; None where it is the row's number


def _name_or_none(value: Any, what: str, choices: str) -> str | None:
    return None if value is None else name_of(value, what, choices)


def import_graph(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    vectors: Any = None,
    metric: str | None = None,
    dtype: str | None = None,
    any_labels: bool = False,
    threads: int = 0,
    memory_limit: int = 0,
    progress: Progress = False,
) -> ImportedGraph:
    """A graph that another library built, searched by Kith.

    Neighbours stay as they are. Codes and the walk are Kith's; it begins where the library's own search does, and in
    an HNSW graph at nodes of its upper layers, too. Recall is measured as after a build, so that searches take
    ``recall=``.

    Args:
        path: DiskANN's index in memory (its rows in ``path.data``) or on disk, hnswlib's file, faiss's of an
            IndexHNSWFlat, or BANG's ``P_disk.bin``.
        format: ``"diskann"``, ``"diskann-disk"``, ``"hnswlib"``, ``"faiss"`` or ``"bang"``; None: by its content.
        vectors: the rows ``[n, d]`` in the order of the graph's nodes, kept alive by the index; None: those in the
            file.
        metric: ``"sqeuclidean"``, ``"euclidean"``, ``"cosine"`` or ``"inner_product"``; None: what the file says, else
            ``"sqeuclidean"``.
        dtype: element type of the rows in the file where it does not say: ``"float32"``, ``"float16"``, ``"int8"`` or
            ``"uint8"``.
        any_labels: take hnswlib's labels of any values: rows are then in the order of labels, which come with them.
        threads, memory_limit, progress: as for :func:`kith.knn`.

    Raises:
        IoError: a file is missing, truncated, corrupt or foreign.
        InvalidArgument: rows that do not fit the graph, a row with a NaN, a metric that the file contradicts, labels
            that are not 0 to n - 1, elements that are deleted.
        TypeError, OutOfMemory, KeyboardInterrupt: as for :func:`kith.knn`.
    """
    rows = None if vectors is None else to_rows(vectors, "vectors")
    names = (
        _name_or_none(format, "format", _FORMATS),
        _name_or_none(metric, "metric", METRICS),
        _name_or_none(dtype, "dtype", _DTYPES),
    )
    limits = _execution(threads, memory_limit, 0, "cpu")
    with reporting(progress) as report:
        index, found, labels = _kith.import_graph(
            os.fspath(path), *names, rows, flag(any_labels, "any_labels"), limits, report
        )
    return ImportedGraph(Vamana._wrap(index, "cpu"), found, labels)


def export_graph(
    index: Vamana,
    path: str | os.PathLike[str],
    format: str,
    *,
    memory_limit: int = 0,
    progress: Progress = False,
) -> list[str]:
    """Writes a graph as another library's index, whole or not at all.

    Every row becomes a node; rows that are one node of the graph follow each other in a chain. hnswlib and faiss get
    float32, divided by their norms for cosine.

    Args:
        index: the graph.
        path: the file to write; ``"diskann"`` also writes ``path.data``.
        format: ``"diskann"``, ``"diskann-disk"``, ``"hnswlib"`` or ``"faiss"``.
        memory_limit, progress: as for :func:`kith.knn`.

    Returns:
        The files written.

    Raises:
        InvalidArgument: another format, or rows that it cannot hold exactly (float64).
        IoError: a file cannot be written.
        TypeError: ``index`` is no :class:`Vamana`.
        OutOfMemory, KeyboardInterrupt: as for :func:`kith.knn`.
    """
    if not isinstance(index, Vamana):
        raise TypeError(f"index: {type(index).__name__} is no Vamana, and has no graph to write")
    wanted = name_of(format, "format", _FORMATS)
    limits = _execution(0, memory_limit, 0, "cpu")
    with reporting(progress) as report:
        files = _kith.export_graph(index._index, os.fspath(path), wanted, limits, report)
    return [os.fspath(file) for file in files]


def import_pq(path: str | os.PathLike[str], *, metric: str = "sqeuclidean", dtype: str = "float32") -> Quantizer:
    """The product quantizer of DiskANN's ``P_pq_pivots.bin``, with the rotation of
    ``P_pq_pivots.bin_rotation_matrix.bin`` where that is there.

    Its codes are ``P_pq_compressed.bin``: ``kith.read(path, format="u8bin")``.

    Args:
        path: the file.
        metric: ``"sqeuclidean"`` or ``"inner_product"``, what estimates are of.
        dtype: element type of the rows it is for, which the file does not say.

    Raises:
        IoError: a file is missing, truncated, corrupt or foreign.
        InvalidArgument: another metric or element type.
    """
    names = name_of(metric, "metric", METRICS), name_of(dtype, "dtype", _DTYPES)
    return Quantizer._wrap(_kith.import_pq(os.fspath(path), *names))


def export_pq(quantizer: Quantizer, path: str | os.PathLike[str]) -> list[str]:
    """Writes a product quantizer as DiskANN's ``P_pq_pivots.bin``, and its rotation beside it where it has one.

    Returns:
        The files written.

    Raises:
        InvalidArgument: the quantizer is of another kind.
        IoError: a file cannot be written.
        TypeError: ``quantizer`` is no :class:`Quantizer`.
    """
    if not isinstance(quantizer, Quantizer):
        raise TypeError(f"quantizer: {type(quantizer).__name__} is no Quantizer")
    return [os.fspath(file) for file in _kith.export_pq(quantizer._quantizer, os.fspath(path))]
