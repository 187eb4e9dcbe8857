# SPDX-License-Identifier: MIT
"""compat.redis: calls, meaning of timeout, and errors of redis-py's Lock."""

import inspect
import threading

import pytest

import lockshm
from conftest import until
from lockshm.compat import redis as ours


@pytest.fixture
def client(locks):
    return ours.Redis(locks)


def test_with(client, locks):
    with client.lock("report", timeout=10) as lock:
        assert lock.locked() and lock.owned() and locks.locked("report")
        assert isinstance(lock.token, int)
        (request,) = locks.requests("report")
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
    with pytest.raises(ours.LockError, match="cannot release a lock that is not locked"):
        lock.release()


def test_extend_and_reacquire(client, locks):
    def expires_in():
        return locks.requests("report")[0].expires_in

    with client.lock("report", timeout=10) as lock:
        assert lock.extend(20) is True and expires_in() > 25
        assert lock.extend(5, replace_ttl=True) is True and expires_in() < 6
        assert lock.reacquire() is True and expires_in() > 9
    for call in (lambda: lock.extend(1), lock.reacquire):
        with pytest.raises(ours.LockError, match="not locked"):
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
    with pytest.raises(ours.LockError, match="token"):
        client.lock("report").acquire(token="mine")
    with ours.Lock(locks, "report"):
        pass
    assert ours.Redis(locks.name).locks.name == locks.name


def test_names_and_errors_of_the_package(client):
    theirs = pytest.importorskip("redis.lock")
    exceptions = pytest.importorskip("redis.exceptions")
    assert issubclass(ours.LockError, exceptions.LockError)
    assert issubclass(ours.LockNotOwnedError, exceptions.LockNotOwnedError)
    assert issubclass(ours.LockNotOwnedError, ours.LockError) and issubclass(ours.LockError, ValueError)
    for name in ("__init__", "acquire", "release", "extend", "reacquire", "locked", "owned"):
        parameters = list(inspect.signature(getattr(theirs.Lock, name)).parameters)
        assert parameters == list(inspect.signature(getattr(ours.Lock, name)).parameters)[: len(parameters)], name
    assert not issubclass(lockshm.Timeout, ours.LockError)
