"""python worker.py NAME CLOUD.npy K OUT.npy: the normals of a cloud by a peer, in a process of its own.

Prints {"version", "note", "work_seconds"}: the last without imports, reading and writing. With --sample ROWS.npy no
normals, but the distance of the k-th neighbour (each row its own first) of these rows: the searches that the normals
stand on, asked for once more so that they are no part of what is timed. NAME `reference` is SciPy's tree over the whole
cloud and, of the sample, normals as well.
"""

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROW = np.dtype([("point", "<f8", 3), ("row", "<i8")])  # of a tile's file; row -1: of the border


def fit(near):
    """Unit normals [n, 3] of neighbourhoods [n, k, 3], and their eigenvalues, ascending, [n, 3]."""
    centred = near - near.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(np.einsum("nki,nkj->nij", centred, centred))
    return vectors[:, :, 0], values


def open3d(options):
    """`PointCloud.estimate_normals`, the class most programs use."""
    import open3d as o3d

    points = o3d.utility.Vector3dVector(np.load(options.cloud))
    cloud = o3d.geometry.PointCloud(points)
    about = {"version": o3d.__version__, "note": "geometry.PointCloud.estimate_normals, KNN"}
    if options.sample is not None:
        tree = o3d.geometry.KDTreeFlann(cloud)
        return about, lambda rows: [tree.search_knn_vector_3d(points[row], options.k)[2][-1] ** 0.5 for row in rows]

    def normals():
        cloud.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(options.k))
        return lambda: np.save(options.out, np.asarray(cloud.normals))

    return about, normals


def open3d_tensor(options):
    """The same of its newer classes."""
    import open3d as o3d

    points = o3d.core.Tensor.from_numpy(np.load(options.cloud))
    about = {"version": o3d.__version__, "note": "t.geometry.PointCloud.estimate_normals, max_nn alone"}
    if options.sample is not None:
        search = o3d.core.nns.NearestNeighborSearch(points)
        search.knn_index()
        return about, lambda rows: search.knn_search(points[o3d.core.Tensor(rows)], options.k)[1].numpy()[:, -1] ** 0.5
    cloud = o3d.t.geometry.PointCloud(points)

    def normals():
        cloud.estimate_normals(max_nn=options.k)
        return lambda: np.save(options.out, cloud.point.normals.numpy())

    return about, normals


def split(cloud, side, border, folder):
    """Square tiles with their borders, a file each; a block of rows in memory. Returns the files."""
    points = np.load(cloud, mmap_mode="r")
    block = 1_000_000
    corner = np.min([points[at : at + block, :2].min(axis=0) for at in range(0, len(points), block)], axis=0)
    files = set()
    for at in range(0, len(points), block):
        here = np.array(points[at : at + block])
        place = here[:, :2] - corner
        own = np.floor(place / side).astype(np.int64)
        for dx in (-1, 0, 1):
            for dy in (-1, 0, 1):
                tile = np.floor((place + [dx * border, dy * border]) / side).astype(np.int64)
                chosen = np.ones(len(here), bool)
                for axis, step in enumerate((dx, dy)):
                    if step != 0:
                        chosen &= tile[:, axis] != own[:, axis]
                rows = np.flatnonzero(chosen)
                rows = rows[np.lexsort(tile[rows].T)]
                cuts = np.flatnonzero((np.diff(tile[rows], axis=0) != 0).any(axis=1)) + 1
                for some in np.split(rows, cuts):
                    if len(some) == 0:
                        continue
                    record = np.empty(len(some), ROW)
                    record["point"] = here[some]
                    record["row"] = some + at if dx == dy == 0 else -1
                    path = Path(folder) / f"{tile[some[0], 0]}_{tile[some[0], 1]}"
                    with open(path, "ab") as file:
                        file.write(record.tobytes())
                    files.add(path)
    return sorted(files)


def scipy_tiles(options):
    """The usual script: tiles with a border on disk, `cKDTree` over each, a fit by NumPy; a tile a thread."""
    import scipy
    from scipy.spatial import cKDTree

    rows = len(np.load(options.cloud, mmap_mode="r"))
    about = {"version": scipy.__version__}
    about["note"] = f"cKDTree over tiles of {options.side:g} with a border of {options.border:g}, eigh of NumPy"

    def each(use):
        with (
            tempfile.TemporaryDirectory(dir=Path(options.out).parent) as folder,
            ThreadPoolExecutor(options.threads) as pool,
        ):

            def one(path):
                tile = np.fromfile(path, ROW)
                inner = tile["row"] >= 0
                if inner.any():
                    use(cKDTree(tile["point"]), tile["point"], tile[inner])

            list(pool.map(one, split(options.cloud, options.side, options.border, folder)))

    if options.sample is not None:

        def distances(asked):
            place = np.full(rows, -1, np.int64)
            place[asked] = np.arange(len(asked))
            found = np.full(len(asked), np.inf)

            def use(tree, points, inner):
                to = place[inner["row"]]
                kth, _ = tree.query(inner["point"][to >= 0], [options.k])
                found[to[to >= 0]] = kth[:, 0]

            each(use)
            return found

        return about, distances

    def normals():
        out = np.lib.format.open_memmap(options.out, "w+", np.float64, (rows, 3))

        def use(tree, points, inner):
            _, near = tree.query(inner["point"], min(options.k, len(points)))
            out[inner["row"]], _ = fit(points[near])

        each(use)
        return out.flush

    return about, normals


def reference(options):
    """SciPy's tree over all points: k-th distances of the sample, OUT.normals.npy and OUT.unique.npy."""
    import scipy
    from scipy.spatial import cKDTree

    points = np.load(options.cloud)
    tree = cKDTree(points, balanced_tree=False)

    def distances(rows):
        kth, normals, unique = [], [], []
        for at in range(0, len(rows), 1 << 16):
            found, near = tree.query(points[rows[at : at + (1 << 16)]], options.k, workers=options.threads)
            fitted, values = fit(points[near])
            kth.append(found[:, -1])
            normals.append(fitted)
            unique.append(values[:, 1] - values[:, 0] > 1e-3 * values[:, 2])  # else many planes fit as well
        np.save(f"{options.out}.normals.npy", np.concatenate(normals))
        np.save(f"{options.out}.unique.npy", np.concatenate(unique))
        return np.concatenate(kth)

    return {"version": scipy.__version__, "note": "cKDTree over the whole cloud"}, distances


PEERS = {"open3d": open3d, "open3d-tensor": open3d_tensor, "scipy-tiles": scipy_tiles}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*PEERS, "reference"])
    parser.add_argument("cloud")
    parser.add_argument("k", type=int)
    parser.add_argument("out")
    parser.add_argument("--sample", help="an npy of row numbers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--side", type=float, default=100)
    parser.add_argument("--border", type=float, default=2)
    options = parser.parse_args()
    about, work = {**PEERS, "reference": reference}[options.name](options)
    if options.sample is not None:
        np.save(options.out, np.asarray(work(np.load(options.sample)), dtype=np.float64))
        print(json.dumps(about))
        return
    start = time.perf_counter()
    write = work()
    about["work_seconds"] = round(time.perf_counter() - start, 3)
    write()
    print(json.dumps(about))


if __name__ == "__main__":
    main()
