"""The parts of the photo demo."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from photo_demo import oracle, picture

from benchmarks.datasets import photo_details

ROOT = Path(__file__).resolve().parents[2]


def test_the_second_of_a_pair_and_every_fourth_ask():
    walls = [Path(f"/usr/share/wallpapers/{name}/contents/images{kind}/9x9.png")
             for name, kind in [("Alps", ""), ("Alps", "_dark"), ("Bay", ""), ("Cup", ""), ("Dune", ""), ("Elm", "")]]  # fmt: skip
    gnome = [Path(f"/usr/share/backgrounds/gnome/{name}.webp") for name in ("grid-d", "grid-l", "lone")]
    assert [photo_details.title(path) for path in walls[1:3] + gnome] == ["Alps", "Bay", "grid", "grid", "lone"]
    assert photo_details.held_out(walls + gnome) == [1, 5, 7]


def test_without_opencv_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    with pytest.raises(ModuleNotFoundError, match="pip install opencv-python-headless"):
        photo_details.python_with_opencv()


def test_extraction_gives_places_and_pictures(tmp_path, monkeypatch):
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed: pip install opencv-python-headless")
    noise = np.random.default_rng(1).integers(0, 255, (40, 60, 3)).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "a.png"), cv2.resize(noise, (900, 600), interpolation=cv2.INTER_NEAREST))
    monkeypatch.setattr(photo_details, "pictures", lambda: [tmp_path / "a.png"])
    photo_details.extract(tmp_path, 0, 1)
    made = np.load(tmp_path / "00.npz")
    assert made["descriptors"].dtype == np.uint8 and made["descriptors"].shape == (len(made["places"]), 128)
    x, y, diameter, degrees = made["places"].T
    assert len(x) > 100 and x.max() < 1280 and y.max() < 854 and diameter.min() > 0 and degrees.min() >= 0
    assert (tmp_path / "00.jpg").read_bytes().startswith(b"\xff\xd8")


def test_the_oracle_counts_in_whole_numbers():
    random = np.random.default_rng(2)
    rows, queries = (
        random.integers(0, 255, (300, 128)).astype(np.uint8),
        random.integers(0, 255, (20, 128)).astype(np.uint8),
    )
    rows[200] = rows[70]
    assert oracle.nearest(rows, rows[70], 2)[0].tolist() == [70, 200]
    squares = ((queries[:, None].astype(np.int64) - rows) ** 2).sum(axis=2)
    exact = np.argsort(squares, axis=1, kind="stable")[:, :5]
    found = exact[:, ::-1]
    distances = np.take_along_axis(squares, found, axis=1).astype(np.float32)
    oracle.check(rows, queries, exact, found, distances, range(20))
    with pytest.raises(AssertionError, match="query 3: kith found rows"):
        oracle.check(rows, queries, found, found, distances, [3])
    with pytest.raises(AssertionError, match="query 4: the distances"):
        oracle.check(rows, queries, exact, found, distances + 1, [4])


def test_a_patch_is_upright_and_of_one_size():
    image = np.zeros((100, 100, 3), np.uint8)
    image[:, 50:] = 200  # bright to the right
    plain = picture.patch(image, 50, 50, 5, 0, side=20)
    assert plain.shape == (20, 20, 3) and plain[:, -1].min() > 0.7 and plain[:, 0].max() == 0
    turned = picture.patch(image, 50, 50, 5, 90, side=20)  # its right is down, so the picture's right is up
    assert turned[0].min() > 0.7 and turned[-1].max() == 0
    wide = picture.patch(image, 40, 50, 1, 0, side=20)
    assert wide.max() == 0 and picture.patch(image, 40, 50, 5, 0, side=20).max() > 0.7
    assert np.isfinite(picture.patch(image, 0, 99, 9, 30)).all()


def test_what_is_shown_is_near_large_and_apart():
    places = np.array([[1, 10, 10, 9, 0], [1, 15, 10, 9, 0], [1, 300, 10, 9, 0], [1, 600, 10, 9, 0], [2, 10, 10, 2, 0],
                       [2, 10, 90, 9, 0]], np.float32)  # fmt: skip
    found = np.full_like(places, 9)
    distances = np.array([5.0, 1.0, 2.0, 3.0, 0.0, 4.0])
    assert picture.choose(places, found, distances, 9, 2, 4.0) == [1, 2, 5]
    assert picture.choose(places, found, distances, 2, 9, 0.0) == [4, 1]
    near = np.array([True] * 4 + [False, True])
    assert picture.most_alike(places, found, near) == (1, 9)


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    random = np.random.default_rng(3)
    images = {n: random.integers(0, 255, (60, 90, 3)).astype(np.uint8) for n in (0, 1)}
    places = np.array([[0, 20, 30, 4, 10], [0, 60, 30, 4, 100]], np.float32)
    found = np.array([[1, 22, 28, 4, 10], [1, 61, 33, 4, 90]], np.float32)
    picture.draw(
        tmp_path / "x.png", images, ["a", "b"], places, found, np.array([4.0, 9.0]), [0, 1], [1], "head", "foot"
    )
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG") and list(tmp_path.iterdir()) == [tmp_path / "x.png"]


def test_the_scene_is_one_of_the_demo():
    environment = {**os.environ, "PYTHON": os.sys.executable}
    done = subprocess.run(
        ["tools/demo.sh", "photo", "--help"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and "--recall" in done.stdout
