"""The router with shards that are functions: deadlines, hedging, replicas that are lost, without a cluster."""

import asyncio
import time

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed: make test-ray")

import kith
from kith.ray import Limits
from kith.ray._requests import Ask, BadRequest
from kith.ray._router import Router, _Version


class Handle:
    """Answers after some seconds; ``script`` has one entry a call: seconds, or an exception to raise."""

    def __init__(self, answer, *script):
        self.answer, self.script, self.calls = answer, list(script), 0

    @property
    def search(self):
        return self

    def remote(self, *_):
        step = self.script[min(self.calls, len(self.script) - 1)]
        self.calls += 1

        async def run():
            if isinstance(step, Exception):
                raise step
            await asyncio.sleep(step)
            return self.answer

        return run()


def answer(distance, row, certified=True):
    return np.array([[distance]], np.float32), np.array([[row]]), certified, 1.0 if certified else 0.9


def asked(*handles, hedge_after=None, deadline=5.0, **how):
    router = Router("kith", 5.0, hedge_after, Limits(), None, False)
    router._version = _Version("1-x", handles, 10, 3, np.dtype(np.float32), "sqeuclidean", "brute_force")
    ask = Ask(np.zeros((1, 3), np.float32), 2, {}, deadline, **how)
    start = time.monotonic()
    found = asyncio.run(router.answer(ask))
    return found, time.monotonic() - start, router._metrics.text().decode()


def test_all_answer():
    found, _, text = asked(Handle(answer(2, 1), 0), Handle(answer(1, 7), 0))
    assert found.indices.tolist() == [[7, 1]] and found.certified and not found.partial
    assert "kith_partial_answers_total 0.0" in text and "kith_queries_total 1.0" in text
    found, *_ = asked(Handle(answer(2, 1), 0), Handle(answer(1, 7, False), 0))
    assert not found.certified and found.recall == 0.9


def test_one_is_late():
    found, took, text = asked(Handle(answer(2, 1), 0), Handle(answer(1, 7), 60), deadline=0.3)
    assert found.partial and found.missing_shards == (1,) and not found.certified and found.recall == 0
    assert found.indices.tolist() == [[1]] and 0.3 <= took < 3
    assert "kith_partial_answers_total 1.0" in text and 'kith_shard_late_total{shard="1"} 1.0' in text
    with pytest.raises(BadRequest) as error:
        asked(Handle(answer(2, 1), 0), Handle(answer(1, 7), 60), deadline=0.3, partial=False)
    assert error.value.status == 504


def test_all_are_late():
    found, *_ = asked(Handle(answer(2, 1), 60), deadline=0.2)
    assert found.partial and found.indices.tolist() == [[-1, -1]] and np.isinf(found.distances).all()


def test_a_lost_replica_is_asked_again():
    handle = Handle(answer(1, 7), ConnectionError("gone"), ConnectionError("gone"), 0)
    found, _, text = asked(handle, Handle(answer(2, 1), 0))
    assert not found.partial and handle.calls == 3 and 'kith_shard_failures_total{shard="0"} 2.0' in text
    found, took, _ = asked(Handle(answer(1, 7), ConnectionError("gone")), Handle(answer(2, 1), 0), deadline=0.3)
    assert found.missing_shards == (0,) and took < 3


def test_what_a_shard_refuses_is_not_asked_again():
    handle = Handle(answer(1, 7), kith.InvalidArgument("list_size is 1"))
    with pytest.raises(BadRequest, match="list_size is 1"):
        asked(handle, Handle(answer(2, 1), 0))
    assert handle.calls == 1


def test_hedging():
    slow = Handle(answer(1, 7), 60, 0)
    found, took, text = asked(slow, Handle(answer(2, 1), 0), hedge_after=0.1)
    assert not found.partial and slow.calls == 2 and took < 3 and "kith_hedged_calls_total 1.0" in text
    # A second call that fails does not undo the first.
    found, *_ = asked(Handle(answer(1, 7), 0.3, ConnectionError("gone")), hedge_after=0.1)
    assert not found.partial
    off = Handle(answer(1, 7), 0.3, 0)
    asked(off)
    assert off.calls == 1
