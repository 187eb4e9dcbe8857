# SPDX-License-Identifier: MIT
"""Keys across hosts: two segments, two bridges, a real redis-server."""

import asyncio
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import lockshm
import pytest
from conftest import FAR

from lockshm.compat.redis import Redis

HERE = pathlib.Path(__file__).resolve().parent

WORKER = """
import asyncio, pathlib, sys, lockshm
locks, count, log = lockshm.open(sys.argv[1], create=False), pathlib.Path(sys.argv[2], "count"), pathlib.Path(sys.argv[2], "log")
lock = lambda: locks.exclusive(sys.argv[4], global_=sys.argv[4] == "count", timeout=120)
def add(hold):
    n = int(count.read_text())
    with log.open("a") as file:
        print(hold.token, file=file)
    count.write_text(str(n + 1))
def thread():
    for _ in range(25):
        with lock() as hold:
            add(hold)
async def task():
    for _ in range(5):
        async with lock() as hold:
            add(hold)
async def tasks():
    await asyncio.gather(*[task() for _ in range(5)])
thread() if sys.argv[3] == "thread" else asyncio.run(tasks())
"""


@contextlib.contextmanager
def held(locks, key, **options):
    """Held by another thread, so that a wait of this one is no deadlock."""
    with locks.exclusive(key, global_=True, timeout=FAR, **options) as hold:
        yield hold


@pytest.mark.parametrize("key", ["count", "seg:count"])
def test_two_processes_on_each_of_two_hosts_exclude_each_other(hosts, tmp_path, key):
    (tmp_path / "count").write_text("0")
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, locks.name, tmp_path, kind, key])
        for locks in hosts
        for kind in ("thread", "task")
    ]
    assert [worker.wait() for worker in workers] == [0] * 4
    assert (tmp_path / "count").read_text() == "100"
    tokens = [int(line) for line in (tmp_path / "log").read_text().split()]
    assert len(set(tokens)) == 100 and tokens == sorted(tokens)


def test_a_refused_try_names_the_other_host(hosts):
    a, b = hosts
    with held(a, "busy"):
        lock = b.exclusive("busy", global_=True)
        assert lock.acquire(blocking=False) is False
        with pytest.raises(lockshm.Busy, match=f"'busy': not free: another host holds it: {a.name}") as refused:
            b.exclusive("busy", global_=True, timeout=0).acquire()
        assert refused.value.holder is None
        with b.exclusive("busy"):  # without the flag it is a key of host b alone
            pass


def test_a_wait_that_times_out_names_the_other_host(hosts):
    a, b = hosts
    with held(a, "slow"):
        with pytest.raises(lockshm.Timeout, match=f"'slow': not granted in time, other hosts; last: .*{a.name}") as refused:
            b.exclusive("slow", global_=True, timeout=0.5).acquire()
        assert not isinstance(refused.value, lockshm.Busy) and refused.value.waited >= 0.5
    with b.exclusive("slow", global_=True, timeout=FAR):
        pass


def test_a_process_of_the_same_host_is_named_as_ever(hosts):
    a, _ = hosts
    with held(a, "local", tag="mine"), pytest.raises(lockshm.Busy, match=rf"held exclusive by pid {os.getpid()}.*'mine'"):
        a.exclusive("local", global_=True, timeout=0).acquire()


def test_a_waiting_thread_lets_the_others_run(hosts):
    a, b = hosts
    tokens = []

    def wait():
        with b.exclusive("thread", global_=True, timeout=FAR) as hold:
            tokens.append(hold.token)

    with held(a, "thread") as hold:
        waiter = threading.Thread(target=wait)
        waiter.start()
        while not b.holders("thread"):  # this thread runs
            pass
        assert not tokens
        first = hold.token
    waiter.join()
    assert tokens[0] > first


def test_a_child_after_fork_holds_nothing_and_takes_its_own(hosts):
    a, b = hosts
    with held(a, "parent") as hold:
        pid = os.fork()
        if not pid:
            status = 1
            with contextlib.suppress(BaseException):
                assert not hold.held and not b.exclusive("parent", global_=True).acquire(blocking=False)
                with a.exclusive("child", global_=True, timeout=FAR):
                    status = 0
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert hold.held


def test_asyncio(hosts):
    a, b = hosts

    async def main():
        order = []

        async def second():
            async with b.exclusive("async", global_=True, timeout=FAR) as hold:
                order.append(hold.token)

        async with a.exclusive("async", global_=True, timeout=FAR) as hold:
            assert not await b.exclusive("async", global_=True).acquire_async(blocking=False)
            with pytest.raises(lockshm.Busy, match=f"another host holds it: {a.name}"):
                await b.exclusive("async", global_=True, timeout=0).acquire_async()
            gone = asyncio.create_task(second())
            task = asyncio.create_task(second())
            while len(b.holders("async")) < 2:
                await asyncio.sleep(0)
            gone.cancel()
            order.append(hold.token)
        await task
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert len(order) == 2 and order[0] < order[1]

    asyncio.run(main())
    with a.exclusive("async", global_=True, timeout=FAR):  # nothing is left at b
        pass


