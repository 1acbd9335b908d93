"""sift-photos: SIFT descriptors (Lowe, 2004) of the photographs that two Debian packages carry.

Real 128-dimensional uint8 vectors: the largest size of every picture of plasma-workspace-wallpapers and
gnome-backgrounds, its longest side scaled to 4000 pixels, through OpenCV's SIFT with a low contrast
threshold so that about 2.5 million descriptors come out. OpenCV comes from Debian (python3-opencv), so
this file is also run as a program by Debian's own interpreter:

    /usr/bin/python3 sift_photos.py OUTPUT.npy
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PACKAGES = ("plasma-workspace-wallpapers", "gnome-backgrounds", "python3-opencv")
CONTRAST_THRESHOLD = 0.005  # OpenCV's default is 0.04; lower keeps fainter corners
EDGE_THRESHOLD = 20  # default 10; higher keeps more edge-like points
LONGEST_SIDE = 4000
DRAWINGS = "pixels-"  # computer-drawn noise whose 1.3 million corners would be a third of the dataset
QUERIES = 10_000
SEED = 20260101
SUBSET_BASE = 1_000_000
SUBSET_QUERIES = 1_000


def pictures(wallpapers=Path("/usr/share/wallpapers"), backgrounds=Path("/usr/share/backgrounds/gnome")):
    """One path a picture, the largest of its sizes, in the order of their names.

    Plasma keeps sizes as NAME/contents/images*/WIDTHxHEIGHT.ext; GNOME has one size a file. Vector
    drawings (SVG) are left out (OpenCV does not read them), and DRAWINGS.
    """
    chosen = []
    for folder in sorted(wallpapers.glob("*/contents/images*")):
        sizes = []
        for path in folder.iterdir():
            match = re.fullmatch(r"(\d+)x(\d+)\.(jpg|png|webp)", path.name)
            if match and path.is_file():
                sizes.append((int(match[1]) * int(match[2]), path.name, path))
        if sizes:
            chosen.append(max(sizes)[2])
    chosen += [
        path
        for path in sorted(backgrounds.iterdir())
        if path.suffix in (".jpg", ".png", ".webp") and not path.name.startswith(DRAWINGS)
    ]
    if not chosen:
        raise FileNotFoundError(
            f"no pictures in {wallpapers} and {backgrounds}; run: apt-get install {' '.join(PACKAGES)}"
        )
    return chosen


def extract(log=lambda text: None):
    """All descriptors, uint8 [n, 128], picture after picture."""
    import cv2

    sift = cv2.SIFT_create(0, 3, CONTRAST_THRESHOLD, EDGE_THRESHOLD, 1.6)  # nfeatures 0: all of them
    parts = []
    files = pictures()
    for number, path in enumerate(files, 1):
        image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if image is None:
            raise OSError(f"OpenCV cannot read '{path}'; reinstall the package it belongs to")
        scale = LONGEST_SIDE / max(image.shape)
        shape = (round(image.shape[1] * scale), round(image.shape[0] * scale))
        shrink = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        image = cv2.resize(image, shape, interpolation=shrink)
        _, found = sift.detectAndCompute(image, None)
        if found is not None:
            # OpenCV hands out float32 that are already whole numbers of 0..255.
            parts.append(found.astype(np.uint8))
        log(f"  {number}/{len(files)} {path} {0 if found is None else len(found)}")
    return np.concatenate(parts)


def load_descriptors(log):
    """Runs extract() under the first interpreter that has OpenCV: Debian's, then this one."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "sift.npy"
        for python in ("/usr/bin/python3", sys.executable):
            probe = subprocess.run([python, "-c", "import cv2, numpy"], capture_output=True)
            if probe.returncode == 0:
                log(f"  SIFT through {python} (about four minutes of CPU)")
                subprocess.run([python, __file__, str(output)], check=True)
                return np.load(output)
    raise ModuleNotFoundError("OpenCV is missing; run: apt-get install python3-opencv")


def split(descriptors):
    """(base, queries): QUERIES rows drawn with the seed are taken out of the base, order kept."""
    drawn = np.random.default_rng(SEED).choice(len(descriptors), QUERIES, replace=False)
    keep = np.ones(len(descriptors), bool)
    keep[drawn] = False
    return descriptors[keep], descriptors[drawn]


def make(log):
    """The files of `sift-photos`: base and 10,000 queries."""
    base, queries = split(load_descriptors(log))
    return {"base": base, "queries": queries}


def make_1m(log, full):
    """The files of `sift-photos-1m`: a seeded million of the base (order kept), the first 1000 queries."""
    base, queries = np.load(full["base"], mmap_mode="r"), np.load(full["queries"])
    drawn = np.random.default_rng(SEED + 1).choice(len(base), SUBSET_BASE, replace=False)
    return {"base": np.ascontiguousarray(base[np.sort(drawn)]), "queries": queries[:SUBSET_QUERIES]}


if __name__ == "__main__":
    np.save(sys.argv[1], extract(lambda text: print(text, file=sys.stderr, flush=True)))
