"""Killed at any moment, or out of disk: the same command again goes on, and gives the same bytes."""

import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from program import KITH, files_of

LIMIT = "24MiB"


@pytest.fixture
def cloud(folder):
    """800,000 points, 19 MB: work of a second or two, more than fits into the limit."""
    points = np.random.default_rng(77).random((800_000, 3)) * [1000, 1000, 3]
    np.save("cloud.npy", points)
    return "cloud.npy"


def contents(name):
    """The bytes of a file, or of all files of a folder, and of answers that begin with the name."""
    found = {}
    for path in sorted(Path(".").glob(f"{name}*")):
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file():
                found[str(file).replace(name, "", 1)] = file.read_bytes()
    return found


def start(folder, arguments, **more):
    return subprocess.Popen(
        [str(KITH), *map(str, arguments), "-q"], cwd=folder, stderr=subprocess.PIPE, text=True, **more
    )


def kill_until_done(folder, arguments, seed, duration):
    """Runs the command again and again, killed after random times. How often it was."""
    chance = random.Random(seed)
    for kills in range(40):
        process = start(folder, arguments)
        # At least one run has the time to come to its end, whatever the machine does beside.
        wait = chance.uniform(0, 0.8 * duration) if kills < 8 else duration * kills
        try:
            _, err = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            continue
        assert process.returncode == 0, err
        return kills
    raise AssertionError("it never came to its end")


COMMANDS = {
    "build": lambda out: ["build", "cloud.npy", "--index", "point_tiles", "--tile-points", 2000, "-o", out],
    "all-knn": lambda out: ["all-knn", "tiles", "-k", 8, "-o", out],
    "normals": lambda out: ["normals", "tiles", "-k", 8, "-o", f"{out}.npy"],
    "radius": lambda out: ["radius", "tiles", "tiles", "-r", 3, "-o", out],
    "through tiles": lambda out: ["all-knn", "cloud.npy", "-k", 8, "--tile-points", 2000, "-o", out],
}


@pytest.mark.parametrize("work", COMMANDS)
def test_kill_and_run_again(kith, cloud, folder, work):
    if work != "build":
        kith(*COMMANDS["build"]("tiles"), "--memory-limit", LIMIT)
    began = time.monotonic()
    kith(*COMMANDS[work]("expected"), "--memory-limit", LIMIT)
    duration = time.monotonic() - began
    before = files_of(folder)
    # The command is started, and is through, more quickly at times: then once more.
    for attempt in range(5):
        seed = f"{work} {attempt}"
        if kill_until_done(folder, [*COMMANDS[work]("found"), "--memory-limit", LIMIT], seed, duration):
            break
    else:
        raise AssertionError("it was never interrupted")
    expected, found = contents("expected"), contents("found")
    assert expected and expected.keys() == found.keys()
    assert expected == found
    # Nothing else is left.
    names = [name.replace("expected", "found") for name in before if name.startswith("expected")]
    assert files_of(folder) == sorted([*before, *names])


def test_another_command_is_refused_by_name(kith, cloud, folder):
    kith(*COMMANDS["build"]("tiles"), "--memory-limit", LIMIT)
    command = [*COMMANDS["all-knn"]("r"), "--memory-limit", LIMIT]
    began = time.monotonic()
    kith(*COMMANDS["all-knn"]("expected"), "--memory-limit", LIMIT)
    duration = time.monotonic() - began
    journal = folder / "r.indices.npy.kith-work" / "journal"
    for share in [0.6, 0.8, 0.4, 0.9, 0.7, 0.5]:
        process = start(folder, command)
        time.sleep(duration * share)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if journal.exists() and len(journal.read_text().splitlines()) > 1:
            break
    else:
        pytest.skip("the machine was too slow or too quick to be interrupted in time")
    outcome = kith("all-knn", "tiles", "-k", 9, "-o", "r", code=2)
    assert "k is 8 there, 9 here" in outcome.err and "r.indices.npy.kith-work" in outcome.err
    outcome = kith("all-knn", "tiles", "-k", 8, "-o", "r", "--memory-limit", LIMIT)
    assert "is there from a run that was interrupted" in outcome.err
    assert "had been done by a run that was interrupted" in outcome.err
    assert contents("r") == contents("expected")


