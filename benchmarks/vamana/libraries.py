"""Kith's graph and those of others behind one small interface; each is imported only in the process that measures it.

A library is built from rows and options, or opened from the folder in which it was kept, says its `version` and
`parameters`, and searches with one number that trades time for recall, the `setting`: the length of its list where it
has one. `settings(k)` lists them, ascending in effort.
"""

import importlib
import importlib.metadata
import shutil
import tempfile
from pathlib import Path

import numpy as np

LISTS = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)


def remove(folder):
    """A folder of this process's own, if there is one."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


class Library:
    """What all share. `dtypes` are the element types it takes as they are; others it gets as float32.

    describe(options) gives the parameters, build(base, options) makes the index. Those whose builds take long have
    save(folder) and open(folder, base, options) as well.
    """

    name = ""
    package = ""  # of PyPI; its folder of the peers' virtual environments has the same name
    module = ""  # imported before the build, whose time and memory are measured
    dtypes = ("float32",)
    save = open = None

    def __init__(self, options):
        self.library = importlib.import_module(self.module)
        try:
            self.version = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:  # Kith, from the folder of a build
            self.version = self.library.__version__
        self.parameters = self.describe(options)

    def settings(self, k):
        return [k, *(size for size in LISTS if size > k)]

    def about(self):
        """Further facts for the result."""
        return {}

    def close(self):
        pass


class Kith(Library):
    name = "Kith"
    package = module = "kith"
    dtypes = ("float32", "uint8", "int8", "float16")

    def describe(self, options):
        return {name: getattr(options, name) for name in ("max_degree", "build_list_size", "code_bits", "code_dim")}

    def build(self, base, options):
        self.index = self.library.Vamana(base, **self.parameters, threads=options.threads)

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
    name = package = module = "hnswlib"

    def describe(self, options):
        return {"M": options.m, "ef_construction": options.ef_construction}

    def build(self, base, options):
        self.index = self.library.Index("l2", base.shape[1])
        self.index.init_index(len(base), M=options.m, ef_construction=options.ef_construction)
        self.index.add_items(base, num_threads=options.threads)

    def save(self, folder):
        self.index.save_index(str(folder / "index"))

    def open(self, folder, base, options):
        self.index = self.library.Index("l2", base.shape[1])
        self.index.load_index(str(folder / "index"))

    def search(self, queries, k, setting, threads):
        self.index.set_ef(setting)
        return self.index.knn_query(queries, k, num_threads=threads)[0]


class FaissHnsw(Library):
    name = "faiss HNSW"
    package = "faiss-cpu"
    module = "faiss"

    def describe(self, options):
        return {"M": options.m, "efConstruction": options.ef_construction}

    def build(self, base, options):
        self.library.omp_set_num_threads(options.threads)
        self.index = self.library.IndexHNSWFlat(base.shape[1], options.m)
        self.index.hnsw.efConstruction = options.ef_construction
        self.index.add(base)

    def save(self, folder):
        self.library.write_index(self.index, str(folder / "index"))

    def open(self, folder, base, options):
        self.index = self.library.read_index(str(folder / "index"))

    def search(self, queries, k, setting, threads):
        self.library.omp_set_num_threads(threads)
        self.index.hnsw.efSearch = setting
        return self.index.search(queries, k)[1]


class Usearch(Library):
    name = package = "usearch"
    module = "usearch.index"

    def describe(self, options):
        return {"connectivity": options.m, "expansion_add": options.ef_construction, "dtype": "f32"}

    def build(self, base, options):
        self.index = self.library.Index(ndim=base.shape[1], metric="l2sq", **self.parameters)
        self.index.add(np.arange(len(base)), base, threads=options.threads)

    def save(self, folder):
        self.index.save(str(folder / "index"))

    def open(self, folder, base, options):
        self.index = self.library.Index.restore(str(folder / "index"))

    def search(self, queries, k, setting, threads):
        self.index.expansion_search = setting
        return np.asarray(self.index.search(queries, k, threads=threads).keys).reshape(len(queries), -1)


class SymphonyQg(Library):
    """SymphonyQG (Gou et al., 2025) as its authors' RaBitQ library has it: raw rows beside the codes of neighbours."""

    name = "SymphonyQG (rabitqlib)"
    package = module = "rabitqlib"

    def describe(self, options):
        return {"max_degree": options.max_degree, "ef_construction": options.ef_construction}

    def build(self, base, options):
        self.index = self.library.SymqgIndex(base.shape[1], options.max_degree)
        self.index.build(base, options.ef_construction, num_threads=options.threads)

    def search(self, queries, k, setting, threads):
        return self.index.search(queries, k, setting, num_threads=threads)[0]