def test_keys_that_the_segment_makes_global(hosts):
    """Without the flag: a free key is granted after a wait, in threads and tasks, and a try is refused by the other host."""
    a, b = hosts
    with a.exclusive("seg:key", timeout=0), b.exclusive("key", timeout=0):
        assert not b.exclusive("seg:key").acquire(blocking=False)
        with pytest.raises(lockshm.Busy, match=f"another host holds it: {a.name}"):
            b.exclusive("seg:key", timeout=0).acquire()
        with pytest.raises(lockshm.Timeout, match=f"not granted in time, other hosts; last: .*{a.name}"):
            b.exclusive("seg:key", timeout=0.2).acquire()

    async def main():
        async with b.exclusive("other:key", timeout=0):
            assert not await a.exclusive("other:key").acquire_async(blocking=False)

    asyncio.run(main())
    assert a.once("seg:once", 600, lambda: None) and not b.once("seg:once", 600, lambda: None)
    pid = os.fork()
    if not pid:
        status = 1
        with contextlib.suppress(BaseException), b.exclusive("seg:child", timeout=FAR):
            status = 0
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_locks_of_the_drop_in_for_redis_py(hosts):
    a, b = (Redis(locks).lock("seg:redis", timeout=300, blocking_timeout=FAR) for locks in hosts)
    with a:
        assert not b.acquire(blocking=False)
    assert b.acquire() and not a.acquire(blocking=False)
    b.release()


def test_a_hold_that_its_host_has_lost(hosts, redis):
    a, b = hosts
    lost = threading.Event()
    lock = a.exclusive("lost", global_=True, timeout=FAR, on_lost=lambda lock: lost.set())
    lock.acquire()
    assert redis("DEL", "lk:lost") == ":1"
    lost.wait()
    assert not lock.held
    with b.exclusive("lost", global_=True, timeout=FAR):
        for call in (lock.check, lock.release):
            with pytest.raises(lockshm.Lost):
                call()

    async def main():
        lost = asyncio.Event()
        lock = a.exclusive("lost", global_=True, timeout=FAR, on_lost=lambda lock: lost.set())
        await lock.acquire_async()
        redis("DEL", "lk:lost")
        await lost.wait()
        with pytest.raises(lockshm.Lost):
            lock.release()

    asyncio.run(main())


def test_a_killed_holder_of_a_robust_key_is_told_to_the_other_host(hosts):
    a, b = hosts
    options = {"robust": True, "global_": True, "timeout": FAR}
    code = f"with lockshm.open(sys.argv[1], create=False).exclusive('robust', **{options}): print(1, flush=True), time.sleep({FAR})"
    code = f"import lockshm, sys, time\n{code}"
    holder = subprocess.Popen([sys.executable, "-c", code, a.name], stdout=subprocess.PIPE)
    assert holder.stdout.readline()
    holder.kill()
    holder.communicate()
    with b.exclusive("robust", **options) as hold:
        assert hold.damage.status == "OWNER_DIED"
        assert re.fullmatch(rf"{holder.pid}@[0-9a-f]{{16}}", hold.damage.tag) and hold.damage.pid == 0
        hold.acknowledge()
        assert hold.damage is None
    for locks in (a, b):
        with locks.exclusive("robust", **options) as hold:
            assert hold.damage is None


def test_without_a_bridge(bare):
    lock = bare.exclusive("nobody", global_=True, timeout=FAR)
    text = f"'nobody': no bridge to Redis runs: start one with \"lockshm-bridge /{bare.name}\""
    with pytest.raises(lockshm.BridgeFailure) as refused:
        lock.acquire()
    assert str(refused.value) == text and isinstance(refused.value, ConnectionError)

    async def main():
        with pytest.raises(lockshm.BridgeFailure, match="no bridge to Redis runs"):
            await lock.acquire_async()

    asyncio.run(main())
    with pytest.raises(lockshm.BridgeFailure, match="no bridge to Redis runs"):
        lock.acquire(blocking=False)
    with pytest.raises(lockshm.Timeout, match="not granted in time: no bridge to Redis runs"):
        bare.exclusive("nobody", global_=True, redis_policy="wait", timeout=0.2).acquire()
    with bare.exclusive("nobody", global_=True, redis_policy="local-only", timeout=FAR) as alone:
        assert alone.local_only and alone.token == 0
    with bare.exclusive("nobody") as local:
        assert not local.local_only and local.token


