"""Answers as columns of Parquet and Arrow files: a row a query, with ids of the user's.

Needs numpy and pyarrow; imports nothing of Kith but _arrow.py, so that the command line runs it with any Python:
``python _arrow_answers.py check IDS`` says how many ids there are, and
``python _arrow_answers.py write INDICES.npy DISTANCES.npy OUT SUFFIX IDS QUERY_IDS`` writes an answer into OUT in the format of
SUFFIX; ids are ``FILE.parquet:COLUMN``, or empty for none.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __package__:
    from . import _arrow
else:  # run as a program, which leaves this folder out of the path: its files are no modules for others
    import importlib.util

    sys.path.pop(0)
    _spec = importlib.util.spec_from_file_location("_arrow", os.path.join(os.path.dirname(__file__), "_arrow.py"))
    assert _spec is not None and _spec.loader is not None
    _arrow = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_arrow)

__all__ = ["columns_of", "lists", "read_ids", "write"]

_BLOCK_ELEMENTS = 1 << 20  # that are written at a time, and a row group of Parquet

#: The columns of some rows.
Block = Callable[[slice], dict[str, Any]]


def lists(rows: NDArray[Any]) -> Any:
    """[n, width] as lists of one length, over the same memory where that is contiguous."""
    pa = _arrow.require()
    plain = np.ascontiguousarray(rows, rows.dtype.newbyteorder("="))
    return pa.FixedSizeListArray.from_arrays(pa.array(plain.reshape(-1)), rows.shape[1])


def columns_of(distances: NDArray[Any], indices: NDArray[Any], ids: Any, query_ids: Any) -> Block:
    """A function of slices of queries, which gives their columns.

    Args:
        ids, query_ids: columns of Arrow, an entry for each row searched and for each query; None for their numbers.
    """
    pa = _arrow.require()
    rows, k = indices.shape
    last = int(np.max(indices)) if indices.size else -1
    if ids is not None and last >= len(ids):
        raise _arrow.BadTable(
            f"ids has {len(ids)} entries, the answer names row {last}; give one for each row searched"
        )
    if query_ids is not None and len(query_ids) != rows:
        raise _arrow.BadTable(f"query_ids has {len(query_ids)} entries, {rows} are needed: one a row")

    def block(part: slice) -> dict[str, Any]:
        some = indices[part]
        made = {"query": pa.array(np.arange(part.start, part.stop)) if query_ids is None else query_ids[part]}
        made["indices"] = lists(some)
        if ids is not None:
            taken = ids.take(pa.array(some.ravel(), mask=some.ravel() < 0))
            if isinstance(taken, pa.ChunkedArray):
                taken = pa.concat_arrays(taken.chunks) if taken.num_chunks else pa.array([], taken.type)
            made["ids"] = pa.FixedSizeListArray.from_arrays(taken, k)
        return {**made, "distances": lists(distances[part])}

    return block


def write(file: str, suffix: str, block: Block, rows: int, width: int) -> None:
    """The columns of all rows, some at a time, into a file: Parquet, or Arrow's file format for any other suffix."""
    pa = _arrow.require()
    step = max(1, _BLOCK_ELEMENTS // max(1, width))
    first = pa.table(block(slice(0, min(rows, step))))
    with _writer(file, suffix, first.schema) as writer:
        writer.write_table(first)
        for start in range(step, rows, step):
            writer.write_table(pa.table(block(slice(start, min(rows, start + step)))))


def _writer(file: str, suffix: str, schema: Any) -> Any:
    if suffix.lower().endswith((".parquet", ".pq")):
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema)
    return _arrow.require().ipc.new_file(file, schema)


def read_ids(name: str) -> Any:
    """The column of ids that ``FILE[:COLUMN]`` names, or the only one that is no column of vectors."""
    pa = _arrow.require()
    path, column = _arrow.split_name(name)
    if not _arrow.is_table(path):
        raise _arrow.BadTable(f"'{name}': ids are a column of a Parquet or Arrow file; name one, FILE.parquet:COLUMN")
    try:
        with open(path, "rb") as file:
            is_parquet = file.read(4) == b"PAR1"
        if is_parquet:
            from pyarrow import parquet

            column = _column_of_ids(parquet.read_schema(path), column, name)
            return parquet.read_table(path, columns=[column]).column(0)
        source = pa.memory_map(path)
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            reader = pa.ipc.open_stream(source)
        column = _column_of_ids(reader.schema, column, name)
        return reader.read_all().column(column)
    except OSError as error:
        raise _arrow.CannotRead(f"cannot read '{name}': {error.strerror or error}") from None
    except pa.ArrowException as error:
        raise _arrow.CannotRead(f"cannot read '{name}': it is no Parquet or Arrow file, or damaged: {error}") from None


def _column_of_ids(schema: Any, column: str, name: str) -> str:
    plain = [field.name for field in schema if not _arrow.is_vector(field.type)]
    if not column and len(plain) == 1:
        return str(plain[0])
    if plain.count(column) == 1:
        return column
    what = f"no column {column!r} of ids" if column else "more than one column may be meant"
    some = ", ".join(map(repr, plain[:12])) + (", ..." if len(plain) > 12 else "")
    raise _arrow.BadTable(f"'{name}': {what}; there are {some or 'none'} beside vectors")


def main(arguments: list[str]) -> None:
    if arguments[0] == "check":
        print(len(read_ids(arguments[1])))
        return
    indices, distances = (np.load(name, mmap_mode="r") for name in arguments[1:3])
    ids, query_ids = (read_ids(name) if name else None for name in arguments[5:7])
    block = columns_of(distances, indices, ids, query_ids)
    write(arguments[3], arguments[4], block, len(indices), indices.shape[1])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        main(sys.argv[1:])
    except Exception as error:  # what the command line says in its own name
        print(" ".join(str(error).split()) or type(error).__name__)
        sys.exit(1)
