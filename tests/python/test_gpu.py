"""Arrays that lie on a GPU. Those tests that need one skip where there is none; what refuses an array does not."""

from __future__ import annotations

import os
import threading

import kith
import numpy as np
import pytest

GPUS = [device.name for device in kith.devices() if device.name != "cpu" and device.usable]
needs_gpu = pytest.mark.skipif(not GPUS, reason="needs a GPU")
METRICS = ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"]


class Fake:
    """Something that says it lies on a GPU."""

    def __init__(self, **changes):
        self.__cuda_array_interface__ = {
            "shape": (4, 3), "typestr": "<f4", "data": (4096, False), "version": 3, "strides": None, **changes
        }  # fmt: skip


class FakeDlpack:
    """The same in DLPack's words; `raises` is what giving away the memory does."""

    def __init__(self, device=(2, 0), raises=None):
        self.device = device
        self.raises = raises

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        raise self.raises


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"typestr": "<i8"}, TypeError, "element type int64"),
        ({"typestr": "<c8"}, TypeError, "element type complex64"),
        ({"typestr": "|V2"}, TypeError, "element type"),
        ({"typestr": ">f4"}, TypeError, "big-endian float32"),
        ({"mask": object()}, TypeError, "a masked array"),
        ({"shape": (4, 3, 2)}, ValueError, "3 dimensions"),
        ({"shape": (4,)}, ValueError, "1 dimension"),
        ({"strides": (4, 16)}, ValueError, r"strides of \(4, 16\) bytes.*contiguous"),
        ({"strides": (8, 4)}, ValueError, "rows must follow each other"),
        ({"strides": (-12, 4)}, ValueError, "rows must follow each other"),
        ({"strides": (14, 4)}, ValueError, "strides"),
        ({"stream": 0}, ValueError, "stream 0"),
        ({"data": (4097, False)}, ValueError, "not aligned"),
    ],
)
def test_arrays_that_are_refused_wherever_they_lie(changes, error, words):
    with pytest.raises(error, match=f"dataset: .*{words}"):
        kith.BruteForce(Fake(**changes))


def test_one_query_may_be_one_dimensional_but_a_dataset_not():
    with pytest.raises(ValueError, match=r"queries: .*or \[dim\] for one query"):
        kith.knn(np.eye(3, dtype=np.float32), Fake(shape=(1, 1, 3)))


@pytest.mark.skipif(bool(GPUS), reason="there is a GPU")
@pytest.mark.parametrize("array", [Fake(), Fake(typestr="|u1"), FakeDlpack(), FakeDlpack((13, 0))])
def test_without_a_gpu_the_message_says_so(array):
    with pytest.raises(TypeError, match=r"dataset: the array lies on a device \(cuda:0\).*\.cpu\(\)"):
        kith.BruteForce(array)
    with pytest.raises(TypeError, match="queries: the array lies on a device"):
        kith.BruteForce(np.eye(3, dtype=np.float32)).search(array)


def test_other_devices_are_refused():
    class Rocm(FakeDlpack):
        pass

    with pytest.raises(TypeError, match="dataset"):
        kith.BruteForce(Rocm((10, 0), raises=BufferError("no")))


@needs_gpu
def test_a_gpu_that_is_not_there():
    with pytest.raises(TypeError, match=r"cuda:63"):
        kith.BruteForce(FakeDlpack((2, 63)))


@needs_gpu
def test_a_producer_that_refuses_is_named():
    with pytest.raises(TypeError, match="queries: FakeDlpack does not give its memory away: requires grad"):
        kith.knn(np.eye(3), FakeDlpack(raises=BufferError("requires grad")))


@needs_gpu
def test_an_address_of_the_host_is_refused():
    values = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match="dataset: the address is not in the memory of a GPU"):
        kith.BruteForce(Fake(shape=(3, 3), data=(values.ctypes.data, False)))


def test_the_device_of_an_index_is_the_default_of_its_searches():
    index = kith.BruteForce(np.eye(3))
    assert index.search(np.eye(3), 1).indices.tolist() == [[0], [1], [2]]
    if GPUS:
        with pytest.raises(kith.InvalidArgument, match="was built for cpu, the search is to run on cuda:0"):
            index.search(np.eye(3), 1, device="cuda:0")


