"""The measured cases: which data, which question, which peers. `python -m benchmarks.run` runs them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of `kith bench`.

    dataset names an entry of benchmarks.datasets with the roles "base" and "queries"; without one the
    arguments generate the data.
    """

    title: str
    text: str  # what is measured and why, for docs/benchmarks.md
    dataset: str | None
    arguments: tuple
    peers: tuple = ("faiss", "sklearn")


CASES = {
    "sift-photos-1m": Case(
        "Image descriptors: 1,000,000 x 128 uint8, k = 10",
        "Real SIFT descriptors as they come out of OpenCV, one byte a value. Kith searches the bytes; the peers "
        "search float32 copies, the only form they take. 1000 queries in one call.",
        "sift-photos-1m",
        ("-k", "10", "--repeats", "5"),
    ),
    "mixture-200k-768": Case(
        "Embeddings with a falling spectrum: 200,000 x 768 float32, k = 100",
        "A mixture of 2,000 gaussians whose variances fall in a rotated basis (participation ratio 40; "
        "benchmarks/datasets/generated.py). 1000 queries in one call.",
        "mixture-200k-768",
        ("-k", "100", "--repeats", "5"),
    ),
    "clustered-200k-768": Case(
        "Embedding-like vectors: 200,000 x 768 float32, k = 100",
        "Seeded unit vectors in 1000 clusters with a falling spectrum (benchmarks/datasets/generated.py), the shape "
        "of a text encoder's output. 1000 queries in one call.",
        "clustered-200k-768",
        ("-k", "100", "--repeats", "5"),
    ),
    "single-query-1m-128": Case(
        "Latency: one query at a time on 1,000,000 x 128 float32, k = 10",
        "RootSIFT vectors (unit length, float32). 50 calls of one query each; what one request of a service waits.",
        "rootsift-1m",
        ("-k", "10", "--batch", "1", "--max-queries", "50", "--repeats", "5"),
    ),
    "rootsift-1m": Case(
        "Float vectors: 1,000,000 x 128 float32, k = 10",
        "RootSIFT vectors, 1000 queries in one call: float data on both sides.",
        "rootsift-1m",
        ("-k", "10", "--repeats", "3"),
    ),
}
