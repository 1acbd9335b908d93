"""Reporting of a long call: a bar on stderr, or the caller's own function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

#: What the compiled part calls: report(stage, done, total), from the thread of the call.
Report = Callable[[str, int, int], None]
Progress = bool | Callable[[int, int], object]


_NOBODY = nullcontext(None)


def reporting(progress: Progress | None) -> AbstractContextManager[Report | None]:
    """The report function for a ``progress`` argument, ended when the call ends."""
    return _NOBODY if progress is None or progress is False else _reporting(progress)


@contextmanager
def _reporting(progress: Progress) -> Iterator[Report]:
    if progress is True:
        bar = _tqdm_bar() or _PlainBar()
        try:
            yield bar
        finally:
            bar.close()
    elif callable(progress):
        function = progress

        def report(_stage: str, done: int, total: int) -> None:
            function(done, total)

        yield report
    else:
        raise TypeError(f"progress: {type(progress).__name__}; use True for a bar, or a function of (done, total)")


class _PlainBar:
    """One line of text, a new line a stage."""

    width = 30

    def __init__(self) -> None:
        self._stage = ""
        self._start = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._start = stage, time.monotonic()
        share = min(1.0, done / total) if total > 0 else 1.0
        filled = round(share * self.width)
        sys.stderr.write(
            f"\rkith {stage} {share:4.0%} [{'#' * filled:<{self.width}}] {time.monotonic() - self._start:.1f} s"
        )
        sys.stderr.flush()

    def close(self) -> None:
        if self._stage:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._stage = ""


class _TqdmBar:
    """The same with tqdm, which knows notebooks and remaining times."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._stage = ""
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._bar = self._tqdm(desc=f"kith {stage}", total=total, unit_scale=True)
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def _tqdm_bar() -> _TqdmBar | None:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return _TqdmBar(tqdm)