def test_a_result_of_numpy_arrays_is_its_own_copy():
    answer = kith.knn(np.eye(3), np.eye(3), 1)
    assert answer.numpy() is answer


def torch_on_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return torch


def cupy_on_gpu():
    cupy = pytest.importorskip("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except Exception:
        pytest.skip("cupy sees no GPU")
    return cupy


class Torch:
    def __init__(self):
        self.torch = torch_on_gpu()
        self.type = self.torch.Tensor

    def put(self, array):
        return self.torch.from_numpy(np.ascontiguousarray(array)).to("cuda:0")

    def get(self, array):
        return array.cpu().numpy()


class Cupy:
    def __init__(self):
        self.cupy = cupy_on_gpu()
        self.type = self.cupy.ndarray

    def put(self, array):
        return self.cupy.asarray(array)

    def get(self, array):
        return array.get()


class Interface:
    """Through __cuda_array_interface__ alone, on memory that Kith itself allocated."""

    type = kith.GpuArray

    def __init__(self):
        if not GPUS:
            pytest.skip("needs a GPU")

    def put(self, array):
        return OnGpu(array)

    def get(self, array):
        return array.numpy()


class OnGpu:
    """NumPy's values in GPU memory, without another library: the driver's own calls."""

    def __init__(self, array):
        import ctypes

        self.driver = ctypes.CDLL("libcuda.so.1")
        array = np.ascontiguousarray(array)
        self.pointer = ctypes.c_uint64()
        # A search has made the device's primary context; it becomes this thread's.
        kith.knn(np.eye(2), np.eye(2), 1, device=GPUS[0])
        context = ctypes.c_void_p()
        device = ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(max(1, array.nbytes)))
        self.call("cuMemcpyHtoD_v2", self.pointer, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (self.pointer.value, True), "version": 3,
            "stream": 1,
        }  # fmt: skip

    def call(self, name, *arguments):
        assert getattr(self.driver, name)(*arguments) == 0, name

    def __del__(self):
        if self.pointer.value:
            self.driver.cuMemFree_v2(self.pointer)


@pytest.fixture(params=[Torch, Cupy, Interface])
def library(request):
    return request.param()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return rng.standard_normal((5000, 24)).astype(np.float32), rng.standard_normal((70, 24)).astype(np.float32)


def same(answer, expected, library):
    assert isinstance(answer.indices, library.type)
    assert isinstance(answer.distances, library.type)
    np.testing.assert_array_equal(library.get(answer.indices), expected.indices)
    np.testing.assert_array_equal(library.get(answer.distances), expected.distances)


@needs_gpu
@pytest.mark.parametrize("metric", METRICS)
def test_everything_on_the_gpu(library, data, metric):
    X, Q = data
    expected = kith.knn(X, Q, 7, metric=metric)
    same(kith.knn(library.put(X), library.put(Q), 7, metric=metric), expected, library)
    index = kith.BruteForce(library.put(X), metric=metric)
    same(index.search(library.put(Q), 7), expected, library)
    assert index.search(library.put(Q), 7).statistics.instruction_set == "cuda"


@needs_gpu
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8"])
def test_element_types(library, dtype):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 100, (3000, 17)).astype(dtype)
    Q = rng.integers(0, 100, (9, 17)).astype(dtype)
    same(kith.knn(library.put(X), library.put(Q), 4), kith.knn(X, Q, 4), library)


@needs_gpu
def test_mixed_places(library, data):
    X, Q = data
    expected = kith.knn(X, Q, 3)
    on_host = kith.BruteForce(library.put(X)).search(Q, 3)
    assert isinstance(on_host.indices, np.ndarray)
    np.testing.assert_array_equal(on_host.indices, expected.indices)
    assert isinstance(kith.knn(library.put(X), Q, 3).indices, np.ndarray)
    # Rows on the host, queries on the GPU: the search runs there.
    same(kith.knn(X, library.put(Q), 3), expected, library)
    same(kith.BruteForce(X, device="cuda:0").search(library.put(Q), 3), expected, library)
    with pytest.raises(kith.InvalidArgument, match="cuda:0 but the search is to run on the CPU"):
        kith.BruteForce(X).search(library.put(Q), 3)
    with pytest.raises(kith.InvalidArgument, match="cuda:0 but the search is to run on the CPU"):
        kith.BruteForce(library.put(X), device="cpu")


