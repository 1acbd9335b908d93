"""kith.ray.deploy: the bits of one index, or an answer that says what it misses; whatever is sent, stopped or killed."""

import hashlib
import http.client
import io
import json
import os
import random
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import kith
import kith.ray
import numpy as np
import pytest

PORT = 18_765
TOKEN = "a token of the tests"
SHARDS, REPLICAS = 4, 2
LIMITS = kith.ray.Limits(request_bytes=200_000, queries=50, k=100, deadline=60.0)


@pytest.fixture(scope="module")
def folder(vectors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    kith.Sharded.build(vectors, folder / "s", SHARDS)
    return folder


@pytest.fixture(scope="module")
def service(cluster, folder):
    from ray import serve

    made = kith.ray.deploy(
        folder / "s", replicas=REPLICAS, token=TOKEN, port=PORT, num_cpus=0.01, deadline=40.0, limits=LIMITS
    )
    yield made
    made.delete()
    serve.shutdown()


def call(method, path, body=None, token=TOKEN, timeout=60, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=timeout)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, given)
        response = connection.getresponse()
        return response.status, response.read(), response
    finally:
        connection.close()


def asked(queries, **given):
    status, body, _ = call("POST", "/kith/search", json.dumps({"queries": queries.tolist(), **given}))
    return status, json.loads(body)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def same(found, expected):
    """Of JSON, whose distances are the shortest decimals of float64."""
    near = np.array(found["distances"], np.float64).astype(np.float32)
    return found["indices"] == expected.indices.tolist() and near.tobytes() == expected.distances.tobytes()


def processes(service, shard):
    """Of the replicas of a shard; asked until all have answered."""
    from ray import serve

    handle = serve.get_app_handle(f"kith-v{service.describe()['version'].split('-')[0]}-shard-{shard}")
    found = set()
    end = time.monotonic() + 60
    while len(found) < REPLICAS and time.monotonic() < end:
        found.add(handle.ping.remote().result(timeout_s=30))
    assert len(found) == REPLICAS
    return sorted(found)


def test_the_bits_of_one_index(service, vectors):
    expected = kith.knn(vectors, vectors[:40], 7)
    answer = service.search(vectors[:40], 7)
    assert np.array_equal(answer.indices, expected.indices)
    assert answer.distances.tobytes() == expected.distances.tobytes()
    assert answer.certified and not answer.partial and answer.missing_shards == () and answer.recall == 1
    status, found = asked(vectors[:40], k=7)
    assert status == 200 and same(found, expected) and not found["partial"] and found["certified"]
    status, body, response = call(
        "POST", "/kith/search?k=7", npy(vectors[:40]), Content_Type="application/x-npy", Accept="application/x-npz"
    )
    assert status == 200 and response.getheader("Kith-Partial") == "0"
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        assert np.array_equal(arrays["indices"], expected.indices) and not len(arrays["missing_shards"])
        assert arrays["distances"].tobytes() == expected.distances.tobytes()
    distances, indices = service.search(vectors[3], 1)
    assert (distances.tolist(), indices.tolist()) == ([[0.0]], [[3]])
    with pytest.raises(kith.InvalidArgument, match="k is 101"):
        service.search(vectors[:2], 101)
    with pytest.raises(kith.InvalidArgument, match="recall"):
        service.search(vectors[:2], 1, recall=0.5)


def test_what_it_says_of_itself(service, vectors):
    status, body, _ = call("GET", "/kith/info")
    info = json.loads(body)
    assert status == 200 and info == service.describe()
    assert (info["shards"], info["rows"], info["dim"], info["dtype"]) == (SHARDS, len(vectors), 24, "float32")
    assert service.health() == {"status": "ok", "version": info["version"], "missing_shards": []}
    assert call("GET", "/kith/health", token=None)[0] == 200
    status, body, response = call("GET", "/kith/metrics")
    assert status == 200 and response.getheader("content-type").startswith("text/plain")
    assert b'kith_requests_total{status="200"}' in body and b"kith_search_seconds_bucket" in body


def test_tokens(service):
    for token in [None, "", "x", TOKEN + "x", TOKEN[:-1], "x" * 5000, TOKEN.upper(), "\xe9\xe8"]:
        for method, path in [("POST", "/kith/search"), ("GET", "/kith/info"), ("GET", "/kith/metrics")]:
            status, body, response = call(method, path, b"{}" if method == "POST" else None, token=token)
            assert (status, response.getheader("www-authenticate")) == (401, "Bearer"), token
            assert TOKEN.encode() not in body
    assert call("GET", "/kith/info", token=None, Authorization=f"Basic {TOKEN}")[0] == 401