def interrupted(folder, command, journal, seconds=20):
    """Kills the command when its journal has a line after the first."""
    for _ in range(5):
        process = start(folder, command)
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            if journal.exists() and journal.read_bytes().count(b"\n") > 1:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if journal.exists() and journal.read_bytes().count(b"\n") > 1:
            return
    pytest.skip("the machine was too quick to be interrupted in time")


@pytest.mark.parametrize("damage", ["lost indices.7", "lost rows.0", "cut distances.3"])
def test_work_that_was_damaged_is_refused_by_name(kith, cloud, folder, damage):
    kith(*COMMANDS["build"]("tiles"), "--memory-limit", LIMIT)
    command = [*COMMANDS["all-knn"]("r"), "--memory-limit", LIMIT]
    work = folder / "r.indices.npy.kith-work"
    interrupted(folder, command, work / "journal")
    kind, name = damage.split()
    if kind == "lost":
        (work / name).unlink()
    else:
        os.truncate(work / name, 1000)
    for _ in range(2):
        outcome = kith(*command, code=2)
        assert f"r.indices.npy.kith-work/{name}' is damaged" in outcome.err
        assert "remove 'r.indices.npy.kith-work'" in outcome.err
    assert not list(folder.glob("r*.npy"))


def test_a_limit_that_is_too_small_leaves_what_was_done(kith, cloud, folder):
    command = COMMANDS["through tiles"]("r")
    interrupted(folder, [*command, "--memory-limit", LIMIT], folder / "r.indices.npy.kith-work" / "journal")
    before = files_of(folder)
    outcome = kith(*command, "--memory-limit", "100KiB", code=3)
    assert "what is done stays in 'r.indices.npy.kith-work'" in outcome.err
    assert "the tiles stay in 'r.all-knn.kith-tiles'" in outcome.err
    assert files_of(folder) == before
    outcome = kith(*command, "--memory-limit", LIMIT)
    assert "had been done by a run that was interrupted" in outcome.err
    assert files_of(folder) == ["cloud.npy", "r.distances.npy", "r.indices.npy"]


@pytest.mark.parametrize("work, megabytes", [("build", 9), ("all-knn", 20), ("all-knn", 55), ("normals", 20)])
def test_no_space(kith, cloud, folder, work, megabytes):
    """Files may grow only so far: as on a full disk a write fails, in the partition, the search or the answer."""
    if work != "build":
        kith(*COMMANDS["build"]("tiles"), "--memory-limit", LIMIT)
    kith(*COMMANDS[work]("expected"), "--memory-limit", LIMIT)
    before = files_of(folder)
    limit = megabytes << 20

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start(folder, [*COMMANDS[work]("found"), "--memory-limit", LIMIT], preexec_fn=small_files)
    _, err = process.communicate(timeout=120)
    if work == "all-knn" and megabytes == 55:
        assert process.returncode == 0, err  # the largest file has 51 MB: it fits
    else:
        assert process.returncode == 2, err
        assert len(err.strip().splitlines()) == 1 and "File too large" in err
        left = [name for name in files_of(folder) if name not in before]
        assert all(name.endswith(".kith-work") for name in left), left
        assert not left or "run the same again to go on" in err
        kith(*COMMANDS[work]("found"), "--memory-limit", LIMIT)
    assert contents("found") == contents("expected")
    assert not [name for name in files_of(folder) if "kith-work" in name]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_full_disk(kith, cloud, folder):
    """A small file system: no space in the partition, the search, and the order of the input."""
    disk = folder / "disk"
    disk.mkdir()
    for command, size in [("build", "12m"), ("all-knn", "60m"), ("all-knn", "130m")]:
        if command != "build":
            kith(*COMMANDS["build"]("tiles"), "--memory-limit", LIMIT)
        name = f"expected-{command}"
        kith(*COMMANDS[command](name), "--memory-limit", LIMIT)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], capture_output=True).returncode:
            pytest.skip("no tmpfs can be mounted here")
        try:
            arguments = [*COMMANDS[command]("disk/found"), "--memory-limit", LIMIT]
            outcome = kith(*arguments, "-q", code=2)
            assert "No space left on device" in outcome.err and len(outcome.err.strip().splitlines()) == 1
            assert not [name for name in os.listdir(disk) if not name.endswith(".kith-work")]
            subprocess.run(["mount", "-o", "remount,size=400m", disk], check=True)
            kith(*arguments)
            assert contents("disk/found") == contents(name)
        finally:
            subprocess.run(["umount", disk], check=True)


