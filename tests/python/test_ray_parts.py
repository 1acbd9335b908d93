"""What kith.ray is made of, without Ray: files of tasks, the work folder, rows, merging, requests."""

import io
import json
import math
import multiprocessing
import os
import random

import kith
import kith.ray
import numpy as np
import pytest
from kith.ray import _answers, _call, _requests, _rows, _tasks, _units, _work

from .oracle import DTYPES


@pytest.fixture
def rows():
    values = np.random.default_rng(5).integers(0, 5, (900, 3)).astype(np.float32)
    values[400, 1] = np.nan
    return values


# Files of tasks


def test_a_unit_is_read_as_it_was_written(tmp_path):
    arrays = [np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3), np.zeros((0, 4), np.float32)]
    _units.write_unit(str(tmp_path / "u"), arrays, {"recall": 0.5})
    found, notes = _units.read_unit(str(tmp_path / "u"))
    assert notes == {"recall": 0.5} == _units.unit_notes(str(tmp_path / "u"))
    for a, b in zip(arrays, found, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    assert os.listdir(tmp_path) == ["u"]
    assert _units.unit_notes(str(tmp_path / "nothing")) is None


def test_every_byte_of_a_unit_counts(tmp_path):
    path = tmp_path / "u"
    _units.write_unit(str(path), [np.arange(4.0, dtype=np.float32), np.arange(4)], {"certified": True})
    whole = path.read_bytes()
    expected = _units.read_unit(str(path))
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            found = _units.read_unit(str(path))
        except kith.IoError as error:
            assert "done again" in str(error)
        else:  # a blank of the header, or a note, which nothing but statistics depend on
            assert all(np.array_equal(a, b) for a, b in zip(found[0], expected[0], strict=True))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(kith.IoError):
            _units.read_unit(str(path))


@pytest.mark.parametrize("arrays", [[["|O", [1]]], [["<i8", [-1]]], [["<i8", [10**18]]], [["<i8", ["../x"]]], "x", [1]])
def test_a_units_header_names_no_other_arrays(tmp_path, arrays):
    header = json.dumps({"arrays": arrays, "crc": 0, "notes": {}}).encode()
    (tmp_path / "u").write_bytes(b"KITHUNIT" + len(header).to_bytes(4, "little") + header + bytes(8))
    with pytest.raises(kith.IoError, match="done again"):
        _units.read_unit(str(tmp_path / "u"))


def test_an_attempt_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), _units.lasting(str(tmp_path / "x")) as temporary:
        open(temporary, "w").close()
        raise RuntimeError
    assert os.listdir(tmp_path) == []


# The work folder


def test_work_goes_on_and_another_calls_is_refused(tmp_path):
    with _work.Work(tmp_path / "r") as work:
        work.begin({"k": 3, "base": ["a", 1]})
        with pytest.raises(kith.IoError, match="at work in another process"):
            _work.Work(tmp_path / "r")
    with _work.Work(tmp_path / "r") as work:
        assert work.before("k", 1, 10) == 3 and work.before("k", 4, 10) is None and work.before("base", 0, 9) is None
        work.begin({"k": 3, "base": ["a", 1]})
    with _work.Work(tmp_path / "r") as work, pytest.raises(kith.IoError, match=r"whose k is 3; this one's is 4"):
        work.begin({"k": 4, "base": ["a", 1]})
    assert os.listdir(tmp_path) == ["r.kith-ray-work"]  # the other call's
    unit = tmp_path / "r.kith-ray-work" / "answer-0.unit"
    for left in (["r.kith-ray-work"], []):  # something to go on from, and nothing
        with pytest.raises(RuntimeError), _work.Work(tmp_path / "r") as work:
            work.begin({"k": 3, "base": ["a", 1]})
            unit.write_text("done") if left else unit.unlink()
            raise RuntimeError
        assert os.listdir(tmp_path) == left
    with pytest.raises(kith.IoError, match="there is no folder"):
        _work.Work(tmp_path / "no" / "r")


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "[]", "{}", "null", '{"format": "kith ray work", "version": 2, "call": {}}',
        '{"format": "kith ray work", "version": 1, "call": "../../etc/passwd"}', '{"format": "other", "version": 1, "call": {}}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_forged_manifest_is_refused(tmp_path, text):
    (tmp_path / "r.kith-ray-work").mkdir()
    (tmp_path / "r.kith-ray-work" / "manifest.json").write_text(text)
    with pytest.raises(kith.IoError, match="damaged"):
        _work.Work(tmp_path / "r")


