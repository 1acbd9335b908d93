"""scans: point clouds that Debian's libcgal-demo carries, in the formats they came in."""

import tarfile
from pathlib import Path

PACKAGES = ("libcgal-demo",)
SOURCE = Path("/usr/share/doc/libcgal-dev/data.tar.gz")
MEMBERS = ("building.ply", "b9_training.ply", "ball.ply", "hippo1.ply", "radar.xyz", "kitten.xyz")


def make(log):
    """The files of `scans`: {file name: bytes}."""
    if not SOURCE.is_file():
        raise FileNotFoundError(f"'{SOURCE}' is missing; run: apt-get install {' '.join(PACKAGES)}")
    log(f"  reading {SOURCE}")
    found = {}
    with tarfile.open(SOURCE) as archive:
        for member in archive:
            path = Path(member.name)
            if path.parent.name == "points_3" and path.name in MEMBERS:
                found[path.name] = archive.extractfile(member).read()
    missing = [name for name in MEMBERS if name not in found]
    if missing:
        raise ValueError(f"'{SOURCE}' lacks {', '.join(missing)}; another version of CGAL?")
    return {name: found[name] for name in MEMBERS}
