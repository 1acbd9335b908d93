"""What work takes on this machine: measured, kept, and gone by."""

from __future__ import annotations

import json

import kith
import numpy as np
import pytest


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    file = tmp_path_factory.mktemp("calibration") / "deeper" / "kept.json"
    steps = []
    made = kith.calibrate(threads=1, file=file, progress=lambda done, total: steps.append((done, total)))
    assert steps and steps[-1][0] == steps[-1][1]
    return file, made


def test_what_is_measured(measured):
    _, made = measured
    cpu = kith.devices()[0]
    assert isinstance(made, kith.Calibration)
    assert (made.device, made.model, made.cores, made.threads) == ("cpu", cpu.description, cpu.cores, 1)
    assert made.instruction_set == cpu.instruction_sets.split()[0] and made.bandwidth > 0
    assert all(value > 0 for value in made.nanoseconds.values())


def test_choices_go_by_the_file_that_the_environment_names(measured, tmp_path, monkeypatch):
    file, made = measured
    assert kith.calibrations() == []  # of these tests: off
    monkeypatch.setenv("KITH_CALIBRATION", str(file))
    assert kith.calibrations() == [made]
    assert "calibrated" in kith.choose_index(1_000_000, 3, 1_000_000, 10).reason
    kept = json.loads(file.read_text())
    kept["calibrations"][0]["nanoseconds"]["tree_build"] *= 1e6
    other = tmp_path / "other.json"
    other.write_text(json.dumps(kept))
    assert kith.choose_index(1_000_000, 3, 1_000_000, 10).index == "kd_tree"
    monkeypatch.setenv("KITH_CALIBRATION", str(other))
    assert kith.choose_index(1_000_000, 3, 1_000_000, 10).index == "brute_force"


def test_a_file_that_is_named_must_be_one(tmp_path, monkeypatch):
    file = tmp_path / "kept.json"
    file.write_text("something else")
    monkeypatch.setenv("KITH_CALIBRATION", str(file))
    rows = np.random.default_rng(1).standard_normal((3000, 64), np.float32)
    for call in (kith.calibrations, kith.calibrate, lambda: kith.BruteForce(rows)):
        with pytest.raises(OSError, match="kept.json"):
            call()
    assert file.read_text() == "something else"


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="no file"):
        kith.calibrate()
    with pytest.raises(ValueError, match="5000 threads"):
        kith.calibrate(threads=5000, file=tmp_path / "a.json")
    with pytest.raises(kith.DeviceError, match="cuda:99"):
        kith.calibrate(device="cuda:99", file=tmp_path / "a.json")
    with pytest.raises(ValueError, match="empty"):
        kith.calibrate(file="")
    with pytest.raises(OSError, match="nowhere"):
        kith.calibrate(file="/proc/nowhere/a.json")
    assert list(tmp_path.iterdir()) == []
