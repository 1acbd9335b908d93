"""Times of whole searches, for the sweeps beside this file."""

import statistics
import time
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Milliseconds, and what the last search answered."""

    median: float
    least: float
    most: float
    answer: Any


def times_of(search, repeat, warm_ups, wait=lambda: None):
    """Calls search() untimed, then `repeat` times; wait() returns when the device has nothing left to do."""
    for _ in range(warm_ups):
        search()
    times = []
    for _ in range(repeat):
        wait()
        start = time.perf_counter()
        answer = search()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return Times(statistics.median(times), min(times), max(times), answer)
