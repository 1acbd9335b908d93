"""A small faiss IndexHNSWFlat and the same graph of DiskANN's and hnswlib's, byte by byte from their layouts."""

import struct

import numpy as np

NODES, DIM, DEGREE, START = 500, 6, 8, 7


def rows(dtype=np.float32):
    random = np.random.default_rng(4)
    return (random.standard_normal((NODES, DIM)) * 20).astype(dtype)


def edges():
    near = np.argsort(((rows()[:, None].astype(float) - rows()[None]) ** 2).sum(axis=2), axis=1, kind="stable")
    ring = (np.arange(NODES) + 1) % NODES
    return np.concatenate([ring[:, None], near[:, 1 : DEGREE - 1]], axis=1).astype(np.uint32)


def diskann():
    lists = b"".join(struct.pack("<I", len(its)) + its.tobytes() for its in edges())
    return struct.pack("<QIIQ", 24 + len(lists), DEGREE, START, 0) + lists


def data(dtype=np.float32):
    return struct.pack("<II", NODES, DIM) + rows(dtype).tobytes()


def hnswlib(labels=None):
    vector = 4 + 4 * DEGREE
    label = vector + 4 * DIM
    header = struct.pack("<6QiI3QdQ", 0, NODES, NODES, label + 8, label, vector, 0, START, 4, DEGREE, 4, 0.72, 40)
    out = [header]
    for i, (its, row) in enumerate(zip(edges(), rows(), strict=True)):
        out.append(struct.pack("<I", len(its)) + its.tobytes() + bytes(4 * (DEGREE - len(its))) + row.tobytes())
        out.append(struct.pack("<Q", i if labels is None else labels[i]))
    return b"".join(out) + bytes(4 * NODES)


def pq_pivots():
    mean = 4096 + 8 + 4 * 256 * DIM
    parts = mean + 8 + 4 * DIM
    out = struct.pack("<II4Q", 4, 1, 4096, mean, parts, parts + 8 + 16).ljust(4096, b"\0")
    out += struct.pack("<II", 256, DIM) + np.random.default_rng(1).standard_normal(256 * DIM).astype("<f4").tobytes()
    return out + struct.pack("<II", DIM, 1) + bytes(4 * DIM) + struct.pack("<6I", 4, 1, 0, 2, 4, 6)
