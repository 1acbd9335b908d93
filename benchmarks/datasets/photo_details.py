"""photo-details: SIFT descriptors (Lowe, 2004) of the wallpapers of sift-photos, small, with where each was found.

Some of the pictures come in two versions, by day and by night. The second of a pair, and every fourth of the others, are
held out as queries: what they show may be in one of the rest. OpenCV may come from Debian or from PyPI, so this file is
also run as a program by whichever interpreter has it:

    python3 photo_details.py FOLDER PART PARTS
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.datasets.sift_photos import pictures

PACKAGES = ("plasma-workspace-wallpapers", "gnome-backgrounds")  # and OpenCV, from wherever
LONGEST_SIDE = 1280
CONTRAST_THRESHOLD = 0.02
PARTS = 2  # processes that extract


def title(path):
    """What a picture is called, without what tells its versions apart."""
    if "contents" in path.parts:
        return path.parts[path.parts.index("contents") - 1]
    return re.sub(r"-[dl]$", "", path.stem)


def held_out(paths):
    """Numbers of the pictures that ask."""
    names = [title(path) for path in paths]
    second = {number for number, name in enumerate(names) if name in names[:number]}
    alone = [number for number, name in enumerate(names) if names.count(name) == 1]
    return sorted(second | set(alone[3::4]))


def extract(folder, part, parts):
    """Writes NN.npz (descriptors uint8 [n, 128], places float32 [n, 4]: x, y, diameter, degrees) and NN.jpg a picture."""
    import cv2

    cv2.setNumThreads(1)
    sift = cv2.SIFT_create(0, 3, CONTRAST_THRESHOLD)
    for number, path in enumerate(pictures()):
        if number % parts != part:
            continue
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if image is None:
            raise OSError(f"OpenCV cannot read '{path}'; reinstall the package it belongs to")
        scale = LONGEST_SIDE / max(image.shape[:2])
        shape = (round(image.shape[1] * scale), round(image.shape[0] * scale))
        image = cv2.resize(image, shape, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
        points, found = sift.detectAndCompute(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), None)
        places = np.array([(*p.pt, p.size, p.angle) for p in points], np.float32).reshape(-1, 4)
        found = np.zeros((0, 128), np.uint8) if found is None else found.astype(np.uint8)
        np.savez(folder / f"{number:02}.npz", descriptors=found, places=places)
        cv2.imwrite(str(folder / f"{number:02}.jpg"), image, [cv2.IMWRITE_JPEG_QUALITY, 90])


def python_with_opencv():
    """Debian's interpreter, else this one. @raises ModuleNotFoundError"""
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", "import cv2, numpy"], capture_output=True).returncode == 0:
            return python
    raise ModuleNotFoundError(
        "OpenCV is missing; run: pip install opencv-python-headless, or apt-get install python3-opencv"
    )


def make(log):
    """The files of `photo-details`."""
    paths = pictures()
    python = python_with_opencv()
    log(f"  SIFT of {len(paths)} pictures through {python}")
    with tempfile.TemporaryDirectory() as name:
        line = [python, __file__, name]
        running = [subprocess.Popen([*line, str(part), str(PARTS)], stderr=subprocess.PIPE) for part in range(PARTS)]
        for process in running:
            said = process.communicate()[1].decode(errors="replace")
            if process.returncode != 0:
                raise OSError(f"extracting failed: {said.strip().splitlines()[-1] if said.strip() else 'no word'}")
        made = {f"{number:02}.jpg": (Path(name) / f"{number:02}.jpg").read_bytes() for number in range(len(paths))}
        parts = [np.load(Path(name) / f"{number:02}.npz") for number in range(len(paths))]
        asking = held_out(paths)
        for role, numbers in (("base", [n for n in range(len(paths)) if n not in asking]), ("queries", asking)):
            made[role] = np.concatenate([parts[n]["descriptors"] for n in numbers])
            made[f"{role}-places"] = np.concatenate(
                [
                    np.column_stack([np.full(len(parts[n]["places"]), n, np.float32), parts[n]["places"]])
                    for n in numbers
                ]
            )
    made["titles.json"] = json.dumps([title(path) for path in paths]).encode()
    return made


if __name__ == "__main__":
    extract(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
