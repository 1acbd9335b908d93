"""python -m benchmarks.tiles.reading [-n ROWS]: how quickly tiles are read, with io_uring and without.

Generates terrain, divides it among tiles, and asks for the nearest neighbour of every row, cold (the page cache gives the
tiles up before) and warm, with io_uring and where a filter of system calls forbids it, as containers do. The program says
how long reading took and how long the search waited for it. Beside it what the disk gives one reader of large blocks in
the same run. Writes benchmarks/results/tiles-reading.json. Needs build/bin/kith.
"""

import argparse
import ctypes
import datetime
import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

from benchmarks.run import commit

from .disk import forget, read_rate

ROOT = Path(__file__).resolve().parents[2]
KITH = os.environ.get("KITH", str(ROOT / "build" / "bin" / "kith"))
MIB = 1 << 20


def forbid_io_uring():
    """io_uring_setup (number 425 everywhere) gives EPERM from here on."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    filters = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_char_p(filters), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls can be set")


def ask(tiles, folder, limit, allowed):
    """Statistics of a search."""
    command = [KITH, "all-knn", tiles, "-k", "1", "--order", "tiles", "-o", f"{folder}/r", "--json", "-q"]
    command += ["--memory-limit", f"{limit}MiB"]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=None if allowed else forbid_io_uring
    )
    return json.loads(done.stdout)["statistics"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--rows", type=int, default=10_000_000)
    parser.add_argument("--limit", type=int, default=512, help="MiB")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    runs, disk = [], []
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        cloud, tiles = f"{folder}/cloud.npy", f"{folder}/tiles"
        subprocess.run(
            [KITH, "generate", "terrain_scan", "-n", str(options.rows), "--utm", "-o", cloud, "-q"], check=True
        )
        subprocess.run(
            [
                KITH,
                "build",
                cloud,
                "--index",
                "point_tiles",
                "-o",
                tiles,
                "-q",
                "--memory-limit",
                f"{options.limit}MiB",
            ],
            check=True,
        )
        for repeat in range(options.repeat):
            forget(Path(tiles).iterdir())
            disk.append(read_rate(Path(tiles).glob("segment-*")))
            for cold in (True, False):
                for allowed in (True, False):
                    if cold:
                        forget(Path(tiles).iterdir())
                    else:
                        for path in Path(tiles).iterdir():
                            path.read_bytes()
                    told = ask(tiles, folder, options.limit, allowed)
                    rate = told["bytes_read"] / told["read_seconds"]
                    runs.append({"cold": cold, "io_uring": allowed, "reader": told["reader"], "repeat": repeat})
                    runs[-1] |= {"bytes_read": told["bytes_read"], "bytes_direct": told["bytes_direct"]}
                    runs[-1] |= {key: round(told[key], 3) for key in ("read_seconds", "waited_seconds", "seconds")}
                    runs[-1]["bytes_a_second"] = round(rate)
                    print(
                        f"{'cold' if cold else 'warm'}, {told['reader']}: {rate / MIB:.0f} MiB/s, "
                        f"{told['bytes_direct'] / MIB:.0f} MiB past the page cache; the search of "
                        f"{told['seconds']:.2f} s waited {told['waited_seconds']:.2f} s"
                    )
    print(f"the disk, one reader: {max(disk) / MIB:.0f} MiB/s at best")
    report = {"date": datetime.date.today().isoformat(), "commit": commit()}
    report |= {"rows": options.rows, "limit": options.limit * MIB, "load": os.getloadavg()[0]}
    report |= {"disk_bytes_a_second": [round(rate) for rate in disk], "runs": runs}
    (ROOT / "benchmarks" / "results" / "tiles-reading.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