def test_the_example_of_the_readme(hosts, bare):
    _, text = re.findall(r"```python\n(.*?)```", (HERE.parent.parent / "README.md").read_text(), re.DOTALL)
    a, b = hosts

    def output(locks):
        program = text.replace('"shop"', f'"{locks.name}"').replace("timeout=5", "timeout=0.3" if locks is b else "timeout=120")
        out = subprocess.run([sys.executable, "-Werror", "-c", program], capture_output=True, text=True, check=False)
        assert out.returncode == 0, out.stderr
        return out.stdout

    assert re.fullmatch(r"token \d+\n", output(a))
    with held(a, "report"):
        last = rf"another host holds it: {a.name} \([0-9a-f]{{16}}\)"
        assert re.fullmatch(rf"'report': not granted in time, other hosts; last: {last}\n", output(b))
    assert output(bare) == f"'report': no bridge to Redis runs: start one with \"lockshm-bridge /{bare.name}\"\n"


def test_keys_have_up_to_640_bytes(hosts):
    a, _ = hosts
    with a.exclusive("k" * 640, global_=True, timeout=FAR):
        pass
    with pytest.raises(lockshm.Invalid, match="has 641 bytes, a global one at most 640"):
        a.exclusive("k" * 641, global_=True, timeout=FAR).acquire()


def test_recipes(hosts):
    a, b = hosts
    assert a.once("once", 600, lambda: "ran", global_=True).ran
    assert not b.once("once", 600, lambda: "again", global_=True)
    found = []

    def fill():
        found.append(1)
        return 1

    for locks in hosts:
        assert locks.single_flight("flight", lambda: found[0] if found else None, fill, global_=True, timeout=FAR) == 1
    assert found == [1]
    taken, stop = threading.Event(), threading.Event()
    seat = a.seat("seat", lambda: (taken.set(), stop.wait()), global_=True)
    taken.wait()
    assert not b.exclusive("seat", global_=True).acquire(blocking=False)
    stop.set()
    seat.join()
    with b.exclusive("seat", global_=True, timeout=FAR):
        pass


def test_the_options_of_a_segment():
    options = {
        "redis": [os.environ["REDIS_URI"], "redis://192.0.2.1", "redis://192.0.2.2"],
        "redis_ttl": 5.0,
        "redis_policy": "wait",
        "redis_prefix": "mine:",
        "redis_quorum": True,
        "redis_gap": 0.05,
        "redis_retain": 0.5,
        "host_leases": 8,
        "global_keys": "*",
    }
    with lockshm.testing.private(**options) as locks:
        out = subprocess.run(
            [os.environ["LOCKCTL"], "stat", "--json", locks.name], stdout=subprocess.PIPE, check=True, text=True
        )
    stat = json.loads(out.stdout)
    shown = {word: stat[f"bridge_{word}"] for word in ("servers", "prefix", "policy", "ttl_ms", "retain_ms", "gap_ms", "host_leases")}
    assert shown == {
        "servers": ",".join(options["redis"]),
        "prefix": "mine:",
        "policy": "wait",
        "ttl_ms": 5000,
        "retain_ms": 500,
        "gap_ms": 50,
        "host_leases": 8,
    }
    assert stat["redis_quorum"] and stat["global_keys"] == "*"


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"redis": "http://x"}, lockshm.Invalid, "must begin with redis://"),
        ({"redis": {}}, TypeError, "redis must be str, int, float, bool, or a list of str"),
        ({"redis": "redis://x", "redis_ttl": 0.5}, lockshm.Invalid, "redis_ttl is 500ms, must be 1s..1h"),
        ({"redis": "redis://x", "redis_ttl": "5"}, lockshm.Invalid, "redis_ttl is '5', must be 1s..1h"),
        ({"redis": "redis://x", "redis_policy": "maybe"}, lockshm.Invalid, "redis_policy is 'maybe', must be fail or wait"),
        ({"redis": "redis://x", "redis_policy": "local-only"}, lockshm.Invalid, "must be fail or wait"),
        ({"redis": "redis://x", "host_leases": -1}, lockshm.Invalid, "host_leases is '-1', must be 1..4096"),
        ({"redis": "redis://x", "redis_wait": 99}, lockshm.Invalid, r"redis_wait is 99, must be 0..15"),
        ({"permissions": 0o777}, lockshm.Invalid, "permissions is 0777, must be 0600 plus bits of 0066"),
        ({"redis_quorums": True}, lockshm.Invalid, "a segment has no option 'redis_quorums'"),
        ({"global_keys": "*"}, lockshm.Invalid, "global_keys"),
    ],
)
def test_wrong_options_of_a_segment(options, kind, words):
    with pytest.raises(kind, match=words):
        lockshm.open(f"hosts-wrong-{os.getpid()}", **options)


def test_wrong_options_of_a_request(hosts, locks):
    a, _ = hosts
    with pytest.raises(ValueError, match="redis_policy is 'no', must be \"fail\", \"wait\" or \"local-only\""):
        a.exclusive("k", global_=True, redis_policy="no")
    with pytest.raises(lockshm.Invalid, match="in a segment without Redis"):
        locks.exclusive("k", global_=True).acquire()
