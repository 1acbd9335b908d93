"""Kith's graph and those of others behind one small interface; each is imported only in the process that measures it.

A library is built from rows and options, says its `version` and `parameters`, and searches with one number that trades
time for recall, the `setting`: the length of its list where it has one. `settings(k)` lists them, ascending in effort.
"""

import importlib.metadata
import shutil
import tempfile
from pathlib import Path

import numpy as np

LISTS = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)


def version_of(package):
    return importlib.metadata.version(package)


class Library:
    """What all share. `dtypes` are the element types it takes as they are; others it gets as float32."""

    name = ""
    package = ""  # of PyPI; its folder of the peers' virtual environments has the same name
    dtypes = ("float32",)

    def settings(self, k):
        return [k, *(size for size in LISTS if size > k)]

    def about(self):
        """Further facts for the result."""
        return {}

    def close(self):
        pass


class Kith(Library):
    name = "Kith"
    package = "kith"
    dtypes = ("float32", "uint8", "int8", "float16")

    def __init__(self, base, options):
        import kith

        self.version = kith.__version__
        names = ("max_degree", "build_list_size", "code_bits", "code_dim")
        self.parameters = {name: getattr(options, name) for name in names}
        self.index = kith.Vamana(base, **self.parameters, threads=options.threads)

    def search(self, queries, k, setting, threads):
        return self.index.search(queries, k, list_size=setting, threads=threads).indices

    def about(self):
        # As the build chose, where they were 0.
        chosen = ("build_list_size", "code_bits", "code_dim")
        self.parameters |= {name: getattr(self.index, name) for name in chosen}
        return {"graph_hash": f"{self.index.graph_hash:016x}", "index_bytes": self.index.memory_bytes}

    def stated(self, queries, k, recall, threads):
        """(indices, list size, stated recall) of a search that asks for a recall; None where the exact engine answers."""
        answer = self.index.search(queries, k, recall=recall, threads=threads)
        said = answer.statistics
        return None if said.certified else (answer.indices, said.list_size, said.recall)


class Hnswlib(Library):
    name = package = "hnswlib"

    def __init__(self, base, options):
        import hnswlib

        self.version = version_of("hnswlib")
        self.parameters = {"M": options.m, "ef_construction": options.ef_construction}
        self.index = hnswlib.Index("l2", base.shape[1])
        self.index.init_index(len(base), M=options.m, ef_construction=options.ef_construction)
        self.index.add_items(base, num_threads=options.threads)

    def search(self, queries, k, setting, threads):
        self.index.set_ef(setting)
        return self.index.knn_query(queries, k, num_threads=threads)[0]


class FaissHnsw(Library):
    name = "faiss HNSW"
    package = "faiss-cpu"

    def __init__(self, base, options):
        import faiss

        self.faiss = faiss
        self.version = faiss.__version__
        self.parameters = {"M": options.m, "efConstruction": options.ef_construction}
        faiss.omp_set_num_threads(options.threads)
        self.index = faiss.IndexHNSWFlat(base.shape[1], options.m)
        self.index.hnsw.efConstruction = options.ef_construction
        self.index.add(base)

    def search(self, queries, k, setting, threads):
        self.faiss.omp_set_num_threads(threads)
        self.index.hnsw.efSearch = setting
        return self.index.search(queries, k)[1]


class Usearch(Library):
    name = package = "usearch"

    def __init__(self, base, options):
        from usearch.index import Index

        self.version = version_of("usearch")
        self.parameters = {"connectivity": options.m, "expansion_add": options.ef_construction, "dtype": "f32"}
        self.index = Index(
            ndim=base.shape[1], metric="l2sq", dtype="f32", connectivity=options.m,
            expansion_add=options.ef_construction,
        )  # fmt: skip
        self.index.add(np.arange(len(base)), base, threads=options.threads)

    def search(self, queries, k, setting, threads):
        self.index.expansion_search = setting
        return np.asarray(self.index.search(queries, k, threads=threads).keys).reshape(len(queries), -1)


class SymphonyQg(Library):
    """SymphonyQG (Gou et al., 2025) as its authors' RaBitQ library has it: raw rows beside the codes of neighbours."""

    name = "SymphonyQG (rabitqlib)"
    package = "rabitqlib"

    def __init__(self, base, options):
        import rabitqlib

        self.version = version_of("rabitqlib")
        self.parameters = {"max_degree": options.max_degree, "ef_construction": options.ef_construction}
        self.index = rabitqlib.SymqgIndex(base.shape[1], options.max_degree)
        self.index.build(base, options.ef_construction, num_threads=options.threads)

    def search(self, queries, k, setting, threads):
        return self.index.search(queries, k, setting, num_threads=threads)[0]


