"""The parts of the scan demo."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scan_demo import oracle, picture

ROOT = Path(__file__).resolve().parents[2]


def plane(random, rows=400):
    """Points of a tilted plane with a little noise, and its normal."""
    normal = np.array([2.0, -1.0, 2.0]) / 3
    along, across = np.array([1.0, 2.0, 0.0]) / np.sqrt(5), None
    across = np.cross(normal, along)
    places = random.uniform(-1, 1, (rows, 2))
    noise = random.normal(0, 1e-4, rows)
    return places[:, :1] * along + places[:, 1:] * across + noise[:, None] * normal, normal


def test_the_oracle_knows_a_plane():
    points, normal = plane(np.random.default_rng(1))
    found, curvature = oracle.normal(points, 7, 20)
    assert oracle.degrees_between([found], [normal])[0] < 1 and 0 < curvature < 1e-4
    assert oracle.degrees_between([[1, 0, 0], [0, 2, 0]], [[-3, 0, 0], [1, 1, 0]]) == pytest.approx([0, 45])


def test_the_program_agrees_with_the_oracle(tmp_path):
    program = Path(os.environ.get("KITH", ROOT / "build/bin/kith")).resolve()
    points, _ = plane(np.random.default_rng(2))
    np.save(tmp_path / "p.npy", points.astype(np.float32))
    line = [program, "normals", "p.npy", "-k", "12", "--viewpoint", "0,0,9", "-o", "n.npy", "--json"]
    done = subprocess.run([str(word) for word in line], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 400
    table = np.load(tmp_path / "n.npy")
    rows = range(0, 400, 40)
    oracle.check(points.astype(np.float32), table[:, :3], table[:, 3], 12, rows)
    assert (table[:, 2] > 0).all()
    turned = table[:, [1, 0, 2]]
    with pytest.raises(AssertionError, match="point 0"):
        oracle.check(points.astype(np.float32), turned, table[:, 3], 12, rows)
    with pytest.raises(AssertionError, match="point 0"):
        oracle.check(points.astype(np.float32), table[:, :3], table[:, 3] + 1e-5, 12, rows)


def test_the_camera_looks_ahead():
    camera = picture.Camera((0, -10, 0), (0, 0, 0), 90, 200, 100)
    column, row, depth = camera.project(np.array([[0.0, 0, 0], [5, 0, 0], [0, 0, 5], [0, -20, 0]]))
    assert (column[:3], row[:3]) == (pytest.approx([100, 125, 100]), pytest.approx([50, 50, 25]))
    assert depth == pytest.approx([10, 10, 10, -10])


def test_the_nearer_point_is_in_front():
    camera = picture.Camera((0, -10, 0), (0, 0, 0), 90, 60, 60)
    points = np.array([[0.0, 5, 0], [0, 0, 0], [0, -20, 0], [3, 0, 0]])  # the third is behind the camera
    shown = picture.visible(camera, points, 0.5)
    assert shown[30, 30] == 1 and shown[30, 39] == 3 and shown[0, 0] == -1
    assert set(np.unique(shown)) <= {-1, 0, 1, 3}
    assert (shown == 1).sum() > (shown == 0).sum()
    back = picture.visible(camera, points[::-1], 0.5)
    assert back[30, 30] == 2


def test_light_depends_on_the_normal():
    up, east, west = np.eye(3)[2], np.eye(3)[0], -np.eye(3)[0]
    colours = picture.shade(np.array([up, east, west, -up]), np.zeros(4), (1, 0, 0.2)).sum(axis=1)
    assert colours[1] > colours[2] and colours[0] > colours[3]
    curved = picture.shade(np.array([up, up]), np.array([0, 0.2]), (1, 0, 0))
    assert curved[0].sum() > curved[1].sum()


def test_the_picture_is_written(tmp_path):
    points, normal = plane(np.random.default_rng(3))
    normals = np.tile(normal, (len(points), 1))
    curvature = np.zeros(len(points))
    curvature[0], normals[0] = np.nan, np.nan
    image = picture.render(points, normals, curvature, (0, -5, 2), (0, 0, 0), 40, 0.1, (0, 0, 1), (80, 60))
    assert image.shape == (60, 80, 3) and image.dtype == np.uint8 and len(np.unique(image.reshape(-1, 3), axis=0)) > 20
    pytest.importorskip("matplotlib")
    picture.write(tmp_path / "x.png", image)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
