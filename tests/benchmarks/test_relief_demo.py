"""The relief demo, in small."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from relief_demo import picture

ROOT = Path(__file__).resolve().parents[2]


def test_light_falls_on_what_faces_the_sun():
    x, y = np.meshgrid(np.arange(40.0), np.arange(40.0))
    points = np.column_stack([x.ravel(), y.ravel(), 0 * x.ravel()])
    west = x.ravel() < 20
    # The one half faces west, its normals turned down; the other east.
    normals = np.where(west[:, None], [[0.6, 0, -0.8, 0.1]], [[0.6, 0, 0.8, 0.1]])
    elevation, light = picture.grid(points, normals, 8, (-1, 0, 1))
    assert (elevation == 0).all()
    assert light[:, :4] == pytest.approx(1.4 / np.sqrt(2)) and light[:, 4:] == pytest.approx(0.2 / np.sqrt(2))
    pixels = picture.colours(elevation, light)
    assert pixels.shape == (8, 8, 3) and pixels[0, 0].sum() > pixels[0, 7].sum()


def test_the_scene(tmp_path):
    pytest.importorskip("PIL")
    program = Path(os.environ.get("KITH", ROOT / "build/bin/kith")).resolve()
    line = [sys.executable, "-m", "tools.relief_demo", "--kith", program, "--out", tmp_path, "--rows", 60_000]
    done = subprocess.run([*map(str, line), "--limit", "16"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "normals, chosen at random, agree" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["terrain-relief.png"]