class Ngt(Library):
    """NGT's ONNG (Iwasaki and Miyazaki, 2018). What makes its quantized graph (QG) is a program that no wheel has."""

    name = "NGT ONNG"
    package = "ngt"

    def __init__(self, base, options):
        import ngtpy

        self.ngtpy = ngtpy
        self.version = version_of("ngt")
        self.parameters = {"edge_size_for_creation": 100, "outgoing": 10, "incoming": 120}
        self.folder = Path(tempfile.mkdtemp(prefix="kith-ngt-"))
        plain, refined = str(self.folder / "anng"), str(self.folder / "onng")
        ngtpy.create(plain, base.shape[1], edge_size_for_creation=100, edge_size_for_search=0, distance_type="L2")
        index = ngtpy.Index(plain, log_disabled=True)
        index.batch_insert(base, num_threads=options.threads)
        index.save()
        index.close()
        optimizer = ngtpy.Optimizer(log_disabled=True)
        optimizer.set(num_of_outgoings=10, num_of_incomings=120)
        optimizer.execute(plain, refined)
        self.index = ngtpy.Index(refined, read_only=True, log_disabled=True)

    def settings(self, k):
        """Hundredths of NGT's epsilon."""
        return [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 25, 30, 40]

    def search(self, queries, k, setting, threads):
        if threads != 1:
            raise ValueError("ngtpy searches one query at a time: one thread")
        found = np.full((len(queries), k), -1, np.int64)
        for row, query in enumerate(queries):
            near = self.index.search(query, k, setting / 100, with_distance=False)
            found[row, : len(near)] = near
        return found

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Svs(Library):
    """ScalableVectorSearch's Vamana over the rows as they are."""

    name = "SVS Vamana"
    package = "scalable-vs"
    dtypes = ("float32", "uint8")
    bits = None

    def __init__(self, base, options):
        import svs

        self.version = version_of("scalable-vs")
        self.parameters = {"graph_max_degree": options.max_degree, "window_size": options.ef_construction, "alpha": 1.2}
        how = svs.VamanaBuildParameters(
            graph_max_degree=options.max_degree, window_size=options.ef_construction, alpha=1.2
        )
        self.index = svs.Vamana.build(how, self.data(svs, base), svs.DistanceType.L2, num_threads=options.threads)

    def data(self, svs, base):
        return base

    def search(self, queries, k, setting, threads):
        if self.index.num_threads != threads:
            self.index.num_threads = threads
        self.index.search_window_size = setting
        return self.index.search(queries, k)[0]


class SvsLvq(Svs):
    """The same over LVQ codes of 8 bits (Aguerrebere et al., 2023)."""

    name = "SVS Vamana, LVQ8"
    dtypes = ("float32",)

    def data(self, svs, base):
        folder = tempfile.mkdtemp(prefix="kith-svs-")
        try:
            path = str(Path(folder) / "rows.fvecs")
            svs.write_vecs(base, path)
            self.parameters["bits"] = 8
            loader = svs.VectorDataLoader(path, svs.DataType.float32, dims=base.shape[1])
            return svs.LVQLoader(loader, primary=8)
        finally:
            self.folder = folder  # read when the graph is built

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class DiskAnn(Library):
    """DiskANN's in-memory index (Subramanya et al., 2019)."""

    name = "DiskANN"
    package = "diskannpy"
    dtypes = ("float32", "uint8", "int8")

    def __init__(self, base, options):
        import diskannpy

        self.version = version_of("diskannpy")
        self.parameters = {"graph_degree": options.max_degree, "complexity": options.ef_construction, "alpha": 1.2}
        self.folder = tempfile.mkdtemp(prefix="kith-diskann-")
        diskannpy.build_memory_index(
            data=base, distance_metric="l2", index_directory=self.folder, complexity=options.ef_construction,
            graph_degree=options.max_degree, num_threads=options.threads, alpha=1.2,
        )  # fmt: skip
        self.index = diskannpy.StaticMemoryIndex(self.folder, options.threads, LISTS[-1])

    def search(self, queries, k, setting, threads):
        return self.index.batch_search(queries, k, setting, threads).identifiers.astype(np.int64)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


LIBRARIES = {
    "kith": Kith, "hnswlib": Hnswlib, "faiss": FaissHnsw, "usearch": Usearch, "rabitqlib": SymphonyQg, "ngt": Ngt,
    "svs": Svs, "svs-lvq": SvsLvq, "diskannpy": DiskAnn,
}  # fmt: skip