@needs_gpu
def test_element_types_that_differ(library, data):
    X, Q = data
    with pytest.raises(TypeError, match="float32 on cuda:0 meets one of float64; convert"):
        kith.knn(library.put(X), Q.astype(np.float64))
    # Queries on the host are widened as ever.
    index = kith.BruteForce(library.put(X))
    np.testing.assert_array_equal(
        index.search(Q.astype(np.float16), 2).indices, kith.knn(X, Q.astype(np.float16), 2).indices
    )


@needs_gpu
def test_an_answer_of_kith(data):
    X, Q = data
    answer = kith.BruteForce(X, device="cuda").search(OnGpu(Q), 3)
    assert isinstance(answer.indices, kith.GpuArray)
    assert answer.indices.shape == (70, 3)
    assert (answer.indices.ndim, len(answer.indices), answer.indices.device) == (2, 70, "cuda:0")
    assert (answer.indices.dtype, answer.distances.dtype) == ("int64", "float32")
    assert answer.indices.__dlpack_device__() == (2, 0)
    interface = answer.distances.__cuda_array_interface__
    assert (interface["shape"], interface["typestr"], interface["version"]) == ((70, 3), "<f4", 3)
    assert repr(answer).endswith("on cuda:0")
    expected = kith.knn(X, Q, 3)
    host = answer.numpy()
    np.testing.assert_array_equal(host.indices, expected.indices)
    np.testing.assert_array_equal(host.distances, expected.distances)
    assert kith.evaluate(answer, expected).recall == 1
    with pytest.raises(TypeError, match=r"use \.numpy\(\)"):
        np.asarray(answer.indices)


@needs_gpu
def test_an_answer_is_a_dataset_again(data):
    X, Q = data
    distances = kith.BruteForce(X, device="cuda").search(OnGpu(Q), 6).distances
    again = kith.knn(distances, distances, 1)
    assert (again.numpy().indices[:, 0] >= 0).all()
    assert isinstance(again.indices, kith.GpuArray)


@needs_gpu
def test_edges(library, data):
    X, Q = data
    same(kith.knn(library.put(X[:5]), library.put(Q), 9), kith.knn(X[:5], Q, 9), library)
    assert tuple(kith.knn(library.put(X), library.put(Q[:0]), 9).indices.shape) == (0, 9)
    one = kith.BruteForce(library.put(X)).search(library.put(Q[3]), 2)
    np.testing.assert_array_equal(library.get(one.indices), kith.knn(X, Q[3], 2).indices)
    with pytest.raises(kith.InvalidArgument, match="k is 0"):
        kith.knn(library.put(X), library.put(Q), 0)
    with pytest.raises(kith.InvalidArgument, match="dimension"):
        kith.knn(library.put(X), library.put(Q[:, :5]), 1)


@needs_gpu
def test_an_index_keeps_its_array(library, data):
    X, Q = data
    index = kith.BruteForce(library.put(X))  # nobody else holds the array
    for _ in range(3):
        library.put(np.full_like(X, 7.0))  # would take its place
    same(index.search(library.put(Q), 3), kith.knn(X, Q, 3), library)
    with pytest.raises(kith.InvalidArgument, match="lie in GPU memory"):
        index.save("nowhere.kith")


