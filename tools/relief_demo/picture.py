"""A shaded relief from points and their normals, a block of rows at a time: neither need fit in memory."""

import numpy as np

BLOCK = 1 << 20
LOW, MIDDLE, HIGH = (0.36, 0.47, 0.31), (0.72, 0.66, 0.47), (0.93, 0.92, 0.90)


def grid(points, normals, size, sun):
    """(mean elevation, mean light) of the pixels of a picture of `size` x `size`, NaN where no point lies.

    Light is the cosine between the sun and the normal, which points up.
    """
    low = np.full(2, np.inf)
    high = np.full(2, -np.inf)
    for first in range(0, len(points), BLOCK):
        block = points[first : first + BLOCK, :2]
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    side = (high - low).max() * (1 + 1e-9)
    towards = np.asarray(sun, np.float64) / np.linalg.norm(sun)
    sums = np.zeros((3, size * size))
    for first in range(0, len(points), BLOCK):
        block, table = points[first : first + BLOCK], normals[first : first + BLOCK]
        normal = table[:, :3] * np.where(table[:, 2:3] < 0, -1, 1)
        light = np.maximum(normal @ towards, 0)
        x, y = ((block[:, :2] - low) / side * size).astype(np.int64).T
        pixel = (size - 1 - y) * size + x
        known = np.isfinite(light)
        for total, weights in zip(
            sums, [known, np.where(known, light, 0), np.where(known, block[:, 2], 0)], strict=True
        ):
            total += np.bincount(pixel, weights=weights, minlength=size * size)
    with np.errstate(invalid="ignore", divide="ignore"):
        light, elevation = sums[1] / sums[0], sums[2] / sums[0]
    return elevation.reshape(size, size), light.reshape(size, size)


def colours(elevation, light):
    """uint8 [size, size, 3]: tints by elevation under the sun, white where there is nothing."""
    least, most = np.nanquantile(elevation, [0.01, 0.99])
    share = np.clip((elevation - least) / max(most - least, 1e-9), 0, 1)
    tints = np.stack([np.interp(share, [0, 0.5, 1], tint) for tint in zip(LOW, MIDDLE, HIGH, strict=True)], axis=-1)
    picture = np.clip(tints * (0.25 + 0.95 * light)[..., None], 0, 1)
    picture[~np.isfinite(light)] = 1
    return (255 * picture + 0.5).astype(np.uint8)


def write(path, pixels):
    from PIL import Image

    Image.fromarray(pixels).save(path)
