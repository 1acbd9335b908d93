"""What may be passed as an array, what is copied and what is kept alive."""

from __future__ import annotations

import array
import ctypes
import gc
import weakref

import kith
import numpy as np
import pytest
from kith._arrays import to_rows
from scipy import sparse

from .oracle import DTYPES, random_rows


class Producer:
    """Has nothing but DLPack, like an array of another package."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **arguments):
        return self.values.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OldProducer(Producer):
    """Of the time before DLPack 1.0: no keyword but stream."""

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()


class BrokenProducer(Producer):
    def __dlpack__(self, **arguments):
        raise RuntimeError("no")


def test_rows_lie_where_they_lay(dtype):
    whole = random_rows(dtype, 40, 12, 1)
    for rows in (whole, whole[5:9], whole[::3], whole[:, 2:7], whole[1::2, :1], whole[:1], whole[:0]):
        assert not to_rows(rows, "dataset").copied


@pytest.mark.parametrize(
    "arrange",
    [
        np.asfortranarray,
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: x[:, ::2],
        lambda x: np.broadcast_to(x[2], x.shape),
        lambda x: np.lib.stride_tricks.as_strided(x, (20, 4), (x.itemsize, x.itemsize)),
    ],
    ids=["fortran", "rows backwards", "columns backwards", "every other column", "one row often", "overlapping"],
)
def test_other_layouts_are_copied_and_answer_the_same(dtype, arrange):
    X = arrange(random_rows(dtype, 100, 12, 1))
    assert to_rows(X, "dataset").copied
    expected = kith.knn(np.ascontiguousarray(X), np.ascontiguousarray(X[:9]), 6)
    # NumPy before 2.1 hands out no read-only memory through DLPack.
    for data in (X, Producer(X)) if dtype != "bfloat16" and X.flags.writeable else (X,):
        answer = kith.knn(data, X[:9], 6)
        np.testing.assert_array_equal(answer.indices, expected.indices)
        np.testing.assert_array_equal(answer.distances, expected.distances)


def test_strided_rows_are_searched_in_place(dtype):
    whole = random_rows(dtype, 60, 10, 1)
    rows = whole[::2, 3:8]
    expected = kith.knn(rows.copy(), rows[:4].copy(), 5)
    answer = kith.knn(rows, rows[:4], 5)
    np.testing.assert_array_equal(answer.indices, expected.indices)
    np.testing.assert_array_equal(answer.distances, expected.distances)


def test_an_index_sees_its_array():
    X = np.zeros((4, 2))
    index = kith.BruteForce(X, filter="none")
    X[3] = 7
    assert index.search([7.0, 7.0], 1).indices.tolist() == [[3]]


def test_an_index_keeps_its_array_alive_and_lets_go_of_it():
    X = np.arange(2000.0).reshape(1000, 2)
    gone = weakref.ref(X)
    index = kith.BruteForce(X)
    del X
    gc.collect()
    assert gone() is not None
    junk = [np.full((1000, 2), -1.0) for _ in range(20)]
    assert index.search([500.0, 501.0], 1).indices.tolist() == [[250]]
    del index, junk
    gc.collect()
    assert gone() is None


def test_one_shot_search_keeps_nothing():
    X = np.eye(50)
    gone = weakref.ref(X)
    answer = kith.knn(X, X, 2)
    del X
    gc.collect()
    assert gone() is None and answer.indices.shape == (50, 2)


def test_results_own_the_memory_of_the_library():
    X = random_rows("float32", 50, 4, 1)
    answer = kith.knn(X, X, 3)
    distances, indices = answer
    assert not distances.flags.owndata and not indices.flags.owndata  # a capsule owns it: not copied
    assert distances.flags.writeable and distances.flags.c_contiguous
    expected = indices.copy()
    del answer
    gc.collect()
    np.testing.assert_array_equal(indices, expected)


@pytest.mark.parametrize("producer", [Producer, OldProducer])
def test_dlpack_producers(producer):
    X = random_rows("float32", 30, 5, 1)
    rows = to_rows(producer(X), "dataset")
    assert not rows.copied and (rows.rows, rows.dim, rows.dtype) == (30, 5, "float32")
    np.testing.assert_array_equal(kith.knn(producer(X), producer(X[:3]), 4).indices, kith.knn(X, X[:3], 4).indices)
    index = kith.BruteForce(producer(X))
    del X
    gc.collect()
    assert index.rows == 30


def test_a_producer_that_fails_is_a_type_error():
    with pytest.raises(TypeError, match="dataset: a .*BrokenProducer that offers"):
        kith.knn(BrokenProducer(np.eye(3)), np.eye(3), 1)


def test_pytorch_tensors():
    torch = pytest.importorskip("torch")
    X = torch.randn(30, 5)
    expected = kith.knn(X.numpy(), X.numpy()[:3], 4).indices
    np.testing.assert_array_equal(kith.knn(X, X[:3], 4).indices, expected)
    assert not to_rows(X.to(torch.bfloat16), "dataset").copied
    assert kith.BruteForce(X.to(torch.bfloat16)).dtype == "bfloat16"


def test_an_array_on_a_device_is_refused():
    # A producer whose capsule says CUDA: kDLCUDA = 2 stands behind the data pointer of the tensor.
    values = np.eye(3)
    capsule = values.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    device_type = ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p))
    assert device_type.value == 1
    device_type.value = 2

    class OnDevice:
        def __dlpack__(self, **_):
            return capsule

    with pytest.raises(TypeError, match=r"lies on a device.*\.cpu\(\)"):
        kith.knn(OnDevice(), values, 1)


def test_buffers_and_lists():
    X = random_rows("float64", 20, 3, 1)
    expected = kith.knn(X, X[:2], 4).indices
    np.testing.assert_array_equal(kith.knn(memoryview(X), X[:2], 4).indices, expected)
    np.testing.assert_array_equal(kith.knn(X.tolist(), X[:2].tolist(), 4).indices, expected)
    assert kith.knn(X, array.array("d", X[7]), 1).indices.tolist() == [[7]]
    assert kith.knn(np.eye(3, dtype=np.uint8) * 9, bytearray([0, 9, 0]), 1).indices.tolist() == [[1]]


def test_lists_of_numbers_take_the_element_type_of_the_dataset():
    assert kith.knn([[0, 0], [3, 4]], [[3, 3]], 1).distances.dtype == np.float64
    tenth = np.array([[0.1, 0.1], [0.2, 0.3]], np.float32)
    answer = kith.BruteForce(tenth).search([[0.1, 0.1]], 1)
    assert answer.distances.tolist() == [[0.0]] and answer.distances.dtype == np.float32
    assert kith.knn(tenth, [0.1, 0.1], 1).distances.tolist() == [[0.0]]
    small = np.array([[1, 200], [3, 4]], np.uint8)
    assert kith.BruteForce(small).search((1, 200), 1).distances.tolist() == [[0.0]]
    assert kith.knn(small, [1, 300], 1).distances.tolist() == [[10000.0]]
    assert kith.knn(small, [1.5, 200], 1).distances.tolist() == [[0.25]]
    with pytest.raises(TypeError, match="would round"):
        kith.BruteForce(small).search([1.5, 200], 1)
    # Arrays in a list have an element type of their own, which is not rounded.
    with pytest.raises(TypeError, match="would round"):
        kith.BruteForce(tenth).search([np.array([0.1, 0.1])], 1)
    with pytest.raises((TypeError, ValueError)):
        kith.knn([[1, 2], [3]], [[1, 2]], 1)


def test_read_only_and_mapped_arrays_are_not_copied(tmp_path, dtype):
    X = random_rows(dtype, 20, 3, 1)
    X.setflags(write=False)
    assert not to_rows(X, "dataset").copied
    X.tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", DTYPES[dtype], "r", shape=(20, 3))
    assert not to_rows(mapped, "dataset").copied
    np.testing.assert_array_equal(kith.knn(mapped, X, 2).indices, kith.knn(X, X, 2).indices)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_foreign_byte_order_is_swapped(dtype):
    X = random_rows(dtype, 30, 4, 1)
    swapped = X.astype(X.dtype.newbyteorder("S"))
    np.testing.assert_array_equal(kith.knn(swapped, swapped[:5], 6).distances, kith.knn(X, X[:5], 6).distances)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_elements_at_odd_addresses(dtype):
    X = random_rows(dtype, 30, 4, 1)
    odd = np.frombuffer(b"x" + X.tobytes(), np.uint8)[1:].view(DTYPES[dtype]).reshape(X.shape)
    assert not odd.flags.aligned
    np.testing.assert_array_equal(kith.knn(odd, odd[:5], 6).indices, kith.knn(X, X[:5], 6).indices)


def test_a_field_of_records():
    records = np.zeros(12, [("id", "u1"), ("point", "f4", 3)])  # 13 bytes a record
    records["point"] = random_rows("float32", 12, 3, 1)
    plain = np.ascontiguousarray(records["point"])
    np.testing.assert_array_equal(kith.knn(records["point"], plain, 3).indices, kith.knn(plain, plain, 3).indices)


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [
        ("int16", "int16.*float64"),
        ("int32", "int32.*float64"),
        ("int64", "int64.*float64"),
        ("uint16", "uint16.*float64"),
        ("uint64", "uint64.*float64"),
        ("bool", "bool.*uint8"),
        ("complex64", "complex64.*view"),
        ("longdouble", "float64"),
        ("object", "object.*numpy.array"),
        ("U3", "array of numbers"),
    ],
)
def test_other_element_types_are_refused_with_a_remedy(dtype, remedy):
    X = np.zeros((4, 2), dtype)
    with pytest.raises(TypeError, match="dataset: .*" + remedy):
        kith.knn(X, np.zeros((1, 2)), 1)
    with pytest.raises(TypeError, match="queries: .*" + remedy):
        kith.knn(np.zeros((4, 2)), X, 1)


@pytest.mark.parametrize("dtype", ["int16", "int64", "uint32", "bool", "complex64"])
def test_other_element_types_of_producers_are_refused(dtype):
    with pytest.raises(TypeError, match=rf"dataset: element type {dtype}|dataset: element type bool8"):
        kith.BruteForce(Producer(np.zeros((4, 2), dtype)))


@pytest.mark.parametrize("values", [None, "text", object(), 5, 2.5, [], [[]], [["a"]]])
def test_things_that_are_no_arrays(values):
    with pytest.raises((TypeError, kith.InvalidArgument), match="dataset"):
        kith.knn(values, np.eye(2), 1)


def test_masked_and_sparse_arrays_are_refused():
    with pytest.raises(TypeError, match="masked.*filled"):
        kith.knn(np.ma.masked_less(np.eye(3), 1), np.eye(3), 1)
    with pytest.raises(TypeError, match="sparse.*toarray"):
        kith.knn(sparse.csr_matrix(np.eye(3)), np.eye(3), 1)


@pytest.mark.parametrize("shape", [(), (4,), (2, 2, 2)])
def test_wrong_shapes_of_the_dataset(shape):
    with pytest.raises(kith.InvalidArgument, match=rf"dataset: an array of {len(shape)} dimension"):
        kith.BruteForce(np.zeros(shape))
    if len(shape) != 1:
        with pytest.raises(kith.InvalidArgument, match=rf"queries: an array of {len(shape)} dimension"):
            kith.knn(np.zeros((3, 2)), np.zeros(shape))
