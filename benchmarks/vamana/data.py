"""The rows that graphs are measured on: made once under build/, with their exact answers."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np

from benchmarks.datasets import cache, ensure
from benchmarks.datasets.generated import gaussian_mixture

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/vamana-bench"
SEED = 20260405
MOST_K = 100


@dataclasses.dataclass(frozen=True)
class Rows:
    """make(rows, queries, log) gives (base, queries)."""

    text: str  # for docs/benchmarks.md
    make: object


def photos(dtype):
    def make(rows, queries, log):
        files = ensure("sift-photos", log=log)
        base, asked = np.load(files["base"], mmap_mode="r"), np.load(files["queries"])
        if rows > len(base) or queries > len(asked):
            raise ValueError(
                f"sift-photos has {len(base):,} rows and {len(asked):,} queries, not {rows:,} and {queries:,}"
            )
        drawn = np.sort(np.random.default_rng(SEED).choice(len(base), rows, replace=False))
        return base[drawn].astype(dtype), asked[:queries].astype(dtype)

    return make


def embeddings(rows, queries, log):
    both = gaussian_mixture(rows + queries, 768, 40, SEED)
    return both[:rows], both[rows:]


def sentences(rows, queries, log):
    files = ensure("wordnet-minilm", log=log)
    base, asked = np.load(files["base"]), np.load(files["queries"])
    if rows > len(base) or queries > len(asked):
        raise ValueError(
            f"wordnet-minilm has {len(base):,} rows and {len(asked):,} queries, not {rows:,} and {queries:,}"
        )
    return base[:rows], asked[:queries]


SETS = {
    "sift-photos-u8": Rows("Image descriptors (SIFT of photographs), one byte a value as they come.", photos(np.uint8)),
    "sift-photos-f32": Rows("The same values as float32.", photos(np.float32)),
    "embeddings-768": Rows(
        "Vectors like those of a text encoder: a mixture of 2,000 gaussians in a rotated basis whose variances fall "
        "(participation ratio 40), not normalised.",
        embeddings,
    ),
    "sentences-384": Rows(
        "Embeddings of sentences: WordNet's definitions and examples through all-MiniLM-L6-v2, unit vectors.", sentences
    ),
}


def prepare(name, rows, queries, folder, exact, log):
    """{role: path} of base, queries and truth; what is there already is used again.

    exact(base, queries, k) gives the numbers of the k nearest rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{rows}-{queries}"
    files = {role: folder / f"{stem}.{role}.npy" for role in ("base", "queries", "truth")}
    # What the rows are made by; another recipe makes them anew.
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    manifest = folder / f"{stem}.json"
    with cache.locked(folder, stem):
        if manifest.is_file() and json.loads(manifest.read_text())["recipe"] == recipe:
            return files
        log(f"{stem}: making rows")
        base, asked = SETS[name].make(rows, queries, log)
        log(f"{stem}: exact answers")
        made = {"base": base, "queries": asked, "truth": exact(base, asked, min(MOST_K, rows))}
        for role, path in files.items():
            cache.write_atomically(path, lambda stream, role=role: np.save(stream, made[role]))
        cache.write_atomically(manifest, lambda stream: stream.write(json.dumps({"recipe": recipe}).encode()))
    return files
