"""The list of datasets: what each is, where it comes from, how it is made, what it must hash to."""

import dataclasses
import sys
from collections.abc import Callable

from . import cache, coast, generated, photo_details, scans, sift_photos, tree_points, wordnet_minilm


@dataclasses.dataclass(frozen=True)
class Dataset:
    """One dataset.

    make(log, **paths of the datasets it is made from) gives {role: array or bytes}.
    sha256 names the SHA-256 of files whose bytes are the same on every machine; a file that differs is an
    error. Files that depend on the C library's sine, on BLAS or on OpenCV's kernels are not in it.
    """

    summary: str
    make: Callable
    version: int = 1
    packages: tuple = ()
    source: str | None = None  # the dataset it is made from
    sha256: dict = dataclasses.field(default_factory=dict)


DATASETS = {
    "coast": Dataset(
        "10,995,687 coastline points of GSHHG 2.3.7 on the unit sphere, float32 [n, 3]; longitude and latitude; level",
        coast.make,
        packages=coast.PACKAGES,
        sha256={
            "lonlat": "5be7781ca7ecf2bfdd3cdfdbaf20181fd2b8b8b7f9be0f4286a17e02556f5a11",
            "level": "73eeffef205abab4819b00c97ae7489a155976529bdd414433911b0c9f838598",
        },
    ),
    "sift-photos": Dataset(
        "SIFT descriptors of Debian's wallpaper photographs, uint8 [n, 128], about 2.5 million; 10,000 queries",
        sift_photos.make,
        packages=sift_photos.PACKAGES,
    ),
    "sift-photos-1m": Dataset(
        "a seeded million of sift-photos, uint8 [1000000, 128]; 1,000 queries",
        sift_photos.make_1m,
        source="sift-photos",
    ),
    "photo-details": Dataset(
        "SIFT descriptors of the same wallpapers, small, about 60,000 with their places; some of the pictures as queries",
        photo_details.make,
        packages=photo_details.PACKAGES,
    ),
    "rootsift-1m": Dataset(
        "sift-photos-1m as RootSIFT, float32 unit vectors [1000000, 128]; 1,000 queries",
        generated.make_rootsift_1m,
        source="sift-photos-1m",
    ),
    "mixture-200k-768": Dataset(
        "a mixture of gaussians with a falling spectrum, float32 [200000, 768]; 1,000 queries",
        generated.make_mixture,
    ),
    "clustered-200k-768": Dataset(
        "seeded clustered unit vectors, float32 [200000, 768]; 1,000 queries",
        generated.make_clustered,
    ),
    "wordnet-minilm": Dataset(
        "WordNet's definitions and examples through all-MiniLM-L6-v2, float32 unit vectors [n, 384]; 2,000 queries",
        wordnet_minilm.make,
        packages=wordnet_minilm.PACKAGES,
    ),
    "tree-points": Dataset(
        "seeded points for the trees, float32, 1,000,000 x 3 and 200,000 x 8; as many queries",
        tree_points.make,
    ),
    "tree-coast": Dataset(
        "coast shuffled, coast with half of its points equal to the others; 1,000,000 queries near the coast",
        tree_points.make_coast,
        source="coast",
    ),
    "scans": Dataset(
        "point clouds of CGAL's demo data: building, b9_training, ball, hippo1 (PLY), radar, kitten (xyz)",
        scans.make,
        packages=scans.PACKAGES,
        sha256={
            "building.ply": "8604fd5448ed716f58df787a7696481f26b3c69587f88048fc48223467ac71f7",
            "b9_training.ply": "94c05829a78b1ebbb6882dda0e5e263f30331ff10820a0beb61843001ad0b46d",
            "ball.ply": "98a8f9ed8cc2fc136a65b55d657ea3219e6cdb2fbf2e2184d790017a22235b11",
            "hippo1.ply": "74e38ebd5a8fd25340be46bca0543fc40224b2966ec6880305609da2b32c173f",
            "radar.xyz": "d37595a53067bca4710db64725c3593aa3963e9c4e978b615c7a70d80fd851b3",
            "kitten.xyz": "c66c20136d5b60438ae2cc19c401b2b7c8d61c302336b419834c4a3b5c1e9c19",
        },
    ),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def ensure(name, out=None, log=say):
    """Makes a dataset unless the cache holds it whole; returns {role: path}.

    @raises KeyError for an unknown name, ValueError when a file is not what the list says
    """
    if name not in DATASETS:
        raise KeyError(f"no dataset '{name}'; there are: {', '.join(DATASETS)}")
    dataset, folder = DATASETS[name], cache.cache_folder(out)
    with cache.locked(folder, name):
        manifest, reason = cache.load_manifest(folder, name, dataset.version)
        if manifest is None:
            log(f"dataset {name}: {reason}; making it in {folder}")
            source = {} if dataset.source is None else {"source": ensure(dataset.source, out, log)}
            contents = dataset.make(log, *source.values())
            manifest = cache.store(folder, name, dataset.version, contents)
    for role, digest in dataset.sha256.items():
        if manifest["files"][role]["sha256"] != digest:
            raise ValueError(
                f"dataset {name}: {manifest['files'][role]['file']} has SHA-256 {manifest['files'][role]['sha256']}, "
                f"expected {digest}; remove it, or another version of {', '.join(dataset.packages)} is installed"
            )
    return {role: folder / entry["file"] for role, entry in manifest["files"].items()}
