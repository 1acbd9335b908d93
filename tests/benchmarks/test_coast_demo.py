"""The parts of the coast demo."""

import os
from pathlib import Path

import numpy as np
import pytest
from coast_demo import __main__ as demo
from coast_demo import kith, oracle, picture, places

ROOT = Path(__file__).resolve().parents[2]


def test_iso6709():
    assert places.parse_iso6709("+4230+00131") == pytest.approx((1 + 31 / 60, 42.5))
    assert places.parse_iso6709("-720041-0023206") == pytest.approx((-(2 + 32 / 60 + 6 / 3600), -(72 + 41 / 3600)))
    with pytest.raises(ValueError, match="not a coordinate"):
        places.parse_iso6709("42.5 N")


def test_places(tmp_path):
    (tmp_path / "zones").write_text(
        "# comment\nAR\t-3436-05827\tAmerica/Argentina/Buenos_Aires\tnote\nAE,OM\t+2518+05518\tAsia/Dubai\n"
    )
    (tmp_path / "countries").write_text("# comment\nAR\tArgentina\nAE\tUnited Arab Emirates\n")
    found = places.read_places(tmp_path / "zones", tmp_path / "countries")
    assert [(p.name, p.country) for p in found] == [("Buenos Aires", "Argentina"), ("Dubai", "United Arab Emirates")]


@pytest.mark.parametrize("spacing", [2.0, 5.0])
def test_the_grid_is_even(spacing):
    from benchmarks.datasets.coast import unit_sphere

    grid = places.globe_grid(spacing)
    assert len(grid) == pytest.approx(41253 / spacing**2, rel=0.02)
    points = unit_sphere(grid).astype(np.float64)
    distance = np.degrees(np.arccos(np.clip(np.sort(points @ points.T, axis=1)[:, -2], -1, 1)))
    assert distance.max() < 1.1 * spacing and np.median(distance) > 0.8 * spacing


def test_kilometres():
    assert places.kilometres(0) == 0
    assert places.kilometres(2) == pytest.approx(np.pi * 6371.0088)
    assert places.kilometres(np.sqrt(2)) == pytest.approx(np.pi / 2 * 6371.0088)


def test_coordinates():
    assert places.coordinates(-123.39, -48.88) == "48.88 S 123.39 W"
    assert places.coordinates(5.0, 7.0) == " 7.00 N   5.00 E"


def test_the_oracle_finds_the_lowest_index_of_the_nearest():
    random = np.random.default_rng(5)
    points = random.standard_normal((200_000, 3)).astype(np.float32)
    points[150_000] = points[70_000]  # equal rows: the lower one wins, in whatever block they are
    index, distance = oracle.nearest(points, points[150_000])
    assert (index, distance) == (70_000, 0) and distance.dtype == np.float32
    query = np.float32([0.1, 0.2, 0.3])
    exact = np.sqrt(((points.astype(np.float64) - query) ** 2).sum(1))
    index, distance = oracle.nearest(points, query)
    assert index == exact.argmin() and distance == np.float32(exact.min())


def test_the_oracle_objects():
    points = np.float32([[0, 0, 0], [1, 0, 0]])
    queries = np.float32([[0.9, 0, 0]])
    rows, distances = np.array([1]), np.float32([np.sqrt(np.float64(np.float32(0.9) - 1.0) ** 2)])
    oracle.check(points, queries, rows, distances, [0])
    with pytest.raises(AssertionError, match="query 0"):
        oracle.check(points, queries, np.array([0]), distances, [0])
    with pytest.raises(AssertionError, match="query 0"):
        oracle.check(points, queries, rows, np.nextafter(distances, np.float32(1)), [0])


def test_the_projection_comes_back():
    random = np.random.default_rng(6)
    longitude, latitude = random.uniform(-180, 180, 500), random.uniform(-89.9, 89.9, 500)
    back = picture.unproject(*picture.project(longitude, latitude))
    assert np.allclose((back[0] - longitude + 180) % 360 - 180, 0, atol=1e-6)
    assert np.allclose(back[1], latitude, atol=1e-6)
    assert np.isnan(picture.unproject(5.0, 0.0)[0])


def test_interpolation_is_exact_at_the_grid_and_wraps():
    grid = places.globe_grid(5)
    values = np.cos(np.radians(grid[:, 0])) * np.cos(np.radians(grid[:, 1]))
    found = picture.interpolate(grid, values, 5, np.array([-179.99, 179.99, 30.0]), np.array([2.5, 2.5, 42.0]))
    want = np.cos(np.radians([180, 180, 30])) * np.cos(np.radians([2.5, 2.5, 42]))
    assert np.allclose(found, want, atol=0.01)


def test_the_farthest_places_keep_apart():
    grid = places.globe_grid(5)
    km = np.random.default_rng(7).uniform(0, 2000, len(grid))
    found = demo.far_apart(grid, km, 5, 3000)
    assert found[0] == km.argmax() and list(km[found]) == sorted(km[found], reverse=True)
    from benchmarks.datasets.coast import unit_sphere

    points = unit_sphere(grid).astype(np.float64)
    apart = places.kilometres(np.linalg.norm(points[found][:, None] - points[found], axis=2))
    assert apart[np.triu_indices(5, 1)].min() > 3000
    # Whatever is higher than the last was too near to one before it.
    for higher in np.flatnonzero(km > km[found[-1]]):
        assert (
            higher in found or places.kilometres(np.linalg.norm(points[found] - points[higher], axis=1)).min() <= 3000
        )
    some = np.arange(100)
    assert set(demo.far_apart(grid, km, 3, 500, some)) <= set(some)


def test_the_program_searches_a_tree(tmp_path, capsys):
    program = Path(os.environ.get("KITH", ROOT / "build/bin/kith"))
    random = np.random.default_rng(8)
    points, queries = random.standard_normal((500, 3), np.float32), random.standard_normal((20, 3), np.float32)
    np.save(tmp_path / "points.npy", points)
    runner = kith.Kith(program, tmp_path, 1)
    runner.build(tmp_path / "points.npy", tmp_path / "points.kith")
    rows, distances = runner.nearest(tmp_path / "points.kith", queries, "asked")
    oracle.check(points, queries, rows, distances, range(20))
    assert runner.queries == 20 and runner.search_seconds > 0 and runner.build_seconds > 0
    shown = capsys.readouterr().out
    assert "kith build points.npy --index kd_tree --metric euclidean --threads 1 -o points.kith" in shown