def test_a_manifest_leads_nowhere_else(tmp_path):
    """What a manifest says is compared, and nothing it says becomes a path."""
    (tmp_path / "r.kith-ray-work").mkdir()
    call = {"k": 3, "file": "../../outside", "shards": "../5"}
    forged = {"format": "kith ray work", "version": 1, "call": call}
    (tmp_path / "r.kith-ray-work" / "manifest.json").write_text(json.dumps(forged))
    with _work.Work(tmp_path / "r") as work:
        assert work.before("shards", 1, 10) is None
        with pytest.raises(kith.IoError, match="another call"):
            work.begin({"k": 3})
    link = tmp_path / "s.kith-ray-work"
    link.symlink_to(tmp_path)
    with pytest.raises(kith.IoError, match="cannot make"):
        _work.Work(tmp_path / "s")
    (tmp_path / "t.kith-ray-work").mkdir()
    (tmp_path / "t.kith-ray-work" / "base.npy").write_text("of a run that was killed")
    _work.Work(tmp_path / "t").close()
    (tmp_path / "t.kith-ray-work" / "notes.txt").write_text("mine")
    with pytest.raises(kith.IoError, match="no work of"):
        _work.Work(tmp_path / "t")


def test_a_shards_manifest_that_leads_elsewhere_is_refused(rows, tmp_path):
    kith.Sharded.build(rows, tmp_path / "s", 2, index="kd_tree", partition="rows")
    text = (tmp_path / "s" / "manifest.json").read_text()
    for name in ["../s/shard-1.kith", "/etc/passwd", "..", "shard-1.kith/../shard-1.kith"]:
        (tmp_path / "s" / "manifest.json").write_text(text.replace("shard-1.kith", name))
        with pytest.raises(kith.IoError):
            _tasks.Part(0, 1, folder=str(tmp_path / "s"), number=1).open(_tasks.Machine())


# Rows


def test_rows_of_files_arrays_and_tables(rows, tmp_path):
    np.save(tmp_path / "a.npy", rows[:100])
    kith.write(tmp_path / "b.fvecs", rows[100:101])
    kith.write(tmp_path / "c.parquet", rows[101:])
    with _work.Work(tmp_path / "r") as work:
        for source in [
            [tmp_path / "a.npy", str(tmp_path / "b.fvecs"), tmp_path / "c.parquet:vector"],
            rows,
            rows.tolist(),
        ]:
            found = _rows.rows_of(source, "base", work)
            assert (found.rows, found.dim) == (900, 3)
            for first, last in [(0, 900), (99, 102), (100, 101), (0, 0), (899, 900), (300, 500)]:
                assert np.array_equal(found.read(first, last), rows[first:last], equal_nan=True)
        assert _rows.rows_of(rows, "base", work).named() == _rows.rows_of(rows.copy(), "base", work).named()
        assert _rows.rows_of(rows, "base", work).named() != _rows.rows_of(rows + 1, "base", work).named()
        np.save(tmp_path / "d.npy", rows.astype(np.float64))
        with pytest.raises(kith.InvalidArgument, match="one dataset has one kind"):
            _rows.rows_of([tmp_path / "a.npy", tmp_path / "d.npy"], "base", work)
        with pytest.raises(kith.IoError, match="every machine"):
            _rows.rows_of(tmp_path / "nothing.npy", "base", work)
        with pytest.raises(kith.InvalidArgument, match="shape"):
            _rows.rows_of(np.zeros(3), "base", work)
        found = _rows.rows_of(tmp_path / "a.npy", "base", work)
        np.save(tmp_path / "a.npy", rows[:101])
        with pytest.raises(kith.IoError, match="was changed"):
            found.read(0, 5)


# Merging


@pytest.mark.parametrize("k", [1, 5, 400])
def test_merged_lists_are_those_of_one_index(rows, k):
    whole = kith.knn(rows, rows[:50], k)
    found = []
    for first, last in _call.cuts_of(len(rows), 4):
        part = kith.knn(rows[first:last], rows[:50], k)
        found.append((part.distances, np.where(part.indices < 0, -1, part.indices + first)))
    near, numbers = _tasks.merge_lists([a for a, _ in found], [b for _, b in found], k)
    assert near.tobytes() == whole.distances.tobytes() and np.array_equal(numbers, whole.indices)


