"""The oracle: a normal by its definition, all points looked at, in plain NumPy and float64."""

import numpy as np


def normal(points, row, k):
    """(normal [3], curvature) of the k points nearest to points[row], itself included.

    The eigenvector of the least eigenvalue of their covariance, and its share of all three.
    """
    points = points.astype(np.float64)
    squares = ((points - points[row]) ** 2).sum(axis=1)
    near = points[np.lexsort((np.arange(len(points)), squares))[:k]]
    values, vectors = np.linalg.eigh(np.cov(near.T, bias=True))
    return vectors[:, 0], values[0] / values.sum()


def check(points, normals, curvature, k, rows):
    """Compares normals, whose sign is free, and curvatures of `rows` with the oracle.

    @raises AssertionError naming the first that differs
    """
    for row in rows:
        expected, bend = normal(points, row, k)
        aside = np.linalg.norm(np.cross(expected, normals[row]))
        if not (aside < 1e-5 and abs(bend - curvature[row]) < 1e-7):
            raise AssertionError(
                f"point {row}: kith's normal is {normals[row]} with curvature {curvature[row]}, "
                f"the oracle's {expected} with {bend}"
            )


def degrees_between(a, b):
    """Angles between lines (0 to 90) along the rows of two arrays."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    cosine = np.abs((a * b).sum(axis=1)) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return np.degrees(np.arccos(np.minimum(cosine, 1)))
