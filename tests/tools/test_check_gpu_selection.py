"""tools/check_gpu_selection.py finds tests that need a GPU and that no script would run on one."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_gpu_selection", ROOT / "tools" / "check_gpu_selection.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

SCRIPT = 'run "$@" bin/unit_a --gtest_brief=1 --gtest_filter="${UNIT:-*Cuda*:*_cuda_*-*Slow*}"\n'
BUNDLE = "gpu_tests=(tests/cli/test_a.py tests/python/test_gpu.py)\n"


def results(folder, program, name, reason="no usable CUDA device here"):
    suite, test = name.split(".")
    (folder / f"{program}.xml").write_text(
        f'<testsuites><testsuite><testcase classname="{suite}" name="{test}"><skipped message="x: {reason}"/>'
        "</testcase></testsuite></testsuites>"
    )


@pytest.mark.parametrize("name", ["CudaTrees.Find", "Cases/MyCuda.Find/3", "Trees.Find/kd_cuda_f32"])
def test_selected(tmp_path, name):
    results(tmp_path, "unit_a", name)
    assert not list(tool.check(tmp_path, SCRIPT, BUNDLE))


@pytest.mark.parametrize("name", ["TreesOnAGpu.Find", "CudaSlow.Find"])
def test_lost(tmp_path, name):
    results(tmp_path, "unit_a", name)
    assert list(tool.check(tmp_path, SCRIPT, BUNDLE)) == [f"unit_a {name}"]


def test_a_program_that_is_not_run(tmp_path):
    results(tmp_path, "unit_b", "CudaTrees.Find")
    assert list(tool.check(tmp_path, SCRIPT, BUNDLE)) == ["unit_b CudaTrees.Find"]


def test_other_reasons(tmp_path):
    results(tmp_path, "unit_a", "Trees.Find", "not for this dimension")
    assert not list(tool.check(tmp_path, SCRIPT, BUNDLE))


@pytest.mark.parametrize(
    "name, lost",
    [
        ("tests.cli.test_a.test_on_a_gpu", False),
        ("tests.python.test_gpu.test_arrays", False),
        ("tests.cli.test_a.test_device", True),
        ("tests.cli.test_b.test_on_a_gpu", True),
    ],
)
def test_python_tests(tmp_path, name, lost):
    results(tmp_path, "pytest", "x.y", "needs a GPU")
    text = (tmp_path / "pytest.xml").read_text()
    module, _, test = name.rpartition(".")
    (tmp_path / "pytest.xml").write_text(text.replace('"x"', f'"{module}"').replace('"y"', f'"{test}"'))
    assert bool(list(tool.check(tmp_path, SCRIPT, BUNDLE))) == lost


def test_the_script_is_understood():
    assert tool.python_test_files(tool.BUNDLE.read_text()) == [
        "tests.cli.test_devices",
        "tests.cli.test_knn",
        "tests.cli.test_ladder",
        "tests.cli.test_tiles_gpu",
        "tests.cli.test_trees",
        "tests.python.test_gpu",
    ]
    assert {"conformance", "unit_brute_force", "unit_point_tree"} <= set(tool.filters(tool.SCRIPT.read_text()))