def test_two_commands_with_one_output_name(kith, cloud, folder):
    """Tiles of one command's unfinished work are not another's, which would remove them."""
    knn = [*COMMANDS["through tiles"]("r"), "--memory-limit", LIMIT]
    interrupted(folder, knn, folder / "r.indices.npy.kith-work" / "journal")
    before = files_of(folder)
    assert "r.all-knn.kith-tiles" in before
    kith("normals", "cloud.npy", "-k", 4, "--tile-points", 4000, "-o", "r.npy", "--memory-limit", LIMIT)
    assert files_of(folder) == sorted([*before, "r.npy"])
    outcome = kith(*knn)
    assert "had been done by a run that was interrupted" in outcome.err
    assert files_of(folder) == ["cloud.npy", "r.distances.npy", "r.indices.npy", "r.npy"]


@pytest.mark.parametrize("left", ["nothing", "segments", "a manifest"])
def test_tiles_whose_removal_was_cut_short(kith, cloud, folder, left):
    command = ["normals", "cloud.npy", "-k", 4, "--tile-points", 4000, "-o", "n.npy"]
    kith(*command)
    expected = Path("n.npy").read_bytes()
    beside = folder / "n.npy.normals.kith-tiles"
    kith("build", "cloud.npy", "--index", "point_tiles", "-o", beside)
    for file in list(beside.iterdir()):
        if left == "nothing" or (file.name == "manifest.json") == (left == "segments"):
            file.unlink()
    assert bool(list(beside.iterdir())) == (left != "nothing")
    outcome = kith(*command)
    assert "removed what was left of the tiles in 'n.npy.normals.kith-tiles'" in outcome.err
    assert Path("n.npy").read_bytes() == expected
    assert files_of(folder) == ["cloud.npy", "n.npy"]
    # With something of somebody else's in it the folder stays.
    beside.mkdir()
    (beside / "segment-0.bin").write_bytes(b"x")
    (beside / "letter.txt").write_text("dear")
    outcome = kith(*command, code=2)
    assert "n.npy.normals.kith-tiles' is in the way" in outcome.err and "remove it" in outcome.err
    assert (beside / "letter.txt").exists()


def test_an_answer_behind_a_link(kith, cloud, folder):
    """The link stays one, and all that lies beside an answer lies beside what the link leads to."""
    command = ["normals", "cloud.npy", "-k", 4, "--tile-points", 4000, "-o"]
    kith(*command, "expected.npy")
    (folder / "disk").mkdir()
    (folder / "link.npy").symlink_to("disk/there.npy")
    outcome = kith(*command, "link.npy")
    assert "tiles in disk/there.npy.normals.kith-tiles" in outcome.err
    assert (folder / "link.npy").is_symlink()
    assert (folder / "disk" / "there.npy").read_bytes() == Path("expected.npy").read_bytes()
    assert files_of(folder / "disk") == ["there.npy"]
