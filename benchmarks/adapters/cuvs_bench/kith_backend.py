"""The backend "kith" of cuvs-bench: algorithms kith_vamana and kith_brute_force, on the CPU or on GPUs.

    import benchmarks.adapters.cuvs_bench.kith_backend
    BenchmarkOrchestrator("kith").run_benchmark(dataset=..., dataset_path=..., algorithms="kith_vamana", device="cuda")

Build parameters are the arguments of kith.Vamana and kith.BruteForce, search parameters those of their search(); algorithms.yaml,
beside this file, has groups of them. Recall is computed by cuvs-bench.
"""

import itertools
import os
import time

import kith
import numpy as np
from cuvs_bench.backends import BenchmarkBackend, BuildResult, SearchResult, register_backend
from cuvs_bench.orchestrator import BenchmarkConfig, ConfigLoader, register_config_loader
from cuvs_bench.orchestrator.config_loaders import IndexConfig

HERE = os.path.dirname(os.path.realpath(__file__))
CLASSES = {"kith_vamana": kith.Vamana, "kith_brute_force": kith.BruteForce}
METRICS = {"euclidean": "sqeuclidean", "inner_product": "inner_product", "cosine": "cosine", "angular": "cosine"}


class KithConfigLoader(ConfigLoader):
    """Groups of algorithms.yaml, or of the file ``algorithm_configuration``; ``device`` and ``threads`` are passed on."""

    config_path = HERE

    @property
    def backend_type(self):
        return "kith"

    def _discover_algo_groups(self, dataset_conf, dataset, dataset_path, **kwargs):
        told = self.load_yaml_file(kwargs.get("algorithm_configuration") or os.path.join(HERE, "algorithms.yaml"))
        chosen = [name.strip() for name in (kwargs.get("algorithms") or ",".join(told)).split(",")]
        groups = [name.strip() for name in (kwargs.get("groups") or "base").split(",")]
        unknown = [name for name in chosen if name not in told]
        if unknown:
            raise ValueError(f"no algorithm {', '.join(unknown)}; there are {', '.join(told)}")
        pairs = itertools.product(chosen, groups)
        return [(algo, group, told[algo][group], {}) for algo, group in pairs if group in told[algo]]

    def _build_benchmark_configs(self, dataset_config, dataset_conf, dataset, dataset_path, expanded_groups, **kwargs):
        made = []
        for algo, group, _, builds, searches, _ in expanded_groups:
            for build in builds:
                label = ".".join(
                    [algo if group == "base" else f"{algo}_{group}", *(f"{k}{v}" for k, v in build.items())]
                )
                file = os.path.join(dataset_path, dataset, "index", f"{label}.kith")
                index = IndexConfig(name=label, algo=algo, build_param=build, search_params=searches, file=file)
                backend = {
                    "name": label,
                    "algo": algo,
                    "device": kwargs.get("device", "cpu"),
                    "threads": kwargs.get("threads", 0),
                }
                made.append(BenchmarkConfig(indexes=[index], backend_config=backend))
        return made


class KithBackend(BenchmarkBackend):
    """Builds once and keeps the index file; a search loads it, warms up and is timed batch by batch."""

    @property
    def algo(self):
        return self.config["algo"]

    def _how(self, threads=None):
        return {"device": self.config["device"], "threads": threads or self.config["threads"]}

    def build(self, dataset, indexes, force=False, dry_run=False):
        index = indexes[0]
        told = {"algorithm": self.algo, "build_params": index.build_param, "index_path": index.file}
        if dry_run or (os.path.exists(index.file) and not force):
            size = os.path.getsize(index.file) if os.path.exists(index.file) else 0
            return BuildResult(build_time_seconds=0.0, index_size_bytes=size, **told)
        try:
            rows, metric = np.ascontiguousarray(dataset.training_vectors), METRICS[dataset.distance_metric]
            start = time.perf_counter()
            made = CLASSES[index.algo](rows, metric=metric, **index.build_param, **self._how())
            seconds = time.perf_counter() - start
            os.makedirs(os.path.dirname(index.file), exist_ok=True)
            made.save(index.file)
        except (kith.Error, TypeError, KeyError) as error:
            return BuildResult(
                build_time_seconds=0.0, index_size_bytes=0, success=False, error_message=str(error), **told
            )
        return BuildResult(build_time_seconds=seconds, index_size_bytes=os.path.getsize(index.file), **told)

    def search(
        self, dataset, indexes, k, batch_size=10000, mode="latency", force=False, search_threads=None, dry_run=False
    ):
        index = indexes[0]
        found = np.full((0, k), -1, np.int64), np.empty((0, k), np.float32)
        each = []
        try:
            if not dry_run:
                queries = np.ascontiguousarray(dataset.query_vectors)
                opened = CLASSES[index.algo].load(index.file, device=self.config["device"])
                for options in index.search_params or [{}]:
                    found, told = self._timed(opened, queries, k, batch_size, options, self._how(search_threads))
                    each.append(told)
        except (kith.Error, TypeError) as error:
            return self._result(k, index, found, each, success=False, error_message=str(error))
        return self._result(k, index, found, each)

    def _timed(self, index, queries, k, batch_size, options, how):
        batches = [queries[at : at + batch_size] for at in range(0, len(queries), batch_size)]
        index.search(batches[0], k, **options, **how)
        answers, seconds = [], []
        for batch in batches:
            start = time.perf_counter()
            answers.append(index.search(batch, k, **options, **how))
            seconds.append(time.perf_counter() - start)
        found = tuple(np.concatenate([getattr(a, part) for a in answers]) for part in ("indices", "distances"))
        total = sum(seconds)
        told = {"search_params": options, "search_time_ms": 1000 * total, "queries_per_second": len(queries) / total}
        return found, {**told, "latency_ms": [1000 * s for s in seconds]}

    def _result(self, k, index, found, each, **more):
        """Answers are those of the last search parameters, as cuvs-bench's own Python backend has it."""
        milliseconds = [m for told in each for m in told["latency_ms"]]
        return SearchResult(
            neighbors=found[0],
            distances=found[1],
            search_time_ms=sum(told["search_time_ms"] for told in each),
            queries_per_second=float(np.mean([told["queries_per_second"] for told in each])) if each else 0.0,
            recall=0.0,
            algorithm=self.algo,
            search_params=index.search_params,
            latency_percentiles={f"p{p}": float(np.percentile(milliseconds, p)) for p in (50, 95, 99)}
            if each
            else None,
            metadata={"per_search_param_results": each},
            **more,
        )


register_backend("kith", KithBackend)
register_config_loader("kith", KithConfigLoader)