@needs_gpu
def test_progress_and_threads(library, data):
    X, Q = data
    X = np.tile(X, (200, 1))
    seen = []
    index = kith.BruteForce(library.put(X))
    answer = index.search(library.put(Q), 3, progress=lambda done, total: seen.append((done, total)))
    assert seen
    expected = library.get(answer.indices)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.search(library.put(Q), 3, progress=stop)

    wrong = []

    def search():
        for _ in range(5):
            if not (library.get(index.search(library.put(Q), 3).indices) == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_gpu
def test_the_work_of_another_stream_comes_first_torch(data):
    torch = torch_on_gpu()
    X, Q = data
    expected = kith.knn(X, Q, 3)
    index = kith.BruteForce(torch.from_numpy(X).cuda())
    late = torch.from_numpy(Q).cuda()
    stream = torch.cuda.Stream()
    big = torch.ones(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(stream):
            queries = torch.zeros_like(late)
            for _ in range(20):  # some milliseconds before the values are there
                big = (big @ big).clamp(0, 1)
            queries.copy_(late)
            answer = index.search(queries, 3)
        np.testing.assert_array_equal(answer.indices.cpu().numpy(), expected.indices)


@needs_gpu
def test_the_work_of_another_stream_comes_first_cupy(data):
    cupy = cupy_on_gpu()
    X, Q = data
    expected = kith.knn(X, Q, 3)
    late = cupy.asarray(X)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        rows = cupy.zeros_like(late)
        big = cupy.ones((4096, 4096), dtype=cupy.float32)
        for _ in range(20):
            big = cupy.clip(big @ big, 0, 1)
        rows[...] = late
        answer = kith.knn(rows, Q, 3)
    np.testing.assert_array_equal(answer.indices, expected.indices)


@needs_gpu
def test_torch_details(data):
    torch = torch_on_gpu()
    X, Q = (torch.from_numpy(values).cuda() for values in data)
    expected = kith.knn(*data, 3)
    # Rows that lie apart are used where they lie; other layouts are refused.
    wide = torch.zeros(len(X), 40, device="cuda")
    wide[:, :24] = X
    assert (kith.knn(wide[:, :24], Q, 3).indices.cpu().numpy() == expected.indices).all()
    with pytest.raises(ValueError, match=r"dataset: strides.*contiguous\(\)"):
        kith.BruteForce(torch.zeros(24, 50, device="cuda").T)
    with pytest.raises(TypeError, match="queries: .*gradient"):
        kith.knn(X, Q.clone().requires_grad_(True))
    with pytest.raises(TypeError, match="element type int64"):
        kith.knn(X.long(), Q)
    half = kith.knn(X.bfloat16(), Q.bfloat16(), 3)
    bits = [values.bfloat16().cpu() for values in (X, Q)]
    assert torch.equal(half.indices.cpu(), torch.from_numpy(kith.knn(*bits, 3).indices))


@needs_gpu
def test_jax(data):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the other tests
    jax = pytest.importorskip("jax")
    try:
        gpu = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("jax sees no GPU")
    X, Q = (jax.device_put(values, gpu) for values in data)
    answer = kith.knn(X, Q, 3)
    assert isinstance(answer.indices, kith.GpuArray)
    np.testing.assert_array_equal(answer.numpy().indices, kith.knn(*data, 3).indices)


@needs_gpu
def test_numba(data):
    cuda = pytest.importorskip("numba.cuda")
    X, Q = data
    stream = cuda.stream()
    answer = kith.knn(cuda.to_device(X, stream=stream), cuda.to_device(Q, stream=stream), 3)
    np.testing.assert_array_equal(cuda.as_cuda_array(answer.indices).copy_to_host(), kith.knn(X, Q, 3).indices)


TREES = [kith.KdTree, kith.Octree]


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(4)
    points = rng.random((20_000, 3), dtype=np.float32)
    points[100:140] = points[7]  # ties
    points[500] = np.nan
    points[501, 1] = np.inf
    queries = rng.random((500, 3), dtype=np.float32)
    queries[3] = np.nan
    queries[4, 0] = -np.inf
    return points, queries


def equal(answer, expected):
    for part in ("indices", "distances", "offsets"):
        if hasattr(expected, part):
            np.testing.assert_array_equal(getattr(answer, part), getattr(expected, part))


@needs_gpu
@pytest.mark.parametrize("Tree", TREES)
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "manhattan"])
def test_trees_answer_where_the_queries_lie(library, cloud, Tree, metric):
    X, Q = cloud
    host = Tree(X, metric)
    there = Tree(library.put(X), metric)
    for k in (1, 8, 33):
        expected = host.search(Q, k)
        same(there.search(library.put(Q), k), expected, library)
        assert there.search(library.put(Q), k).statistics.instruction_set.startswith("cuda ")
        # Built on one side, searched on the other.
        same(host.search(library.put(Q), k), expected, library)
        equal(there.search(Q, k, device="cpu"), expected)
        assert isinstance(there.search(Q, k).indices, np.ndarray)
        equal(there.search(Q, k), expected)
    same(there.search(library.put(Q), 9, 0.01), host.search(Q, 9, 0.01), library)
    same(there.search(library.put(Q), 3 * len(X) // 2), host.search(Q, 3 * len(X) // 2), library)
    same(kith.knn(library.put(X), library.put(Q), 5, metric, index=there.type), host.search(Q, 5), library)
    with pytest.raises(kith.InvalidArgument, match="cuda:0 but the search is to run on the CPU"):
        there.search(library.put(Q), 1, device="cpu")


@needs_gpu
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "inner_product", "cosine"])
def test_graphs_answer_where_the_queries_lie(library, data, metric):
    X, Q = data
    host = kith.Vamana(X, metric)
    there = kith.Vamana(X, metric, device="cuda")
    assert there.graph_hash == host.graph_hash
    assert there.recall_curve == host.recall_curve
    for k, how in ((1, {"list_size": 5}), (10, {"list_size": 40}), (7, {"recall": 0.9})):
        expected = host.search(Q, k, **how)
        same(there.search(library.put(Q), k, **how), expected, library)
        same(host.search(library.put(Q), k, **how), expected, library)
        equal(there.search(Q, k, **how), expected)
        assert there.search(Q, k, **how).statistics.instruction_set == "cuda resident"
        equal(there.search(Q, k, device="cpu", **how), expected)
    allowed = np.arange(len(X)) % 3 == 0
    same(
        there.search(library.put(Q), 5, list_size=30, allowed=allowed),
        host.search(Q, 5, list_size=30, allowed=allowed),
        library,
    )
    limited = host.search(Q, 10, list_size=40, device="cuda", device_memory_limit=66 << 20)
    equal(limited, host.search(Q, 10, list_size=40))
    with pytest.raises(kith.InvalidArgument, match="this search runs on the CPU"):
        there.search(library.put(Q), 1, device="cpu")
    with pytest.raises(kith.InvalidArgument, match="keeps them on the host"):
        kith.Vamana(library.put(X), metric)


