"""Fixtures of the Python tests: every element type, every metric."""

from __future__ import annotations

import os

import kith
import pytest

from .oracle import DTYPES, METRICS

# Choices as built in, whatever this machine has been measured to do.
os.environ["KITH_CALIBRATION"] = "off"


def pytest_report_header():
    """Which module is tested: one of kith-cuda13, where that is installed, comes before the package's own."""
    return f"kith's module: {kith._kith.__file__}"


@pytest.fixture(params=list(DTYPES))
def dtype(request):
    return request.param


@pytest.fixture(params=METRICS)
def metric(request):
    return request.param
