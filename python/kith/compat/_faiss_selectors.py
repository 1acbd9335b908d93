"""Which ids a search of :mod:`kith.compat.faiss` may find."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument
from .._index import _integer


class IDSelector:
    """Some of an index's ids; one of the classes below."""

    def flags(self, ntotal: int) -> NDArray[np.bool_]:
        """A flag for each id, bool ``[ntotal]``."""
        raise NotImplementedError

    def is_member(self, id: int) -> bool:
        """Whether it has the id."""
        return id >= 0 and bool(self.flags(id + 1)[id])


class IDSelectorRange(IDSelector):
    """Ids from ``imin`` up to, but without, ``imax``."""

    def __init__(self, imin: int, imax: int) -> None:
        self.imin, self.imax = _integer(imin, "imin"), _integer(imax, "imax")

    def flags(self, ntotal: int) -> NDArray[np.bool_]:
        ids = np.arange(ntotal)
        return (ids >= self.imin) & (ids < self.imax)


class IDSelectorArray(IDSelector):
    """The ids of an array of integers; ids that the index does not have are none of it."""

    def __init__(self, ids: Any) -> None:
        self.ids = np.asarray(ids).ravel()
        if self.ids.size and self.ids.dtype.kind not in "iu":
            raise InvalidArgument(f"ids: an array of {self.ids.dtype}; use integers")

    def flags(self, ntotal: int) -> NDArray[np.bool_]:
        found = np.zeros(ntotal, np.bool_)
        found[self.ids[(self.ids >= 0) & (self.ids < ntotal)].astype(np.int64)] = True
        return found


class IDSelectorBatch(IDSelectorArray):
    """As :class:`IDSelectorArray`."""


class IDSelectorNot(IDSelector):
    """The ids that another selector does not have."""

    def __init__(self, sel: IDSelector) -> None:
        self.sel = _selector(sel)

    def flags(self, ntotal: int) -> NDArray[np.bool_]:
        return ~self.sel.flags(ntotal)


class _Two(IDSelector):
    def __init__(self, lhs: IDSelector, rhs: IDSelector) -> None:
        self.lhs, self.rhs = _selector(lhs), _selector(rhs)


class IDSelectorAnd(_Two):
    """The ids that both have."""

    def flags(self, ntotal: int) -> NDArray[np.bool_]:
        return self.lhs.flags(ntotal) & self.rhs.flags(ntotal)


class IDSelectorOr(_Two):
    """The ids that either has."""

    def flags(self, ntotal: int) -> NDArray[np.bool_]:
        return self.lhs.flags(ntotal) | self.rhs.flags(ntotal)


def _selector(sel: Any) -> IDSelector:
    if not isinstance(sel, IDSelector):
        raise TypeError(f"sel: a {type(sel).__name__}; use an IDSelector of kith.compat.faiss")
    return sel


class SearchParameters:
    """Of a search: ``sel``, which ids may be found; None for all."""

    def __init__(self, *, sel: IDSelector | None = None) -> None:
        self.sel = None if sel is None else _selector(sel)


class SearchParametersHNSW(SearchParameters):
    """Of a search in a graph: ``efSearch`` too, the length of its list; None for that of the index."""

    def __init__(self, *, sel: IDSelector | None = None, efSearch: int | None = None) -> None:
        super().__init__(sel=sel)
        self.efSearch = efSearch