def test_infinite_distances_come_before_padding():
    near, numbers = _tasks.merge_lists(
        [np.array([[1.0, np.inf]]), np.array([[np.inf, np.inf]])], [np.array([[4, -1]]), np.array([[2, 7]])], 3
    )
    assert numbers.tolist() == [[4, 2, 7]] and near.tolist() == [[1.0, np.inf, np.inf]]


def test_lists_of_tiles_come_in_the_order_of_rows(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(_answers, "_GATHERED_BYTES", 3000)
    tiles = kith.PointTiles.build(tmp_path / "t", rows, tile_points=60)
    whole = tiles.all_knn(tmp_path / "w", 4)
    files = []
    for number, (first, last) in enumerate(_call.cuts_of(tiles.tiles, 3)):
        files.append(str(tmp_path / f"{number}.unit"))
        assert _tasks.of_tiles(
            str(tmp_path / "t"), first, last, 4, "sqeuclidean", "dropped", files[-1], _tasks.Machine()
        )
    near, numbers = zip(*_answers.in_order(files, 900, 4, []), strict=True)
    assert len(near) > 3
    assert np.concatenate(near).tobytes() == whole.distances.tobytes()
    assert np.array_equal(np.concatenate(numbers), whole.indices)


def _attempt(arguments):
    _tasks.of_tiles(*arguments)


def test_two_attempts_at_once_leave_one_file_of_the_same_bytes(rows, tmp_path):
    kith.PointTiles.build(tmp_path / "t", rows, tile_points=60)
    arguments = (str(tmp_path / "t"), 0, 5, 4, "euclidean", "first", str(tmp_path / "u"), _tasks.Machine())
    _attempt(arguments)
    once = (tmp_path / "u").read_bytes()
    (tmp_path / "u").unlink()
    processes = [multiprocessing.get_context("spawn").Process(target=_attempt, args=(arguments,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert (tmp_path / "u").read_bytes() == once
    changed = os.stat(tmp_path / "u").st_mtime_ns
    _attempt(arguments)  # done already
    assert os.stat(tmp_path / "u").st_mtime_ns == changed
    assert sorted(os.listdir(tmp_path)) == ["t", "u"]


def test_a_holder_answers_for_a_part(rows, tmp_path):
    np.save(tmp_path / "x.npy", rows)
    with _work.Work(tmp_path / "r") as work:
        source = _rows.rows_of(tmp_path / "x.npy", "base", work)
    question = _tasks.Question(source, 4, "sqeuclidean", {}, "dropped")
    files = []
    for number, (first, last) in enumerate(_call.cuts_of(900, 3)):
        holder = _tasks.Holder(_tasks.Part(first, last, rows=source, index="octree"), _tasks.Machine())
        files.append(str(tmp_path / f"{number}.unit"))
        assert holder.answer(question, 100, 700, files[-1], False) == 600
    for _ in range(2):  # the second time nothing is left to do, and the parts are gone
        assert _tasks.merge(question, 100, 700, files, str(tmp_path / "m")) == 600
    near, numbers = _units.read_unit(str(tmp_path / "m"))[0]
    whole = kith.all_knn(rows, 4, metric="sqeuclidean")
    assert near.tobytes() == whole.distances[100:700].tobytes() and np.array_equal(numbers, whole.indices[100:700])
    assert sorted(os.listdir(tmp_path)) == ["m", "r.kith-ray-work", "x.npy"]


def test_machines_build_shards_of_rows_that_follow_each_other(rows, tmp_path):
    with pytest.raises(kith.InvalidArgument, match="partition: .*leave it out"):
        kith.ray.build(rows, 2, tmp_path / "s", index="kd_tree", partition="space")
    assert _tasks.rows_of_all(np.array([[-1, -1]]), 3, np.empty(0, np.int64)).tolist() == [[-1, -1]]
    assert _tasks.rows_of_all(np.array([[1, -1]]), 3, None).tolist() == [[4, -1]]


def test_holders_of_shards_divided_by_space_number_rows_as_all_do(rows, tmp_path):
    shards = kith.Sharded.build(rows, tmp_path / "s", 3, index="kd_tree")
    assert shards.partition == "space"
    np.save(tmp_path / "x.npy", rows)
    with _work.Work(tmp_path / "r") as work:
        question = _tasks.Question(_rows.rows_of(tmp_path / "x.npy", "queries", work), 4, "sqeuclidean")
    files, first = [], 0
    for number, count in enumerate(shards.shard_rows):
        part = _tasks.Part(first, first + count, folder=str(tmp_path / "s"), number=number)
        files.append(str(tmp_path / f"{number}.unit"))
        _tasks.Holder(part, _tasks.Machine()).answer(question, 0, 900, files[-1], False)
        first += count
    _tasks.merge(question, 0, 900, files, str(tmp_path / "m"))
    near, numbers = _units.read_unit(str(tmp_path / "m"))[0]
    whole = kith.knn(rows, rows, 4)
    assert near.tobytes() == whole.distances.tobytes() and np.array_equal(numbers, whole.indices)


# Requests


def npy(array, **how):
    stream = io.BytesIO()
    np.save(stream, array, **how)
    return stream.getvalue()


def ask(given, shape=(2, 3), graph=False, **limits):
    return _requests.ask_of(np.zeros(shape, np.float32), given, 3, graph, kith.ray.Limits(**limits))


def test_requests_within_limits():
    found = ask({"k": 7, "deadline": 2, "partial": False})
    assert (found.k, found.deadline, found.partial, found.options) == (7, 2, False, {})
    assert ask({}, (3,)).queries.shape == (1, 3)
    assert ask({"recall": 0.9, "beam_width": 4}, graph=True).options == {"recall": 0.9, "beam_width": 4}
    assert ask({"list_size": 50, "rerank": 3}, graph=True).options == {"list_size": 50, "rerank": 3}


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"k": 0}, 400), ({"k": 1001}, 400), ({"k": True}, 400), ({"k": 1.5}, 400), ({"k": "5"}, 400), ({"k": 10**30}, 400),
        ({"recall": 0.5}, 400), ({"deadline": 0}, 400), ({"deadline": 31}, 400), ({"deadline": math.nan}, 400),
        ({"partial": 1}, 400), ({"deadline": True}, 400), ({"x" * 999: 1}, 400), ({"__class__": 1}, 400),
    ],
)  # fmt: skip
def test_requests_beyond_limits(given, status):
    with pytest.raises(_requests.BadRequest) as error:
        ask(given)
    assert error.value.status == status and len(error.value.why) < 400


