"""One library in a process of its own: builds, then measures what it is asked, a JSON object a line in and out.

Started by benchmarks.vamana with the Python of the library's virtual environment, which needs NumPy beside it.
"""

import argparse
import contextlib
import datetime
import gc
import hashlib
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from benchmarks.vamana.curve import recall_of, true_distances
from benchmarks.vamana.libraries import LIBRARIES


def resident():
    """Bytes of this process in memory that no file stands behind."""
    with open("/proc/self/status") as lines:
        found = dict(line.split(":", 1) for line in lines)
    return sum(int(found[name].split()[0]) for name in ("RssAnon", "RssShmem") if name in found) << 10


def highest_resident(anew=False):
    """The most bytes of this process that were in memory at once, since it was last called with `anew`."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


class Worker:
    def __init__(self, options):
        self.options = options
        kind = LIBRARIES[options.library]
        self.base, self.queries = np.load(options.base), np.load(options.queries)
        taken = self.base.dtype.name in kind.dtypes
        self.given = self.base if taken else self.base.astype(np.float32)
        self.asked = self.queries if taken else self.queries.astype(np.float32)
        self.library = kind(options)
        built = self.kept()
        # The k-th true distances by the same arithmetic as those of what is found.
        truth = np.load(options.truth)
        distances = np.sort(true_distances(self.base, self.queries, truth), axis=1)
        self.recalls = {}  # of (k, setting, threads): later rounds find the same
        self.limits = {k: distances[:, k - 1] for k in options.k}
        self.about = {
            "name": kind.name, "version": self.library.version, "parameters": self.library.parameters,
            "element_type": self.given.dtype.name, **built, **self.library.about(),
        }  # fmt: skip

    def build(self):
        """What the build took."""
        before, before_all = resident(), highest_resident(anew=True)
        started = time.perf_counter()
        self.library.build(self.given, self.options)
        seconds = time.perf_counter() - started
        peak = highest_resident() - before_all
        gc.collect()
        return {"build_seconds": seconds, "build_threads": self.options.threads,
                "memory_bytes": max(0, resident() - before), "build_peak_bytes": peak}  # fmt: skip

    def kept(self):
        """What the build took; with --keep one of an earlier run over these rows serves again, or this one is kept."""
        if self.options.keep is None or self.library.save is None:
            return self.build()
        step = max(1, len(self.given) // 1000)
        what = [
            self.library.name,
            self.library.version,
            self.library.parameters,
            self.options.threads,
            self.given.shape,
        ]
        digest = hashlib.sha256(
            json.dumps(what).encode() + np.ascontiguousarray(self.given[::step]).tobytes()
        ).hexdigest()
        folder = self.options.keep / f"{self.options.library}-{digest[:16]}"
        if (folder / "build.json").is_file():
            self.library.open(folder / "index", self.given, self.options)
            return json.loads((folder / "build.json").read_text())
        built = self.build()
        (folder / "index").mkdir(parents=True, exist_ok=True)
        self.library.save(folder / "index")
        day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        # Last and at once: half a folder is built anew.
        note = folder / ".build.json"
        note.write_text(json.dumps({**built, "build_date": day, "build_load": round(os.getloadavg()[2], 1)}))
        note.replace(folder / "build.json")
        return built

    def timed(self, search):
        """(answer, queries a second), the best of as many rounds as fill the time asked for."""
        best, spent = float("inf"), 0.0
        while best == float("inf") or spent < self.options.seconds:
            started = time.perf_counter()
            answer = search()
            seconds = time.perf_counter() - started
            best, spent = min(best, seconds), spent + seconds
        return answer, len(self.queries) / best

    def sweep(self, k, threads):
        """A point a setting, until one has found nearly everything."""
        points = []
        self.library.search(self.asked[: max(1, len(self.asked) // 10)], k, self.library.settings(k)[0], threads)
        for setting in self.library.settings(k):
            found, rate = self.timed(lambda setting=setting: self.library.search(self.asked, k, setting, threads))
            key = k, setting, threads
            if key not in self.recalls:
                self.recalls[key] = recall_of(found, self.base, self.queries, self.limits[k])
            recall = self.recalls[key]
            points.append({"setting": setting, "recall": recall, "queries_per_second": rate})
            if recall > self.options.enough:
                break
        return {"points": points}

    def stated(self, k, threads, recall):
        """What the library itself takes for a recall, and what that finds; nothing where it cannot."""
        if not hasattr(self.library, "stated"):
            return {}
        answer, rate = self.timed(lambda: self.library.stated(self.asked, k, recall, threads))
        if answer is None:
            return {}
        found, setting, stated = answer
        measured = recall_of(found, self.base, self.queries, self.limits[k])
        return {"setting": setting, "stated": stated, "recall": measured, "queries_per_second": rate}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    for name in ("base", "queries", "truth"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--k", type=lambda text: [int(k) for k in text.split(",")], required=True)
    parser.add_argument("--threads", type=int, required=True, help="of the build")
    parser.add_argument("--seconds", type=float, required=True, help="least time a setting")
    parser.add_argument("--keep", type=Path, help="folder of builds that later runs use again")
    parser.add_argument("--enough", type=float, required=True, help="the sweep ends above this recall")
    for name in ("max-degree", "build-list-size", "code-bits", "code-dim", "m", "ef-construction"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    # Libraries print what they like; answers go where nobody else writes.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    worker = Worker(options)
    with contextlib.closing(worker.library):
        say(worker.about)
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                say(getattr(worker, asked.pop("do"))(**asked))
            except ValueError as error:  # one task; others may do
                say({"error": str(error)})


if __name__ == "__main__":
    main()
