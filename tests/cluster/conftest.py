"""A cluster of four nodes on this machine, all of it on the loopback, and rows to search."""

import os

# Before Ray is imported, and for the processes it starts: addresses of the loopback alone, and no report to anybody.
os.environ.update(
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_worker_register_timeout_seconds="180",  # machines that do other things as well
)
os.environ.pop("RAY_ADDRESS", None)

import numpy as np
import pytest

STORE = 80 << 20


@pytest.fixture(scope="session")
def cluster():
    ray = pytest.importorskip("ray", reason="Ray is not installed: make test-ray")
    from ray.cluster_utils import Cluster

    def start():
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
        for _ in range(3):
            made.add_node(num_cpus=1, object_store_memory=STORE)
        return made

    for attempt in range(3):  # a node gives up that has not started in 30 s, on a machine that does much else
        try:
            made = start()
            break
        except Exception:
            if attempt == 2:
                raise
    ray.init(address=made.address)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="session")
def rows():
    """Whole numbers, so that there are ties without number, and a NaN."""
    values = np.random.default_rng(3).integers(0, 9, (12_000, 3)).astype(np.float32)
    values[77, 1] = np.nan
    return values


@pytest.fixture(scope="session")
def vectors():
    return np.random.default_rng(4).standard_normal((8_000, 24), dtype=np.float32)