def test_limits_hold():
    for given, how in [
        ({"k": 6}, {"k": 5}),
        ({"list_size": 6}, {"list_size": 5, "graph": True}),
        ({"rerank": 6}, {"list_size": 5, "graph": True}),
        ({"deadline": 6}, {"deadline": 5.0}),
        ({"beam_width": 65}, {"graph": True}),
    ]:
        with pytest.raises(_requests.BadRequest, match=r"use"):
            ask(given, **how)
    with pytest.raises(_requests.BadRequest, match="413"):
        ask({}, (3, 3), queries=2)
    with pytest.raises(_requests.BadRequest, match="at most 8 neighbours"):
        ask({"k": 3}, (3, 3), neighbors=8)
    for shape in [(2, 4), (1, 1, 3), ()]:
        with pytest.raises(_requests.BadRequest):
            ask({}, shape)
    for limit in ["request_bytes", "queries", "k", "neighbors", "list_size", "ongoing", "deadline"]:
        with pytest.raises(kith.InvalidArgument, match=limit):
            kith.ray.Limits(**{limit: 0})


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_bodies_give_the_rows_type(dtype):
    kind = np.dtype(DTYPES[dtype]) if isinstance(DTYPES, dict) else np.dtype(dtype)
    values = np.array([[1, 2, 3], [100, 5, 7]]).astype(kind)
    found, given = _requests.json_body(json.dumps({"queries": values.astype(float).tolist(), "k": 3}).encode(), kind)
    assert found.dtype == kind and np.array_equal(found, values) and given == {"k": 3}
    assert np.array_equal(_requests.npy_body(npy(values), kind), values)
    assert np.array_equal(_requests.npy_body(npy(np.asfortranarray(values)), kind), values)


