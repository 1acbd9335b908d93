"""The adapters of benchmarks/adapters, each run by its benchmark's own runner in a checkout of it.

KITH_BENCHMARKS names a folder with checkouts ann-benchmarks, vibe, big-ann-benchmarks, VectorDBBench, cuvs; what is not there is
skipped, and so is a benchmark whose packages are missing. A checkout is copied, never changed.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKOUTS = pathlib.Path(os.environ.get("KITH_BENCHMARKS", "/nowhere"))
RANDOM = np.random.default_rng(4)
X, Q = RANDOM.standard_normal((2000, 24)).astype(np.float32), RANDOM.standard_normal((40, 24)).astype(np.float32)

kith = pytest.importorskip("kith")


def checkout(name, tmp_path, *needs):
    if not (CHECKOUTS / name).is_dir():
        pytest.skip(f"no checkout of {name} (KITH_BENCHMARKS)")
    for package in needs:
        pytest.importorskip(package)
    target = tmp_path / name
    shutil.copytree(
        CHECKOUTS / name, target, symlinks=True, ignore=shutil.ignore_patterns(".git", "results", "data", "indices")
    )
    return target


def run(folder, *command):
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def run_until(made, folder, *command):
    """The runners' workers now and then find their queue empty before it has been filled, and end: then once more."""
    for _ in range(10):
        told = run(folder, *command)
        if made():
            return
    raise AssertionError(told[-2000:])


def test_a_checkout_of_something_else_is_refused(tmp_path):
    from benchmarks.adapters import install

    for name in install.PLACES:
        with pytest.raises(SystemExit, match="is no checkout of " + name):
            install.install(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_what_was_measured():
    from benchmarks.adapters import curve

    runs = [{"recall": r, "queries_per_second": q} for r, q in [(0.5, 9), (0.7, 5), (0.6, 4), (0.9, 5), (0.95, 1)]]
    assert [(run["recall"], run["queries_per_second"]) for run in curve.pareto(runs)] == [(0.5, 9), (0.9, 5), (0.95, 1)]
    assert curve.table(json.loads(curve.RESULT.read_text())) in curve.PAGE.read_text()


def share(found, truth):
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth, strict=True)]))


def truth(metric, k=10, allowed=None):
    return kith.knn(X, Q, k, metric, allowed=allowed).indices


@pytest.mark.parametrize(("name", "where"), [("ann-benchmarks", "ann_benchmarks"), ("vibe", "vibe")])
@pytest.mark.parametrize(("metric", "ours"), [("euclidean", "euclidean"), ("angular", "cosine")])
def test_ann_benchmarks_and_vibe(tmp_path, name, where, metric, ours):
    import h5py

    from benchmarks.adapters import hdf5, install

    if name == "vibe":
        metric = ours
    folder = checkout(
        name, tmp_path, "h5py", "psutil", *(["docker", "yaml"] if name == "ann-benchmarks" else ["numba"])
    )
    install.install(name, folder)
    (folder / "data").mkdir()
    dataset = "random-xs-20-euclidean" if name == "ann-benchmarks" else "toy"
    hdf5.write(X, Q, folder / f"data/{dataset}.hdf5", metric, 10)
    if name == "ann-benchmarks":
        for algorithm, count in (("kith", 22), ("kith-exact", 1)):
            made = folder / f"results/{dataset}/10/{algorithm}"
            run_until(
                lambda made=made, count=count: len(list(made.glob("*.hdf5"))) == count,
                folder, "run.py", "--local", "--runs", "1", "-k", "10", "--dataset", dataset, "--algorithm", algorithm,
            )  # fmt: skip
    else:  # run.py starts containers; in them it runs this
        for constructor, built, asked in [("KithExact", [], [[1]]), ("KithVamana", [32, 128], [[20], [800]])]:
            algorithm = "kith-exact" if not built else "kith"
            run(folder, "run_algorithm.py", "--dataset", dataset, "--algorithm", algorithm, "--module", "vibe.algorithms.kith",
                "--constructor", constructor, "--runs", "1", "--count", "10", json.dumps([metric, *built]), *map(json.dumps, asked))  # fmt: skip
    recalls = {}
    for path in folder.glob("results/**/*.hdf5"):
        with h5py.File(path) as file:
            for found in file.values() if name == "vibe" else [file]:  # VIBE has a group for each of its settings
                recalls[str(found.attrs["name"])] = share(found["neighbors"][:], truth(ours))
                assert found.attrs["distance"] == metric
    exact = [recall for name, recall in recalls.items() if "xact" in name]
    assert exact == [1.0] and len(recalls) > 2
    wide = [recall for name, recall in recalls.items() if "800" in name]
    narrow = [recall for name, recall in recalls.items() if "list_size: 10)" in name or "list_size=20)" in name]
    assert min(wide) > 0.99 and narrow and min(narrow) < min(wide)