@needs_gpu
@pytest.mark.parametrize("Tree", TREES)
def test_self_joins_stay_on_the_gpu(library, cloud, Tree):
    X, _ = cloud
    host = Tree(X)
    there = Tree(library.put(X))
    for arguments in ({}, {"include_self": True}, {"radius": 0.002}, {"k": 40}):
        same(there.all_knn(**arguments), host.all_knn(**arguments), library)
    # Asked for elsewhere, or of a tree over rows on the host, the answer is NumPy's.
    equal(there.all_knn(device="cpu"), host.all_knn())
    equal(host.all_knn(device="cuda"), host.all_knn())
    equal(Tree(X, device="cuda").all_knn(), host.all_knn())
    with pytest.raises(kith.InvalidArgument, match="k is 0"):
        there.all_knn(0)


@needs_gpu
@pytest.mark.parametrize("Tree", TREES)
def test_what_trees_do_beside_searching_on_a_gpu(library, cloud, Tree, tmp_path):
    X, Q = cloud
    host = Tree(X, "euclidean")
    there = Tree(library.put(X), "euclidean")
    for radius in (0.0, 0.05, np.inf):
        few = Q[:20] if radius == np.inf else Q
        expected = host.radius_search(few, radius)
        equal(there.radius_search(library.put(few), radius), expected)
        equal(there.radius_search(few, radius), expected)
        np.testing.assert_array_equal(there.count_within(library.put(few), radius), expected.counts())
        equal(there.radius_search(library.put(few), radius, max_neighbors=3), host.radius_search(few, radius, True, 3))
    for neighborhood in ({"k": 12}, {"radius": 0.04}, {"k": 12, "radius": 0.04}):
        np.testing.assert_array_equal(there.density(**neighborhood), host.density(**neighborhood))
        np.testing.assert_array_equal(
            there.outliers(**neighborhood).mean_distance, host.outliers(**neighborhood).mean_distance
        )
        for viewpoint in (None, [0.5, 0.5, 9.0]):
            a, b = (tree.normals(viewpoint=viewpoint, **neighborhood) for tree in (there, host))
            for found, expected in zip(a, b, strict=True):
                assert isinstance(found, library.type) and tuple(found.shape) == expected.shape
                np.testing.assert_array_equal(library.get(found), expected)
    plain = Tree(X, "euclidean", device="cuda").normals(12)
    assert isinstance(plain.normals, np.ndarray) and isinstance(plain.curvature, np.ndarray)
    there.save(tmp_path / "t.kith")
    for device in ("cpu", "cuda", "auto"):
        equal(kith.load(tmp_path / "t.kith", device=device).search(Q, 5), host.search(Q, 5))
    equal(there.search(Q, 5), host.search(Q, 5))
    distances, indices = there.query(Q[:1], 3)
    np.testing.assert_array_equal(indices, host.query(Q[:1], 3)[1])


