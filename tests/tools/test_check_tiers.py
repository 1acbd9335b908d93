"""The checker of the tiers finds what it is for, and passes this tree."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKER = ROOT / "tools" / "check_tiers.py"


def run(root):
    return subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True)


def tree(tmp_path, path, text):
    for folder in ("src/core", "include/kith"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return tmp_path


def test_this_tree_is_in_order():
    result = run(ROOT)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "path, include, complaint",
    [
        ("src/core/a.cpp", "brute_force/b.hpp", "above"),
        ("src/core/a.cpp", "cuda/a.hpp", "above"),
        ("src/core/a.cpp", "io/a.hpp", "above"),
        ("src/io/a.cpp", "cuda/a.hpp", "sideways"),
        ("src/cuda/a.cu", "io/a.hpp", "sideways"),
        ("src/io/a.cpp", "distance/canonical.hpp", "above"),
        ("src/distance/cpu/a.inc", "kd_tree/a.hpp", "above"),
        ("src/kd_tree/a.cpp", "brute_force/a.hpp", "sideways"),
        ("src/brute_force/cpu/a.cpp", "brute_force/cuda/a.hpp", "cuda backend"),
        ("src/brute_force/cuda/a.cu", "brute_force/cpu/a.hpp", "cpu backend"),
        ("src/core/a.hpp", "cli/options.hpp", "shells"),
        ("src/octree/a.cpp", "any_index/a.hpp", "above"),
        ("src/novel/a.cpp", "core/a.hpp", "no tier"),
        ("src/codes/a.cpp", "kith/brute_force.hpp", "above"),
        ("src/codes/codes.hpp", "kith/brute_force.hpp", "above"),
        ("src/core/types.cpp", "kith/brute_force.hpp", "above"),
        ("src/io/arrays.cpp", "kith/point_tree.hpp", "above"),
        ("src/octree/a.cpp", "kith/kd_tree.hpp", "sideways"),
        ("src/brute_force/a.cpp", "kith/support.hpp", "above"),
        ("include/kith/a.hpp", "core/a.hpp", "public headers only"),
    ],
)
def test_a_breach_is_found(tmp_path, path, include, complaint):
    result = run(tree(tmp_path, path, f'// text\n#include "{include}"\n'))
    assert result.returncode == 1
    assert complaint in result.stderr
    assert path in result.stderr


@pytest.mark.parametrize("header", ["cuda_runtime.h", "tbb/tbb.h", "fmt/format.h", "nlohmann/json.hpp"])
def test_dependencies_stay_out_of_public_headers(tmp_path, header):
    result = run(tree(tmp_path, "include/kith/a.hpp", f"#include <{header}>\n"))
    assert result.returncode == 1
    assert "must not show" in result.stderr


@pytest.mark.parametrize(
    "path, include",
    [
        ("src/brute_force/a.cpp", "core/a.hpp"),
        ("src/brute_force/a.cpp", "brute_force/cpu/a.hpp"),
        ("src/brute_force/a.cpp", "brute_force/cuda/a.hpp"),
        ("src/brute_force/cpu/a.cpp", "select_k/cpu/a.hpp"),
        ("src/cuda/a.cu", "core/a.hpp"),
        ("src/io/a.cpp", "core/a.hpp"),
        ("src/distance/a.cpp", "codes/a.hpp"),
        ("src/any_index/a.cpp", "kd_tree/a.hpp"),
        ("src/core/a.cpp", "kith/error.hpp"),
        ("src/core/a.cpp", "third/party.h"),
        ("include/kith/a.hpp", "kith/b.hpp"),
    ],
)
def test_the_way_down_is_free(tmp_path, path, include):
    result = run(tree(tmp_path, path, f'#include "{include}"\n'))
    assert result.returncode == 0, result.stderr