@pytest.mark.parametrize("track", ["ood", "filter"])
def test_big_ann_benchmarks(tmp_path, track):
    import h5py

    from benchmarks.adapters import install

    folder = checkout("big-ann-benchmarks", tmp_path, "docker", "yaml", "colors", "pandas", "sklearn")
    install.install("big-ann-benchmarks", folder)
    (folder / "data").mkdir()
    # The tracks' random sets, smaller; the filter's has two sets of words.
    source = folder / "benchmark/datasets.py"
    source.write_text(source.read_text().replace("RandomFilterDS(100000, 1000, 50)", "RandomFilterDS(4000, 100, 20)"))
    dataset = {"ood": "random-xs", "filter": "random-filter-s"}[track]
    made = folder / f"results/neurips23/{track}/{dataset}/10/kith"
    count = {"ood": 2, "filter": 3}[track]
    run_until(
        lambda: len(list(made.glob("*.hdf5"))) == count,
        folder, "run.py", "--neurips23track", track, "--algorithm", "kith", "--dataset", dataset, "--nodocker", "--runs", "1",
        "--rebuild",
    )  # fmt: skip
    told = run(
        folder,
        "-c",
        f"from benchmark.datasets import DATASETS as d; print(d['{dataset}']().get_groundtruth(k=10)[0].tolist())",
    )
    right = np.array(json.loads(told[told.index("[[") : told.rindex("]]") + 2]))[:, :10]
    recalls = {}
    for path in made.glob("*.hdf5"):
        with h5py.File(path) as file:
            recalls[path.stem] = share(file["neighbors"][:], right)
    assert max(recalls.values()) > 0.995 and min(recalls.values()) > 0.9
    if track == "filter":
        assert [recall for name, recall in recalls.items() if "few" in name] == [1.0]


@pytest.mark.parametrize("runbook", ["simple_runbook", "simple_replace_runbook"])
def test_big_ann_benchmarks_streaming(tmp_path, runbook):
    from benchmarks.adapters import install

    folder = checkout("big-ann-benchmarks", tmp_path, "h5py", "docker", "yaml", "colors", "pandas", "sklearn")
    import h5py
    import yaml

    install.install("big-ann-benchmarks", folder)
    (folder / "data").mkdir()
    made = folder / f"results/neurips23/streaming/{runbook}.yaml/random-xs/10/kith"
    run_until(
        lambda: len(list(made.glob("*.hdf5"))) == 2,
        folder, "run.py", "--neurips23track", "streaming", "--algorithm", "kith", "--dataset", "random-xs", "--nodocker",
        "--runs", "1", "--runbook_path", f"neurips23/runbooks/{runbook}.yaml",
    )  # fmt: skip
    save = "ds = d['random-xs'](); np.savez('all.npz', x=ds.get_data_in_range(0, ds.nb), q=ds.get_queries())"
    run(folder, "-c", f"import numpy as np; from benchmark.datasets import DATASETS as d; {save}")
    rows, queries = (np.load(folder / "all.npz")[name] for name in "xq")
    steps = yaml.safe_load((folder / f"neurips23/runbooks/{runbook}.yaml").read_text())["random-xs"]
    rows_of, recalls = {}, {path.stem: [] for path in made.glob("*.hdf5")}  # which row each tag has
    for number in range(1, 1 + sum(isinstance(step, int) for step in steps)):
        step = steps[number]
        if step["operation"] == "insert":
            rows_of.update((tag, tag) for tag in range(step["start"], step["end"]))
        elif step["operation"] == "delete":
            for tag in range(step["start"], step["end"]):
                del rows_of[tag]
        elif step["operation"] == "replace":
            numbers = range(step["ids_start"], step["ids_end"])
            rows_of.update(zip(range(step["tags_start"], step["tags_end"]), numbers, strict=True))
        else:
            tags = np.fromiter(rows_of, np.int64)
            right = tags[kith.knn(rows[list(rows_of.values())], queries, 10).indices]
            for path in made.glob("*.hdf5"):
                with h5py.File(path) as file:
                    found = file[f"neighbors_step{number}"][:]
                assert set(found.ravel().tolist()) <= set(rows_of)
                recalls[path.stem].append(share(found, right))
    narrow, wide = sorted(recalls.values())
    assert len(wide) == sum(steps[i]["operation"] == "search" for i in steps if isinstance(i, int))
    assert min(narrow) > 0.8 and min(wide) > 0.99 and narrow < wide