@needs_gpu
def test_trees_on_a_gpu_keep_to_their_memory(cloud):
    X, Q = cloud
    tree = kith.KdTree(X, device="cuda")
    for call in (
        lambda: kith.KdTree(X, device="cuda", device_memory_limit=1000),
        lambda: tree.search(Q, 5, device_memory_limit=1000),
        lambda: tree.normals(5, device_memory_limit=1000),
    ):
        with pytest.raises(kith.OutOfMemory, match="1000"):
            call()


@needs_gpu
def test_the_work_of_another_stream_comes_before_a_tree(cloud):
    torch = torch_on_gpu()
    X, Q = cloud
    expected = kith.KdTree(X).search(Q, 3)
    late, asked = torch.from_numpy(X).cuda(), torch.from_numpy(Q).cuda()
    stream = torch.cuda.Stream()
    big = torch.ones(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        rows, queries = torch.zeros_like(late), torch.zeros_like(asked)
        for _ in range(20):
            big = (big @ big).clamp(0, 1)
        rows.copy_(late)
        tree = kith.KdTree(rows)
        for _ in range(20):
            big = (big @ big).clamp(0, 1)
        queries.copy_(asked)
        answer = tree.search(queries, 3)
        counts = tree.count_within(queries, 0.1)
    np.testing.assert_array_equal(answer.indices.cpu().numpy(), expected.indices)
    np.testing.assert_array_equal(counts, kith.KdTree(X).count_within(Q, 0.1))


class Late(OnGpu):
    """Holds one array until a default stream, which is busy for a while, brings another: 1 is the legacy stream, 2
    that of the thread. The interface does not say which, unless `said`."""

    def __init__(self, before, after, stream, said=False):
        import ctypes

        super().__init__(before)
        self.after = OnGpu(after)
        self.size = ctypes.c_size_t(after.nbytes)
        self.stream = ctypes.c_void_p(stream)
        self.__cuda_array_interface__ |= {"version": 3 if said else 2}
        del self.__cuda_array_interface__["stream"]
        if said:
            self.__cuda_array_interface__ |= {"stream": stream}
        self.call("cuCtxSynchronize")

    def busy(self):
        import ctypes

        sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
        self.call("cuLaunchHostFunc", self.stream, sleep, ctypes.c_void_p(60_000))

    def start(self):
        self.busy()
        self.call("cuMemcpyDtoDAsync_v2", self.pointer, self.after.pointer, self.size, self.stream)

    def __del__(self):
        self.driver.cuCtxSynchronize()
        super().__del__()


LATE_CALLS = {
    "knn": lambda X, Q: kith.knn(X, Q, 5),
    "BruteForce": lambda X, Q: kith.BruteForce(X, device="cuda").search(Q, 5),
    "KdTree": lambda X, Q: kith.KdTree(X, device="cuda").search(Q, 5),
    "Octree": lambda X, Q: kith.Octree(X, device="cuda").search(Q, 5),
    "all_knn": lambda X, Q: kith.KdTree(X, device="cuda").all_knn(5),
    "radius_search": lambda X, Q: kith.KdTree(X, device="cuda").radius_search(Q, 0.1),
}


def numbers(answer):
    return np.asarray(answer.numpy().indices if hasattr(answer, "numpy") else answer.indices)


@needs_gpu
@pytest.mark.parametrize("stream", [1, 2], ids=["legacy", "per_thread"])
@pytest.mark.parametrize("said", [True, False], ids=["said", "not_said"])
@pytest.mark.parametrize("name", LATE_CALLS)
def test_the_default_stream_comes_first(name, said, stream):
    rng = np.random.default_rng(4)
    X, other_X = (rng.random((20_000, 3), np.float32) for _ in range(2))
    Q, other_Q = (rng.random((300, 3), np.float32) for _ in range(2))
    call = LATE_CALLS[name]
    expected = numbers(call(X, Q))
    for rows, queries in (
        (Late(other_X, X, stream, said), Q),
        (X, Late(other_Q, Q, stream, said)),
        (OnGpu(X), Late(other_Q, Q, stream, said)),
    ):
        late = rows if isinstance(rows, Late) else queries
        if name == "all_knn" and late is queries:
            continue
        assert not np.array_equal(numbers(call(rows, queries)), expected)
        late.start()
        np.testing.assert_array_equal(numbers(call(rows, queries)), expected)


@needs_gpu
@pytest.mark.parametrize("stream", [1, 2], ids=["legacy", "per_thread"])
def test_what_the_default_stream_does_to_an_answer_is_seen(data, stream):
    import ctypes

    X, Q = data
    late = Late(Q, Q, stream)
    distances = kith.BruteForce(X, device="cuda").search(late, 3).distances
    np.testing.assert_array_equal(distances.numpy(), kith.knn(X, Q, 3).distances)
    late.busy()
    late.call(
        "cuMemsetD8Async", ctypes.c_uint64(distances.__cuda_array_interface__["data"][0]), ctypes.c_ubyte(0),
        ctypes.c_size_t(4 * Q.shape[0] * 3), late.stream,
    )  # fmt: skip
    assert not distances.numpy().any()


@needs_gpu
def test_torchs_default_stream_comes_first_and_next(cloud):
    torch = torch_on_gpu()
    X, Q = cloud
    there, asked = torch.from_numpy(X).cuda(), torch.from_numpy(Q).cuda()
    trees = {Tree: Tree(X) for Tree in TREES}
    truth = kith.knn(X, Q, 3)

    def late(values):
        out = torch.zeros_like(values)
        torch.cuda.synchronize()
        torch.cuda._sleep(50_000_000)
        return out.copy_(values)

    for _ in range(2):  # kernels are loaded by the first
        found = [kith.knn(late(there), asked, 3), kith.BruteForce(there).search(late(asked), 3)]
        for Tree, host in trees.items():
            tree = Tree(late(there))
            found += [tree.search(asked, 3), tree.search(late(asked), 3)]
            np.testing.assert_array_equal(tree.count_within(late(asked), 0.1), host.count_within(Q, 0.1))
            np.testing.assert_array_equal(
                tree.radius_search(late(asked), 0.1).indices, host.radius_search(Q, 0.1).indices
            )
            np.testing.assert_array_equal(tree.normals(8).normals.cpu().numpy(), host.normals(8).normals)
        for answer in found:
            np.testing.assert_array_equal((answer.indices + 1).cpu().numpy(), truth.indices + 1)


@needs_gpu
def test_point_tiles_on_a_gpu(tmp_path):
    points = np.random.default_rng(5).random((20_000, 3), dtype=np.float32)
    tiles = kith.PointTiles.build(tmp_path / "tiles", points, tile_points=900)
    on_gpu = {"device": GPUS[0], "device_memory_limit": 1 << 28}
    for name, how in [("cpu", {}), ("gpu", on_gpu)]:
        tiles.all_knn(tmp_path / f"{name}-a", k=7, **how)
        tiles.normals(tmp_path / f"{name}-n", k=9, value_dtype="float32", **how)
        tiles.outliers(tmp_path / f"{name}-o", k=9, **how)
    for part in ["a.indices", "a.distances", "n", "o.outlier", "o.mean_distance"]:
        assert (tmp_path / f"cpu-{part}.npy").read_bytes() == (tmp_path / f"gpu-{part}.npy").read_bytes()
    found, right = tiles.search(points[:50], 4, **on_gpu), tiles.search(points[:50], 4)
    assert np.array_equal(found.indices, right.indices) and np.array_equal(found.distances, right.distances)
    assert tiles.radius_search(points[:50], 0.05, **on_gpu) is not None
    with pytest.raises(kith.OutOfMemory, match="two tiles"):
        tiles.all_knn(tmp_path / "no", k=7, device=GPUS[0], device_memory_limit=100_000)
