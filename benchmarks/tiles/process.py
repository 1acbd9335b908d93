"""measured(COMMAND): what a command took: time, processor time, peak memory, traffic with the disk.

The kernel counts the peak of a process (ru_maxrss) from before it becomes the program, when it is still a copy of whoever
starts it. So a small process starts the command: this file as a program, ``process.py REPORT COMMAND...``.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

_BLOCK = 512  # bytes that the kernel counts as one block


def measured(command, **how):
    """Runs a command; how: as for subprocess.run.

    Returns {"seconds", "processor_seconds", "peak_bytes", "read_bytes", "written_bytes"}, the last two those that came from
    the disk and go there, and "out" where stdout is a pipe. Exits where the command fails.
    """
    words = [str(word) for word in command]
    with tempfile.NamedTemporaryFile("r") as report:
        done = subprocess.run([sys.executable, "-S", __file__, report.name, *words], text=True, **how)
        if done.returncode != 0:
            sys.exit(f"error: {' '.join(words)} ended with status {done.returncode}")
        return {**json.load(report), **({"out": done.stdout} if done.stdout is not None else {})}


def _main(report, command):
    start = time.monotonic()
    process = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    took = {
        "seconds": round(time.monotonic() - start, 3),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_bytes": usage.ru_maxrss * 1024,
        "read_bytes": usage.ru_inblock * _BLOCK,
        "written_bytes": usage.ru_oublock * _BLOCK,
    }
    with open(report, "w") as file:
        json.dump(took, file)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