def test_limits_and_paths(service, vectors):
    assert call("POST", "/kith/search", b" " * 200_001)[0] == 413
    assert call("POST", "/kith/search", iter([b" " * 50_000] * 5))[0] == 413  # in chunks, which say no length
    body = json.dumps({"queries": [[0.0] * 24] * 51})
    assert call("POST", "/kith/search", body)[0] == 413
    assert asked(vectors[:1], k=101)[0] == 400 and asked(vectors[:1], deadline=61)[0] == 400
    assert asked(vectors[:1, :5])[0] == 400
    assert call("GET", "/kith/search")[0] == 405
    assert call("POST", "/kith/search", b"{}", Content_Type="application/python-pickle")[0] == 415
    for path in ["/kith/", "/kith/x", "/kith/../info", "/kith/..%2f..%2fetc%2fpasswd", "/kith/info/x", "/kith//etc/passwd",
                 "/kith/%2e%2e/%2e%2e/etc/passwd", "/kith/search/../../../s/manifest.json"]:  # fmt: skip
        status, body, _ = call("GET", path)
        assert status in (404, 405) and b"root:" not in body and b"xxh3" not in body


def test_a_thousand_malformed_requests(service, vectors):
    """Nothing of them is answered, nothing breaks, and the service answers as before."""
    chance = random.Random(11)
    good = [(json.dumps({"queries": vectors[:3].tolist(), "k": 3}).encode(), "application/json"),
            (npy(vectors[:3]), "application/x-npy")]  # fmt: skip
    statuses = {}
    for number in range(1000):
        body, kind = good[number % 2]
        body = bytearray(body)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(max(1, len(body) // (1 if number % 4 else 20)))
            what = chance.randrange(3)
            if what == 0 and body:
                body[at] ^= 1 << chance.randrange(8)
            elif what == 1:
                del body[at : at + chance.randint(1, 30)]
            else:
                body[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 9)))
        place = "/kith/search" + chance.choice(
            ["", "?k=3", "?k=", "?k=-1", "?k=1e9", "?x=1", "?k=%00", "?deadline=nan", "?k[]=1"]
        )
        if number % 10 == 9:  # what is no HTTP, or only half of it
            with socket.create_connection(("127.0.0.1", PORT), timeout=10) as raw:
                head = f"POST {place} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: "
                lines = [head + "-5\r\n\r\n", head + "9" * 30 + "\r\n\r\n", head + "1000\r\n\r\nabc", "\x00\xff\r\n\r\n",
                         head + "5\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"]  # fmt: skip
                raw.sendall(lines[number // 10 % len(lines)].encode("latin-1"))
                raw.shutdown(socket.SHUT_WR)
                raw.settimeout(10)
                try:
                    answer = raw.recv(64)
                except OSError:
                    answer = b""
            status = int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0
            assert status not in (200, 500), (number, answer)
        else:
            status, answer, _ = call("POST", place, bytes(body), Content_Type=kind)
            assert status in (200, 400, 404, 413, 415), (number, status, answer)
            if status == 200:  # a number that is another one now
                assert json.loads(answer)["version"] == service.version
        statuses[status] = statuses.get(status, 0) + 1
    print(f"\n1000 malformed requests: {dict(sorted(statuses.items()))}")
    assert statuses.get(400, 0) > 500
    assert same(asked(vectors[:5], k=3)[1], kith.knn(vectors, vectors[:5], 3))


def test_a_slow_shard_gives_a_flagged_answer_in_time(service, vectors):
    """Both replicas of a shard are stopped; the others' answer comes by the deadline, and says that it is not all."""
    rest = np.concatenate([vectors[:4000], vectors[6000:]])
    expected = kith.knn(rest, vectors[:9], 5)
    numbers = np.where(expected.indices < 4000, expected.indices, expected.indices + 2000)
    stopped = processes(service, 2)
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        start = time.monotonic()
        status, found = asked(vectors[:9], k=5, deadline=1.0)
        took = time.monotonic() - start
        assert status == 200 and found["partial"] and found["missing_shards"] == [2] and not found["certified"]
        assert found["recall"] == 0 and found["indices"] == numbers.tolist()
        print(f"\nflagged answer after {took:.2f} s of a deadline of 1 s")
        assert took < 1 + 5  # of a machine that does other things as well
        assert asked(vectors[:9], k=5, deadline=0.5, partial=False)[0] == 504
        with pytest.raises(Exception, match="did not answer in time"):
            service.search(vectors[:9], 5, deadline=0.5, partial=False)
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    end = time.monotonic() + 60
    while service.health()["status"] != "ok" and time.monotonic() < end:
        time.sleep(0.5)
    assert same(asked(vectors[:9], k=5)[1], kith.knn(vectors, vectors[:9], 5))


def load(vectors, seconds, expected, versions):
    """Requests for some seconds by three clients: (statuses, wrong answers, partial ones, the longest)."""
    statuses, wrong, partial, longest = [], 0, 0, 0.0
    end = time.monotonic() + seconds
    lock = threading.Lock()

    def client(number):
        nonlocal wrong, partial, longest
        at = number
        while time.monotonic() < end and len(statuses) < 3000:
            first = at % 30
            start = time.monotonic()
            status, found = asked(vectors[first : first + 5], k=6)
            took = time.monotonic() - start
            with lock:
                statuses.append(status)
                longest = max(longest, took)
                if status == 200:
                    versions.add(found["version"])
                    partial += found["partial"]
                    its = expected[found["version"].split("-")[1]]
                    mine = type(its)(its.distances[first : first + 5], its.indices[first : first + 5])
                    wrong += not found["partial"] and not same(found, mine)
            at += 7

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(client, number) for number in range(3)]:
            done.result()
    return statuses, wrong, partial, longest


def digest(folder):
    return hashlib.blake2b((folder / "manifest.json").read_bytes(), digest_size=16).hexdigest()[:12]


def test_a_replica_dies_under_load(service, folder, vectors):
    """No answer is wrong; what failed is counted, and how long it took until there were as many replicas again."""
    from ray import serve

    expected = {digest(folder / "s"): kith.knn(vectors, vectors[:35], 6)}
    name = next(name for name in serve.status().applications if name.endswith("shard-1"))
    victim = processes(service, 1)[0]
    took = []

    def kill():
        time.sleep(3)
        os.kill(victim, signal.SIGKILL)
        start = time.monotonic()
        while time.monotonic() - start < 100:
            time.sleep(0.25)
            (deployment,) = serve.status().applications[name].deployments.values()
            if deployment.replica_states.get("RUNNING") == REPLICAS and victim not in processes(service, 1):
                took.append(time.monotonic() - start)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    statuses, wrong, partial, longest = load(vectors, 25, expected, set())
    killer.join()
    failed = [status for status in statuses if status != 200]
    print(f"\nreplica killed: {len(statuses)} requests, {len(failed)} failed, {partial} partial, {wrong} wrong, longest "
          f"{longest:.2f} s, two replicas again after {took[0]:.1f} s")  # fmt: skip
    assert wrong == 0 and not failed and partial == 0 and took


def test_versions_are_swapped_without_a_pause(service, folder, vectors):
    """Under load: every answer is of one version, and none is refused."""
    other = np.ascontiguousarray(vectors[::-1])
    kith.Sharded.build(other, folder / "other", SHARDS)
    expected = {
        digest(folder / "s"): kith.knn(vectors, vectors[:35], 6),
        digest(folder / "other"): kith.knn(other, vectors[:35], 6),
    }
    made, versions = [], set()
    swap = threading.Thread(target=lambda: made.append(service.swap(folder / "other")))
    swap.start()
    total = refused = wrong = 0
    while swap.is_alive():
        statuses, its, partial, _ = load(vectors, 4, expected, versions)
        total += len(statuses)
        wrong += its
        refused += sum(status != 200 for status in statuses) + partial
    swap.join()
    assert made, "the swap failed"
    load(vectors, 1, expected, versions)
    print(
        f"\nversions swapped: {total} requests, {refused} failed or partial, {wrong} wrong, versions {sorted(versions)}"
    )
    assert wrong == 0 and refused == 0 and len(versions) == 2
    assert service.describe()["version"] == made[0].version
    from ray import serve

    assert [name for name in serve.status().applications if "-v1-" in name] == []


def listening():
    """Addresses beyond the loopback that processes of Ray listen at."""
    sockets = {}
    for name, width in (("tcp", 8), ("tcp6", 32)):
        with open(f"/proc/net/{name}") as table:
            for line in table.readlines()[1:]:
                fields = line.split()
                address = fields[1].split(":")[0]
                if fields[3] == "0A" and len(address) == width:
                    sockets[fields[9]] = address
    local = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline") as file:
                command = file.read()
            handles = [os.readlink(f"/proc/{process}/fd/{handle}") for handle in os.listdir(f"/proc/{process}/fd")]
        except OSError:
            continue
        for handle in handles:
            address = sockets.get(handle.removeprefix("socket:[").rstrip("]"))
            if address is not None and ("ray" in command or int(process) == os.getpid()):
                found.append((command[:40], address in local))
    return found


def test_nothing_listens_beyond_the_loopback(service):
    found = listening()
    assert any("ServeReplica" in command for command, _ in found)
    assert [command for command, local in found if not local] == []


def test_arguments(service, folder):
    def refused(match, **how):
        with pytest.raises(kith.InvalidArgument, match=match):
            kith.ray.deploy(folder / "s", **{"port": PORT, "name": "other", **how})

    refused("name is", name="../x")
    refused("replicas is 0", replicas=0)
    refused("routers is 0", routers=0)
    refused("deadline is 0", deadline=0)
    refused("deadline is 31", deadline=31)
    refused("hedge_after is 2", hedge_after=2)
    refused("16 or more", token="short")
    refused("takes one or more", device="cuda")
    refused("listens at 127.0.0.1", host="127.0.0.2")
    refused("listens at 127.0.0.1", port=PORT + 1)
    with pytest.raises(kith.IoError):
        kith.ray.deploy(folder / "nothing", port=PORT)
