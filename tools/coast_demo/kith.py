"""Runs the kith program as a person would, and shows the command line; what the scenes of the demo are told."""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


def arguments(scene, text):
    """A parser with what every scene takes."""
    parser = argparse.ArgumentParser(prog=f"tools/demo.sh {scene}", description=text)
    parser.add_argument("--kith", type=Path, required=True, help="the kith program")
    parser.add_argument("--out", type=Path, required=True, help="folder for what it makes")
    parser.add_argument("--threads", type=int, help="threads of kith (default: all)")
    return parser


class Kith:
    """The program at `program`, run in `folder`; counts the seconds its searches took."""

    def __init__(self, program, folder, threads):
        self.program, self.folder = Path(program).resolve(), Path(folder)
        self.threads = [] if threads is None else ["--threads", str(threads)]
        self.build_seconds = 0.0  # of the whole commands, reading the points and writing the index included
        self.search_seconds = 0.0  # of the whole commands, opening the index included
        self.queries = 0

    @classmethod
    def of(cls, options):
        """By the arguments of a scene; makes its folder."""
        options.out.mkdir(parents=True, exist_ok=True)
        return cls(options.kith, options.out.resolve(), options.threads)

    def short(self, argument):
        """As one would type it in the demo's folder: names inside, ~ for the home, quotes where needed."""
        home = str(Path.home()) + os.sep
        if argument.startswith(str(self.folder) + os.sep):
            argument = argument[len(str(self.folder)) + 1 :]
        elif argument.startswith(home):
            return "~/" + shlex.quote(argument[len(home) :])
        return shlex.quote(argument)

    def run(self, *arguments):
        """Runs `kith ARGUMENTS...`; returns (JSON it printed, seconds). Its failure ends the demo."""
        given = [str(a) for a in arguments]
        shown = " ".join(self.short(a) for a in given)
        print(f"  $ kith {shown}", flush=True)
        started = time.perf_counter()
        done = subprocess.run(
            [str(self.program), *given, "--json", "--quiet"], cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        seconds = time.perf_counter() - started
        if done.returncode != 0:
            sys.exit(f"demo: 'kith {shown}' failed with exit code {done.returncode}")
        return json.loads(done.stdout or "{}"), seconds

    def build(self, points, index):
        """Makes a k-d tree of a file of points and keeps it as a file."""
        _, seconds = self.run(
            "build", points, "--index", "kd_tree", "--metric", "euclidean", *self.threads, "-o", index
        )
        self.build_seconds += seconds
        print(f"    {seconds:.1f} s")

    def nearest(self, index, queries, stem):
        """The nearest row of the index for each query: (indices [q], distances [q])."""
        file, out = self.folder / f"{stem}.queries.npy", self.folder / stem
        np.save(file, queries)
        _, seconds = self.run("search", index, file, "-k", "1", *self.threads, "-o", out)
        self.search_seconds += seconds
        self.queries += len(queries)
        print(f"    {len(queries):,} queries in {seconds:.1f} s")
        return (
            np.load(self.folder / f"{stem}.indices.npy")[:, 0],
            np.load(self.folder / f"{stem}.distances.npy")[:, 0],
        )
