"""Fixtures of the Python tests: every element type, every metric."""

from __future__ import annotations

import pytest

from .oracle import DTYPES, METRICS


@pytest.fixture(params=list(DTYPES))
def dtype(request):
    return request.param


@pytest.fixture(params=METRICS)
def metric(request):
    return request.param
