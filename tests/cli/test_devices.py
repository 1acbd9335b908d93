"""kith devices: what there is, and what measuring it leaves."""

import json
import os
import signal
import subprocess
import time

import pytest
from program import KITH, files_of


@pytest.fixture
def calibrate(kith, folder):
    def run(*arguments, code=0, **environment):
        return kith(
            "devices", "--calibrate", *arguments, code=code, env={"KITH_CALIBRATION": "kept.json", **environment}
        )

    return run


@pytest.mark.covers("devices", "--calibrate", "--json", "--threads")
def test_a_calibration_is_kept_and_shown(kith, calibrate, folder):
    named = {"KITH_CALIBRATION": "kept.json"}
    cpu = kith("devices", "--json", env=named).json["devices"][0]
    assert cpu["calibrations"] == [] and files_of(folder) == []
    best = cpu["instruction_sets"].split()[0]
    said = calibrate("--json", "--threads", 1).json
    assert files_of(folder) == ["kept.json"] and said["file"] == "kept.json"
    made = said["calibration"]
    assert (made["threads"], made["instruction_set"]) == (1, best)
    assert (made["model"], made["cores"]) == (cpu["description"], cpu["cores"])
    assert made["bandwidth"] > 0 and all(value > 0 for value in made["nanoseconds"].values())
    assert kith("devices", "--json", env=named).json["devices"][0]["calibrations"] == [made]
    # Another instruction set or number of threads is another calibration; the same one again replaces it.
    shown = calibrate(KITH_INSTRUCTION_SET="portable").out
    assert "portable" in shown and "a multiply-add of 8-bit codes" in shown and "ns" in shown
    calibrate("--threads", 3)
    again = calibrate("--threads", 1, "--json").json["calibration"]
    kept = kith("devices", "--json", env=named).json["devices"][0]["calibrations"]
    assert [(c["instruction_set"], c["threads"]) for c in kept] == [("portable", cpu["cores"]), (best, 3), (best, 1)]
    assert kept[-1] == again and again["date"] >= made["date"]
    lines = kith("devices", env=named).out.splitlines()
    assert sum("calibrated 20" in line for line in lines) == len(kept)
    assert "calibrated" not in kith("devices", env={"KITH_CALIBRATION": "off"}).out


@pytest.mark.covers("devices", "--device")
def test_gpu_calibration(kith, calibrate, folder):
    listed = kith("devices", "--json").json["devices"]
    gpu = next((entry["device"] for entry in listed if entry["device"] != "cpu" and entry["usable"]), None)
    if gpu is None:
        pytest.skip("needs a GPU")
    said = calibrate("--json", "--device", gpu).json["calibration"]
    assert (said["device"], said["threads"], said["bandwidth"]) == ("cuda", 0, 0)
    assert said["instruction_set"].startswith("sm_") and all(value > 0 for value in said["nanoseconds"].values())
    listed = kith("devices", "--json", env={"KITH_CALIBRATION": "kept.json"}).json["devices"]
    kept = {entry["device"]: entry["calibrations"] for entry in listed}
    assert kept["cpu"] == [] and kept[gpu] == [said]
    assert "multiprocessors" in calibrate("--device", gpu).out


def test_a_gpu_that_is_not_there_is_not_measured(kith, calibrate, folder):
    assert "cuda:99" in calibrate("--device", "cuda:99", code=4).err
    assert "--calibrate" in kith("devices", "--device", "cuda", code=1).err
    assert files_of(folder) == []


def test_refusals(kith, calibrate, folder):
    assert "off" in calibrate(code=1, KITH_CALIBRATION="off").err
    assert "--threads -1" in calibrate("--threads", -1, code=1).err
    assert "--calibrate" in kith("devices", "--threads", 1, code=1).err
    assert files_of(folder) == []
    (folder / "kept.json").write_text("something else")
    for arguments in (["--calibrate"], []):
        told = kith("devices", *arguments, code=2, env={"KITH_CALIBRATION": "kept.json"}).err
        assert "kept.json" in told and "remove it" in told
    assert (folder / "kept.json").read_text() == "something else"
    assert "nowhere" in calibrate(code=2, KITH_CALIBRATION="/proc/nowhere/kept.json").err
    os.symlink("loop.json", "loop.json")
    for arguments in (["--calibrate"], []):
        assert (
            "cannot read 'loop.json'" in kith("devices", *arguments, code=2, env={"KITH_CALIBRATION": "loop.json"}).err
        )


def test_a_damaged_file_in_the_cache_is_left_aside(kith, folder):
    (folder / "cache/kith").mkdir(parents=True)
    (folder / "cache/kith/calibration.json").write_text("{")
    cache = {"XDG_CACHE_HOME": str(folder / "cache"), "KITH_CALIBRATION": ""}
    seen = kith("devices", env=cache)
    assert "calibration.json" in seen.err and "built-in" in seen.err
    assert "calibration.json" in kith("devices", "--json", env=cache).json["calibration_problem"]
    kith("generate", "gaussian", "--rows", 100, "--dim", 8, "-o", "a.npy", env=cache)
    answer = kith("knn", "a.npy", "a.npy", "-k", 2, "--json", env=cache)
    assert "calibration" not in answer.err and answer.json["indices"][0][0] == 0


def test_searches_go_by_it(kith, calibrate, folder):
    kith("generate", "gaussian", "--rows", 3000, "--dim", 64, "-o", "a.npy")
    calibrate()
    kept = json.loads((folder / "kept.json").read_text())
    answers = {}
    for name in ("fp16", "fp32"):
        changed = json.loads(json.dumps(kept))
        changed["calibrations"][0]["nanoseconds"][name] /= 1e6
        (folder / f"{name}.json").write_text(json.dumps(changed))
        run = kith("knn", "a.npy", "a.npy", "-k", 3, "--json", env={"KITH_CALIBRATION": f"{name}.json"})
        assert run.json["statistics"]["filter"] == name
        answers[name] = run.json["indices"], run.json["distances"]
    assert answers["fp16"] == answers["fp32"]


def test_an_interrupt_leaves_nothing(folder):
    process = subprocess.Popen(
        [str(KITH), "devices", "--calibrate"],
        cwd=folder,
        env={**os.environ, "KITH_CALIBRATION": "kept.json"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(2)  # it takes five and more
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130 and files_of(folder) == []