def test_numbers_that_the_type_does_not_hold():
    for value, kind in [(1e39, "float32"), (300, "uint8"), (-1, "uint8"), (1.5, "int8"), (70000, "float16")]:
        with pytest.raises(_requests.BadRequest, match="does not"):
            _requests.json_body(json.dumps({"queries": [[value]]}).encode(), np.dtype(kind))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"{}", b'{"queries": 1}', b'{"queries": [[1], [1, 2]]}', b'{"queries": [["1", "2"]]}',
        b'{"queries": [[null]]}', b'{"queries": [[NaN]]}', b'{"queries": [[Infinity]]}', b'{"queries": [[1e999]]}',
        b'{"queries": [[{}]]}', b'{"queries": [[true]]}', b"[" * 100_000, b'{"queries": ' + b"[" * 100_000, b"\xff\xfe", b"\x00",
        b'{"queries": [[' + b"9" * 5000 + b"]]}", b'{"queries": {"a": 1}}',
    ],
)  # fmt: skip
def test_malformed_json(body):
    with pytest.raises(_requests.BadRequest) as error:
        _requests.json_body(body, np.dtype(np.float32))
    assert error.value.status == 400 and len(error.value.why) < 400


def test_an_npy_of_objects_is_not_read():
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    with pytest.raises(_requests.BadRequest):
        _requests.npy_body(npy(np.array([Bomb()], dtype=object), allow_pickle=True), np.dtype(np.float32))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3), np.float64), np.zeros((2, 3), np.int64), np.zeros((2, 3), "U3"), np.zeros((2, 3), "S3"),
        np.zeros((2, 3), np.complex64), np.zeros((2, 3), [("a", "<f4")]), np.zeros((2, 3), "M8[s]"), np.zeros((1, 2, 3), np.float32),
        np.zeros((), np.float32), np.zeros((2, 3), bool), np.zeros((2, 3), "V2"),
    ],
)  # fmt: skip
def test_other_npys_are_refused(array):
    with pytest.raises(_requests.BadRequest):
        _requests.npy_body(npy(array), np.dtype(np.float32))


def test_a_thousand_damaged_bodies():
    """Each gives rows or a refusal, and nothing else."""
    chance = random.Random(7)
    good = [
        npy(np.ones((4, 3), np.float32)),
        json.dumps({"queries": [[1.0, 2.0, 3.0]] * 4, "k": 3, "partial": True}).encode(),
    ]
    refused = 0
    for number in range(1000):
        body = bytearray(good[number % 2])
        for _ in range(chance.randint(1, 8)):
            kind, at = chance.randrange(4), chance.randrange(len(body) or 1)
            if kind == 0 and body:
                body[at] = chance.randrange(256)
            elif kind == 1:
                del body[at : at + chance.randint(1, 20)]
            elif kind == 2:
                body[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 20)))
            else:
                body[at:at] = chance.choice([b"[", b"{", b'"', b"\\", b"(10**9,)", b"-1", b"'descr'", b"|O", b"1e99"])
        try:
            if number % 2:
                queries, given = _requests.json_body(bytes(body), np.dtype(np.float32))
            else:
                queries, given = _requests.npy_body(bytes(body), np.dtype(np.float32)), {}
            _requests.ask_of(queries, given, 3, False, kith.ray.Limits())
        except _requests.BadRequest as error:
            refused += 1
            assert error.status in (400, 413) and len(error.why) < 600
    assert refused > 700


def test_parameters_of_a_url():
    found = _requests.parameters_of({"k": "5", "deadline": "0.5", "partial": "false", "recall": "9.5e-1"})
    assert found == {"k": 5, "deadline": 0.5, "partial": False, "recall": 0.95}
    for text in ["", "x", "nan", "inf", "1_0", "0x5", "__import__('os')", "9" * 40, "[1]", " 5"]:
        with pytest.raises(_requests.BadRequest):
            _requests.parameters_of({"k": text})


def test_without_ray_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    for call in [
        lambda: kith.ray.knn(np.eye(3), np.eye(3), 1, output=tmp_path / "r"),
        lambda: kith.ray.all_knn(np.eye(3), 1, output=tmp_path / "r"),
        lambda: kith.ray.build(np.eye(3), 1, tmp_path / "s"),
        lambda: kith.ray.deploy(kith.Sharded.build(np.eye(3), tmp_path / "d", 1)),
    ]:
        with pytest.raises(ImportError, match=r"ray\[data,serve\]"):
            call()
