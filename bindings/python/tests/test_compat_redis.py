# SPDX-License-Identifier: MIT
"""compat.redis: calls, meaning of timeout, and errors of redis-py's Lock."""

import gc
import inspect
import itertools
import threading
import warnings

import pytest

import lockshm
from conftest import fork, until
from lockshm.compat import redis as ours


@pytest.fixture
def client(locks):
    return ours.Redis(locks)


def test_with(client, locks):
    with client.lock("report", timeout=10) as lock:
        assert lock.locked() and lock.owned() and locks.locked("report")
        assert isinstance(lock.token, int)
        (request,) = locks.holders("report")
        assert 5 < request.expires_in < 11
    assert not lock.locked() and not lock.owned()


def test_timeout_is_the_lease_and_is_not_renewed(client):
    slow = client.lock("report", timeout=0.02)
    assert slow.acquire()
    other = client.lock("report")
    assert other.acquire(blocking_timeout=60)
    assert not slow.owned()
    for call in (lambda: slow.extend(1), slow.reacquire, slow.release):
        with pytest.raises(ours.LockNotOwnedError, match="'report'"):
            call()
    other.release()


def test_without_a_timeout_it_lives_as_long_as_the_process(client, locks, child):
    one = child(
        """
        from lockshm.compat.redis import Redis
        lock = Redis(locks).lock("report")
        lock.acquire()
        say("held")
        time.sleep(3600)
        """
    )
    assert one.line() == "held"
    assert client.lock("report").acquire(blocking=False) is False
    one.kill()
    with client.lock("report", blocking_timeout=60):
        pass


def test_acquire_gives_false(client):
    holder = client.lock("report")
    assert holder.acquire()
    assert client.lock("report", blocking=False).acquire() is False
    assert client.lock("report", blocking_timeout=0.01).acquire() is False
    assert client.lock("report").acquire(blocking_timeout=0.01, sleep=1) is False
    assert client.lock("report").acquire(blocking=False) is False
    with pytest.raises(ours.LockError, match="within the time specified"), client.lock("report", blocking_timeout=0):
        pass
    holder.release()


def test_it_is_not_reentrant(client):
    lock = client.lock("report", blocking_timeout=0.01)
    assert lock.acquire() and lock.acquire() is False and lock.owned()
    lock.release()
    with pytest.raises(ours.LockError, match="cannot release a lock that is not owned, or is unlocked"):
        lock.release()


def test_extend_and_reacquire(client, locks):
    def expires_in():
        return locks.holders("report")[0].expires_in

    with client.lock("report", timeout=10) as lock:
        assert lock.extend(20) is True and expires_in() > 25
        assert lock.extend(5, replace_ttl=True) is True and expires_in() < 6
        assert lock.reacquire() is True and expires_in() > 9
    for call in (lambda: lock.extend(1), lock.reacquire):
        with pytest.raises(ours.LockError, match="not owned, or is unlocked"):
            call()
    with client.lock("report") as lock, pytest.raises(ours.LockError, match="no timeout"):
        lock.extend(1)


@pytest.mark.parametrize("thread_local", [True, False])
def test_another_thread(client, thread_local):
    lock, results = client.lock("report", thread_local=thread_local), []
    assert lock.acquire()

    def work():
        try:
            lock.release()
            results.append("released")
        except ours.LockError as error:
            results.append(type(error).__name__)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == ["LockError" if thread_local else "released"]
    if thread_local:
        lock.release()


def test_raise_on_release_error(client, caplog):
    with client.lock("report", timeout=0.01, raise_on_release_error=False) as lock:
        other = client.lock("report")
        assert other.acquire(blocking_timeout=60)
        until(lambda: not lock.owned())
    assert "not held at its release" in caplog.text
    other.release()


@pytest.mark.parametrize("thread_local", [True, False])
def test_local_token(client, thread_local):
    lock = client.lock("report", thread_local=thread_local)
    assert lock.local.token is None
    with lock:
        assert lock.local.token == str(lock.token).encode()
    assert lock.local.token is None


def test_arguments(client, locks):
    with pytest.raises(TypeError, match="first argument"):
        ours.Lock(object(), "report")
    with ours.Lock(locks, "report"):
        pass
    assert ours.Redis(locks.name).locks.name == locks.name


def test_the_lock_as_an_interval(client, locks):
    """redis-py#440: at most once in so much time; the object that took it is gone at once."""
    taken = [client.lock("api", timeout=3600, blocking=False).acquire() for _ in range(4)]
    assert taken == [True, False, False, False] and locks.holders("api")[0].expires_in > 60
    short = [client.lock("short", timeout=0.02).acquire(blocking_timeout=60) for _ in range(3)]
    assert short == [True] * 3