@pytest.mark.parametrize("case", ["plain", "exact", "labels"])
def test_vectordb_bench(tmp_path, case):
    from benchmarks.adapters import install

    folder = checkout("VectorDBBench", tmp_path, "polars", "environs", "hdrh", "pydantic", "pyarrow", "ir_datasets")
    install.install("vectordb-bench", folder)
    install.install("vectordb-bench", folder)  # twice is once
    assert (folder / "vectordb_bench/backend/clients/__init__.py").read_text().count('Kith = "Kith"') == 1
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = folder / "data"
    data.mkdir()
    labels = np.where(np.arange(len(X)) % 5 == 0, "label_20p", "other")
    right = truth("cosine", allowed=labels == "label_20p" if case == "labels" else None)
    pq.write_table(pa.table({"id": range(len(X)), "emb": list(X)}), data / "train.parquet")
    pq.write_table(pa.table({"id": range(len(X)), "labels": labels}), data / "scalar_labels.parquet")
    pq.write_table(pa.table({"id": range(len(Q)), "emb": list(Q)}), data / "test.parquet")
    for name in ("neighbors", "neighbors_labels_label_20p"):
        pq.write_table(pa.table({"id": range(len(Q)), "neighbors_id": right.tolist()}), data / f"{name}.parquet")
    script = textwrap.dedent(f"""
        import json
        from vectordb_bench.backend.cases import PerformanceCustomDataset
        from vectordb_bench.backend.clients import DB
        from vectordb_bench.backend.data_source import DatasetSource
        from vectordb_bench.backend.task_runner import CaseRunner, RunningStatus
        from vectordb_bench.models import CaseConfig, CaseType, TaskConfig, TaskStage

        told = dict(name="toy", size={len(X)}, dim=24, metric_type="COSINE", file_count=1, use_shuffled=False, with_gt=True, dir={str(data)!r})
        case = PerformanceCustomDataset("toy", "", 600, 600, told, use_filter={case == "labels"}, label_percentage=0.2)
        config = DB.Kith.case_config_cls()(exact={case == "exact"}, recall=0.9, metric_type="COSINE")
        task = TaskConfig(
            db=DB.Kith, db_config=DB.Kith.config_cls(path={str(folder / "store")!r}), db_case_config=config,
            case_config=CaseConfig(case_id=CaseType.PerformanceCustomDataset, k=10),
            stages=[TaskStage.DROP_OLD, TaskStage.LOAD, TaskStage.SEARCH_SERIAL],
        )
        if __name__ == "__main__":
            runner = CaseRunner(run_id="0", config=task, ca=case, status=RunningStatus.PENDING, dataset_source=DatasetSource.S3)
            metric = runner.run()
            print("METRIC", metric.recall, metric.serial_latency_p99, metric.load_duration)
    """)
    (folder / "toy.py").write_text(script)
    told = run(folder, "toy.py")
    recall, latency, load = map(float, told.split("METRIC")[1].split()[:3])
    assert latency > 0 and load > 0
    assert recall == 1 if case == "exact" else recall > 0.85
    assert (folder / "store/vectors/index.kith").exists()


def test_cuvs_bench(tmp_path):
    folder = checkout("cuvs", tmp_path, "yaml") / "python/cuvs_bench"
    kith.write(tmp_path / "base.fbin", X)
    kith.write(tmp_path / "queries.fbin", Q)
    right = truth("euclidean").astype(np.int32)
    (tmp_path / "truth.ibin").write_bytes(np.array(right.shape, np.uint32).tobytes() + right.tobytes())
    (tmp_path / "datasets.yaml").write_text(
        "[{name: toy, base_file: base.fbin, query_file: queries.fbin, groundtruth_neighbors_file: truth.ibin, distance: euclidean}]"
    )
    script = textwrap.dedent(f"""
        import sys
        sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]
        import benchmarks.adapters.cuvs_bench.kith_backend
        from cuvs_bench.orchestrator import BenchmarkOrchestrator
        how = dict(dataset="toy", dataset_path=".", dataset_configuration="datasets.yaml", groups="test", batch_size=16)
        for force in (True, False):
            for found in BenchmarkOrchestrator("kith").run_benchmark(force=force, **how):
                print("FOUND", type(found).__name__, found.algorithm, found.success, found.to_json().get("Recall"))
    """)
    (tmp_path / "toy.py").write_text(script)
    told = [line.split() for line in run(tmp_path, "toy.py").splitlines() if line.startswith("FOUND")]
    assert [words[1:4] for words in told] == 2 * [
        ["BuildResult", "kith_vamana", "True"], ["SearchResult", "kith_vamana", "True"],
        ["BuildResult", "kith_brute_force", "True"], ["SearchResult", "kith_brute_force", "True"],
    ]  # fmt: skip
    assert [float(words[4]) for words in told if words[1] == "SearchResult"] == pytest.approx(2 * [1.0, 1.0], abs=0.01)
    assert sorted(path.name for path in tmp_path.glob("toy/index/*.kith")) == [
        "kith_brute_force_test.kith", "kith_vamana_test.max_degree16.build_list_size32.kith",
    ]  # fmt: skip
