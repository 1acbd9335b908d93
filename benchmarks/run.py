"""python -m benchmarks.run [CASE...]: measures Kith beside its peers and keeps benchmarks/results/CASE.json.

With --set SET Kith runs on that instruction set and the peers are held to one like it; the result is CASE-SET.json.

Needs build/bin/kith and a virtual environment with benchmarks/requirements.txt (see docs/benchmarks.md).
Run it with nothing else running. Afterwards `python -m benchmarks.report` writes docs/benchmarks.md anew.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

from .cases import CASES
from .datasets import ensure

ROOT = Path(__file__).resolve().parents[1]
# What holds OpenBLAS and faiss to the instructions of Kith's sets; faiss's own BLAS may take a CPU that is newer than
# itself for the oldest there is, so each of them is named.
PEERS_SETS = {
    "avx512_vnni": {"OPENBLAS_CORETYPE": "SkylakeX", "FAISS_SIMD_LEVEL": "AVX512"},
    "avx_vnni": {"OPENBLAS_CORETYPE": "Haswell", "FAISS_SIMD_LEVEL": "AVX2"},
    "avx2": {"OPENBLAS_CORETYPE": "Haswell", "FAISS_SIMD_LEVEL": "AVX2"},
}


def commit():
    """The commit measured, with "+changes" when the tree has changes beside results and docs."""
    try:
        head = subprocess.check_output(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, text=True).strip()
        dirty = subprocess.check_output(
            ["git", "status", "--porcelain", "--", "src", "include", "cli", "benchmarks/peers"], cwd=ROOT, text=True
        )
        return head + ("+changes" if dirty.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def cpu_name():
    """The processor's name, as it is stated beside what it measured."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def environment(which):
    """The environment in which all of them run on one instruction set; None: whatever each takes by itself."""
    return dict(os.environ) if which is None else {**os.environ, "KITH_INSTRUCTION_SET": which, **PEERS_SETS[which]}


def command(case, arguments, kith, peers, threads, output, which=None):
    """(command line, folder to run it in); files are named relative to the folder, so that no path of
    this machine gets into the result."""
    line, folder = [str(kith), "bench"], ROOT
    if arguments.dataset is not None:
        files = ensure(arguments.dataset)
        folder = files["base"].parent
        line += [files["base"].name, files["queries"].name]
    line += [*arguments.arguments, "--threads", str(threads)]
    if peers:
        line += ["--peers", ",".join(peers)]
    line += ["--label", f"case={case}", "--label", f"commit={commit()}"]
    if which is not None:
        line += ["--label", "peers=" + " ".join(f"{k}={v}" for k, v in PEERS_SETS[which].items())]
    return [*line, "-o", str(output)], folder


def main():
    listing = "\n".join(f"  {name:22} {case.title}" for name, case in CASES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Measures Kith beside its peers.",
        epilog=f"cases:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", nargs="*", metavar="CASE", help="default: all")
    parser.add_argument(
        "--kith", type=Path, default=ROOT / "build/bin/kith", help="the program (default build/bin/kith)"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results", help="folder of the results")
    parser.add_argument("--peers", help="peers in place of each case's own: faiss,sklearn; none: ''")
    parser.add_argument("--threads", type=int, default=0, help="threads of all (default: one per core)")
    parser.add_argument("--set", choices=PEERS_SETS, help="run all of them on this instruction set")
    options = parser.parse_args()
    unknown = [name for name in options.case if name not in CASES]
    if unknown:
        parser.error(f"there is no case '{unknown[0]}'; there are: {', '.join(CASES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: the load is {load:.1f}; other work on this machine blurs the figures", file=sys.stderr)
    for name in options.case or CASES:
        case = CASES[name]
        peers = case.peers if options.peers is None else tuple(p for p in options.peers.split(",") if p)
        output = (options.out / (f"{name}.json" if options.set is None else f"{name}-{options.set}.json")).resolve()
        line, folder = command(name, case, options.kith.resolve(), peers, options.threads, output, options.set)
        print(f"\n== {name}: {case.title}", flush=True)
        if subprocess.run(line, cwd=folder, env=environment(options.set)).returncode != 0:
            sys.exit(f"error: case {name} failed")


if __name__ == "__main__":
    main()
