# SPDX-License-Identifier: MIT
"""Several keys: all or none, no deadlock, death, loss, lease and renewal, fork, signals."""

import os
import signal
import threading

import pytest

import lockshm
from conftest import until, waiters


def test_all_of_them_and_none_after(locks):
    many = locks.many(["a", b"b", "c"])
    for _ in range(2):
        assert not many.held
        with many as held:
            assert held is many and many.held and all(locks.locked(key) for key in "abc")
            assert all(token > 0 for token in many.tokens) and 29 < many.check() < 31
        assert many.tokens == (0, 0, 0) and not any(locks.locked(key) for key in "abc")
    assert many.acquire() and many.release()
    with pytest.raises(lockshm.NotOwned):
        many.release()
    with pytest.raises(lockshm.NotOwned):
        many.check()


def test_readers(locks):
    with locks.many(["a", "b"], shared=True), locks.many(["b", "c"], shared=True, timeout=0), locks.shared("b", timeout=0):
        with pytest.raises(lockshm.Busy):
            locks.many(["c", "b"], timeout=0).acquire()


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_none_where_one_is_missing(locks, timeout):
    with locks.exclusive("b", tag="other"):
        with pytest.raises(lockshm.Busy if not timeout else lockshm.Timeout, match=r"'a, b'.*'other'"):
            locks.many(["a", "b"], timeout=timeout).acquire()
        assert not locks.locked("a")


def test_crosswise(locks):
    """A counter that is read and written apart, under two keys in either order."""
    counter = [0]

    def count(keys):
        for _ in range(200):
            with locks.many(keys, timeout=None):
                n = counter[0]
                counter[0] = n + 1

    threads = [threading.Thread(target=count, args=(keys,)) for keys in (["a", "b"], ["b", "a"]) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter == [800]


def test_a_killed_holder(locks, child):
    one = child(
        """
        many = locks.many(["a", "b"])
        many.acquire()
        say("held")
        signal.pause()
        """
    )
    assert one.line() == "held"
    done = []
    thread = threading.Thread(target=lambda: done.append(locks.many(["b", "a"], timeout=60).acquire()))
    thread.start()
    until(lambda: len(waiters(locks, "a") + waiters(locks, "b")) == 1)
    one.kill()
    thread.join()
    assert done == [True]


def test_one_of_them_is_lost(locks):
    many = locks.many(["a", "b"])
    many.acquire()
    os.spawnlp(os.P_WAIT, os.environ.get("LOCKCTL", "lockctl"), "lockctl", "release", locks.name, "b", "--token", str(many.tokens[1]))
    assert not many.held
    with pytest.raises(lockshm.Lost):
        many.check()
    with pytest.raises(lockshm.Lost):
        many.release()
    with locks.many(["a", "b"], timeout=0):  # the other one was released
        pass


def test_a_lease_that_is_renewed_and_one_that_is_not(locks):
    with locks.many(["a", "b"], lease=0.3), locks.many(["c", "d"], lease=0.3, renew=False) as ends:
        with locks.exclusive("d", timeout=60):
            assert not ends.held
        with pytest.raises(lockshm.Busy):
            locks.exclusive("a", timeout=0).acquire()
        with pytest.raises(lockshm.Lost):
            ends.release()
        ends.acquire()


def test_dropped(locks):
    many = locks.many(["a", "b"])
    many.acquire()
    del many
    assert not locks.locked("a") and not locks.locked("b")


def test_a_signal_ends_the_wait(locks):
    class Ended(Exception):
        pass

    def end(*_):
        raise Ended

    before = signal.signal(signal.SIGUSR1, end)
    main = threading.get_ident()
    try:
        with locks.exclusive("b"):
            killer = threading.Thread(
                target=lambda: (until(lambda: len(waiters(locks, "b")) == 1), signal.pthread_kill(main, signal.SIGUSR1))
            )
            killer.start()
            with pytest.raises(Ended):
                locks.many(["a", "b"], timeout=None).acquire()
            killer.join()
            assert not locks.locked("a") and not waiters(locks, "b")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_child_holds_nothing(locks):
    with locks.many(["a", "b"]) as many:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with pytest.raises(lockshm.NotOwned):
                    many.release()
                with pytest.raises(lockshm.Busy):
                    locks.many(["a", "b"], timeout=0).acquire()
                with locks.many(["c", "d"], timeout=0):
                    status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert many.held


@pytest.mark.parametrize("keys", [[], "ab", b"ab", ["a", "a"], ["a", b"a"], [f"{n}" for n in range(65)], ["a", ""]])
def test_wrong_keys(locks, keys):
    with pytest.raises(ValueError):
        locks.many(keys).acquire()
    assert not locks.locked("a")


def test_other_wrong_arguments(locks):
    with pytest.raises(TypeError):
        locks.many(["a", 5]).acquire()
    many = locks.many(["a", "b"])
    with many, pytest.raises(RuntimeError):
        many.acquire()