class Ngt(Library):
    """NGT's ONNG (Iwasaki and Miyazaki, 2018). What makes its quantized graph (QG) is a program that no wheel has."""

    name = "NGT ONNG"
    package = "ngt"
    module = "ngtpy"
    folder = None

    def describe(self, options):
        return {"edge_size_for_creation": 100, "outgoing": 10, "incoming": 120}

    def build(self, base, options):
        ngtpy = self.library
        self.folder = Path(tempfile.mkdtemp(prefix="kith-ngt-"))
        plain, refined = str(self.folder / "anng"), str(self.folder / "onng")
        ngtpy.create(plain, base.shape[1], edge_size_for_creation=100, edge_size_for_search=0, distance_type="L2")
        index = ngtpy.Index(plain, log_disabled=True)
        index.batch_insert(base, num_threads=options.threads)
        index.save()
        index.close()
        optimizer = ngtpy.Optimizer(log_disabled=True)
        optimizer.set(num_of_outgoings=10, num_of_incomings=120)
        # Without its search for parameters and table of accuracies, single-threaded and minutes even for 3,000 rows:
        # the sweep over epsilon stands in their place.
        optimizer.set_processing_modes(False, True, False)
        optimizer.execute(plain, refined)
        self.index = ngtpy.Index(refined, read_only=True, log_disabled=True)

    def save(self, folder):
        shutil.copytree(self.folder / "onng", folder / "onng")

    def open(self, folder, base, options):
        self.index = self.library.Index(str(folder / "onng"), read_only=True, log_disabled=True)

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
        remove(self.folder)


class Svs(Library):
    """ScalableVectorSearch's Vamana over the rows as they are."""

    name = "SVS Vamana"
    package = "scalable-vs"
    module = "svs"
    dtypes = ("float32", "uint8")

    def describe(self, options):
        return {"graph_max_degree": options.max_degree, "window_size": options.ef_construction, "alpha": 1.2}

    def build(self, base, options):
        svs = self.library
        how = svs.VamanaBuildParameters(
            graph_max_degree=options.max_degree, window_size=options.ef_construction, alpha=1.2
        )
        self.index = svs.Vamana.build(how, self.data(base), svs.DistanceType.L2, num_threads=options.threads)

    def save(self, folder):
        self.index.save(*(str(folder / part) for part in ("config", "graph", "data")))

    def open(self, folder, base, options):
        svs = self.library
        graph = svs.GraphLoader(str(folder / "graph"))
        rows = self.saved(str(folder / "data"), base)
        self.index = svs.Vamana(str(folder / "config"), graph, rows, svs.DistanceType.L2, num_threads=options.threads)

    def data(self, base):
        return base

    def saved(self, folder, base):
        return self.library.VectorDataLoader(folder, getattr(self.library.DataType, base.dtype.name))

    def search(self, queries, k, setting, threads):
        if self.index.num_threads != threads:
            self.index.num_threads = threads
        self.index.search_window_size = setting
        return self.index.search(queries, k)[0]


class SvsLvq(Svs):
    """The same over LVQ codes of 8 bits (Aguerrebere et al., 2023)."""

    name = "SVS Vamana, LVQ8"
    dtypes = ("float32",)
    folder = None

    def describe(self, options):
        return {**super().describe(options), "bits": 8}

    def data(self, base):
        svs = self.library
        self.folder = tempfile.mkdtemp(prefix="kith-svs-")  # read when the graph is built
        path = str(Path(self.folder) / "rows.fvecs")
        svs.write_vecs(base, path)
        return svs.LVQLoader(svs.VectorDataLoader(path, svs.DataType.float32, dims=base.shape[1]), primary=8)

    def saved(self, folder, base):
        return self.library.LVQLoader(folder)

    def close(self):
        remove(self.folder)


class DiskAnn(Library):
    """DiskANN's in-memory index (Subramanya et al., 2019)."""

    name = "DiskANN"
    package = module = "diskannpy"
    dtypes = ("float32", "uint8", "int8")
    folder = None

    def describe(self, options):
        return {"graph_degree": options.max_degree, "complexity": options.ef_construction, "alpha": 1.2}

    def build(self, base, options):
        self.folder = tempfile.mkdtemp(prefix="kith-diskann-")
        self.library.build_memory_index(
            data=base, distance_metric="l2", index_directory=self.folder, num_threads=options.threads, **self.parameters
        )
        self.open(self.folder, base, options)

    def save(self, folder):
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)

    def open(self, folder, base, options):
        self.index = self.library.StaticMemoryIndex(str(folder), options.threads, LISTS[-1])

    def search(self, queries, k, setting, threads):
        return self.index.batch_search(queries, k, setting, threads).identifiers.astype(np.int64)

    def close(self):
        remove(self.folder)


LIBRARIES = {
    "kith": Kith, "hnswlib": Hnswlib, "faiss": FaissHnsw, "usearch": Usearch, "rabitqlib": SymphonyQg, "ngt": Ngt,
    "svs": Svs, "svs-lvq": SvsLvq, "diskannpy": DiskAnn,
}  # fmt: skip