@pytest.mark.parametrize("end", ["", "sys.exit(0)"])
def test_the_interval_goes_on_when_its_process_has_ended(client, locks, child, end):
    one = child(
        f"""
        from lockshm.compat.redis import Redis
        other = Redis(locks).lock("other")
        assert Redis(locks).lock("api", timeout=3600).acquire() and other.acquire()
        {end}
        """,
        "-Werror",
    )
    status, _, err = one.output()
    assert (status, err) == (0, "")
    assert client.lock("api", blocking=False).acquire() is False and client.lock("api").locked()
    assert locks.holders("api")[0].expires_in > 60 and not locks.holders("other")


def test_expired_locks_do_not_pile_up(client, locks):
    def own():
        return [entry for key, entry in list(ours._entries.items()) if key.segment == locks.name]

    for number in range(1000):
        assert client.lock(f"key {number}", timeout=0.001).acquire()
        if number % 100 == 0:
            until(lambda: not any(entry.is_live() for entry in own()))
    assert len(own()) < 300


def test_a_lock_that_expired_and_was_taken_by_another_goes_without_a_word(client, locks, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client.lock("report", timeout=0.02).acquire()
        with locks.exclusive("report", timeout=None):
            number = itertools.count()
            until(lambda: client.lock(next(number), timeout=3600).acquire() and ours._Key(locks.name, b"report") not in ours._entries)
    assert not caplog.records


def test_it_ends_with_its_timeout_as_in_redis(client):
    """Also if no other request came."""
    lock = client.lock("report", timeout=0.02)
    for call in (lock.release, lambda: lock.extend(1), lock.reacquire):
        assert lock.acquire(blocking_timeout=60)
        until(lambda: not lock.locked())
        assert not lock.owned()
        with pytest.raises(ours.LockNotOwnedError, match="its timeout has come"):
            call()


def test_a_token_of_the_caller_and_release_by_another_object(client):
    lock, other = client.lock("report"), client.lock("report", thread_local=False)
    assert lock.acquire(token="mine") and lock.local.token == b"mine" and not other.owned()
    other.local.token = "mine"
    assert other.owned()
    other.release()
    assert not lock.owned() and not lock.locked()
    with pytest.raises(ours.LockNotOwnedError) as refused:
        lock.release()
    assert refused.value.lock_name == "report"


def test_what_no_part_of_the_program_can_release_is_reported(client, locks):
    with pytest.warns(ResourceWarning, match="'report'.*stays held as long as this process lives"):
        client.lock("report").acquire()
        gc.collect()
    assert locks.locked("report")
    lock = client.lock("other")
    with pytest.warns(ResourceWarning, match="'other'"):
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with client.lock("third"):
            pass
        client.lock("fourth", timeout=3600).acquire()
        gc.collect()


def test_a_child_is_told_that_it_is_its_parents(client):
    lock = client.lock("report", timeout=3600)
    with lock:

        def run():
            assert not lock.owned() and lock.locked()
            with pytest.raises(ours.LockNotOwnedError, match="the hold is that of its parent"):
                lock.extend(1)
            with pytest.raises(ours.LockNotOwnedError, match="the hold is that of its parent"):
                lock.release()
            assert not client.lock("report").acquire(blocking=False)

        assert fork(run) == 0 and lock.owned()


def test_lock_class(client):
    class Own(ours.Lock):
        pass

    assert type(client.lock("report", lock_class=Own)) is Own
    assert client.lock("report", 1, 0.2, False, 3, Own, False).blocking_timeout == 3


def test_names_and_errors_of_the_package(client):
    theirs = pytest.importorskip("redis.lock")
    exceptions = pytest.importorskip("redis.exceptions")
    for name in ours.__all__:
        if name.endswith("Error"):
            assert getattr(ours, name) is getattr(exceptions, name)
    assert issubclass(ours.LockNotOwnedError, ours.LockError) and issubclass(ours.LockError, ValueError)
    for name in ("__init__", "acquire", "release", "extend", "reacquire", "locked", "owned"):
        parameters = list(inspect.signature(getattr(theirs.Lock, name)).parameters)
        assert parameters == list(inspect.signature(getattr(ours.Lock, name)).parameters)[: len(parameters)], name
    assert not issubclass(lockshm.Timeout, ours.LockError)
