"""Seeded datasets that no package carries."""

import numpy as np

CLUSTERED_BASE = 200_000
CLUSTERED_DIM = 768
MIXTURE_BASE = 200_000
MIXTURE_DIM = 768
QUERIES = 1_000
SEED = 20260102


def clustered_unit_vectors(rows, dim, clusters, seed):
    """Unit vectors like those of a text encoder, float32 [rows, dim].

    Cluster centres and the scatter around them both have a spectrum that falls as 1/sqrt(rank) in a
    random orthogonal basis (few directions carry most of the variance); cluster sizes follow Zipf's law
    with exponent 1/2; the scatter has 0.6 of a centre's length, so that vectors of one cluster have a
    cosine of about 0.7, and of two clusters about 0.
    """
    random = np.random.default_rng(seed)
    spectrum = (1 / np.sqrt(np.arange(1, dim + 1))).astype(np.float32)
    spectrum /= np.linalg.norm(spectrum)
    basis, _ = np.linalg.qr(random.standard_normal((dim, dim), np.float32))

    def draw(count, length):
        return random.standard_normal((count, dim), np.float32) * (spectrum * np.float32(length))

    centres = draw(clusters, 1)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    weight = 1 / np.sqrt(np.arange(1, clusters + 1))
    member = random.choice(clusters, rows, p=weight / weight.sum())
    out = np.empty((rows, dim), np.float32)
    for first in range(0, rows, 16384):  # a block at a time keeps the scratch memory small
        own = member[first : first + 16384]
        block = (centres[own] + draw(len(own), 0.6)) @ basis
        out[first : first + len(own)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return out


def decay_for(ratio, dim):
    """tau such that variances proportional to exp(-i / tau) have the participation ratio (sum l)^2 / sum l^2."""
    low, high = 1e-3, 1e6
    for _ in range(200):
        tau = np.sqrt(low * high)
        variances = np.exp(-np.arange(dim) / tau)
        if variances.sum() ** 2 / (variances**2).sum() < ratio:
            low = tau
        else:
            high = tau
    return tau


class GaussianMixture:
    """A mixture of gaussians like embeddings.

    In a latent basis the variances of the coordinates fall as exp(-i / tau), with tau such that their participation
    ratio is `ratio`, and their sum is dim. Centres come from the same spectrum at 0.6 of its standard deviation; each
    gaussian has a scale of 0.7 to 1.3 and a log-normal weight (sigma 0.5). One random rotation turns everything.
    """

    def __init__(self, random, dim, ratio, gaussians=2000):
        variances = np.exp(-np.arange(dim) / decay_for(ratio, dim))
        self.spread = np.sqrt(variances * dim / variances.sum()).astype(np.float32)
        self.basis, _ = np.linalg.qr(random.standard_normal((dim, dim), np.float32))
        self.centres = random.standard_normal((gaussians, dim), np.float32) * (self.spread * np.float32(0.6))
        self.scale = random.uniform(0.7, 1.3, gaussians).astype(np.float32)
        weight = np.exp(0.5 * random.standard_normal(gaussians))
        self.weight = weight / weight.sum()

    def members(self, random, rows):
        """Which gaussian each row is of."""
        return random.choice(len(self.centres), rows, p=self.weight)

    def block(self, random, members):
        """A row of each of some gaussians, float32 [len(members), dim]."""
        noise = random.standard_normal((len(members), len(self.spread)), np.float32) * self.spread
        return (self.centres[members] + self.scale[members, None] * noise) @ self.basis


def gaussian_mixture(rows, dim, ratio, seed, gaussians=2000):
    """Rows of such a mixture, float32 [rows, dim]. Rows and queries are cut from one draw."""
    random = np.random.default_rng(seed)
    mixture = GaussianMixture(random, dim, ratio, gaussians)
    members = mixture.members(random, rows)
    out = np.empty((rows, dim), np.float32)
    for first in range(0, rows, 16384):  # a block at a time keeps the scratch memory small
        own = members[first : first + 16384]
        out[first : first + len(own)] = mixture.block(random, own)
    return out


def make_mixture(log):
    """The files of `mixture-200k-768`: base and queries drawn from one mixture, participation ratio 40."""
    log(f"  drawing {MIXTURE_BASE + QUERIES} vectors of dimension {MIXTURE_DIM}")
    both = gaussian_mixture(MIXTURE_BASE + QUERIES, MIXTURE_DIM, 40, 20260405)
    return {"base": both[:MIXTURE_BASE], "queries": both[MIXTURE_BASE:]}


def make_clustered(log):
    """The files of `clustered-200k-768`: base and queries drawn from one mixture of 1000 clusters."""
    log(f"  drawing {CLUSTERED_BASE + QUERIES} unit vectors of dimension {CLUSTERED_DIM}")
    both = clustered_unit_vectors(CLUSTERED_BASE + QUERIES, CLUSTERED_DIM, 1000, SEED)
    return {"base": both[:CLUSTERED_BASE], "queries": both[CLUSTERED_BASE:]}


def rootsift(descriptors):
    """RootSIFT (Arandjelovic and Zisserman, 2012), float32 unit vectors: the roots of L1-normalised SIFT."""
    values = descriptors.astype(np.float32)
    total = values.sum(axis=1, keepdims=True)
    return np.sqrt(values / np.maximum(total, 1))


def make_rootsift_1m(log, sift):
    """The files of `rootsift-1m`: the vectors of `sift-photos-1m` as float32 unit vectors."""
    log("  taking roots")
    return {role: rootsift(np.load(sift[role])) for role in ("base", "queries")}
