# SPDX-License-Identifier: MIT
"""The drop-ins beside their originals: the originals' own tests run over them, and each value of an argument does the same.

$FILELOCK_DIR and $REDIS_PY_DIR name checkouts, of the installed version or a near one; of their tests each that is left
out has its reason here.  The tables call original and drop-in side by side: what differs has its line, too.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import types
import warnings
from decimal import Decimal
from fractions import Fraction

import pytest
from support import HERE, await_true

import lockshm
from lockshm.compat import filelock as our_filelock
from lockshm.compat import redis as our_redis

inf, nan = float("inf"), float("nan")

# --- Their tests -------------------------------------------------------------------------------------------

FILELOCK_LEFT_OUT = {
    "test_cleanup_soft_lock": "a path is a key: no file is made",
    **({"test_ro_folder": "root may write", "test_ro_file": "root may write"} if os.getuid() == 0 else {}),
}
REDIS_LEFT_OUT = {
    # Of redis-py since 6: they count the polls of a wait, by a clock of their own.
    "fake_lock_time": "nothing polls",
}


def run_their_tests(directory, plugin, files, left_out, locks, minimum):
    """In a package of their own, so that their conftest, which wants servers, is not used."""
    package = pathlib.Path(directory, "originals")
    package.mkdir()
    for file in files:
        shutil.copy(file, package)
    (package / "__init__.py").touch()
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    names = set(re.findall(r"def (test_\w+)", text))
    users = {name for name in names for word in left_out if word == name or re.search(rf"def {name}\([^)]*\b{word}\b", text)}
    keep = " and ".join(f"not {name}" for name in sorted(users)) or "test"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider", "-k", keep, f"--rootdir={directory}", package],
        cwd=directory,
        env={**os.environ, "LOCKS": locks.name, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout).group(1)) >= minimum, done.stdout


@pytest.mark.skipif("FILELOCK_DIR" not in os.environ, reason="FILELOCK_DIR names no checkout of filelock")
def test_the_tests_of_filelock(locks, directory):
    files = [pathlib.Path(os.environ["FILELOCK_DIR"], "tests/test_filelock.py")]
    run_their_tests(directory, "originals_filelock", files, FILELOCK_LEFT_OUT, locks, 30)


@pytest.mark.skipif("REDIS_PY_DIR" not in os.environ, reason="REDIS_PY_DIR names no checkout of redis-py")
def test_the_tests_of_redis(locks, directory):
    pytest.importorskip("redis")
    files = [pathlib.Path(os.environ["REDIS_PY_DIR"], "tests/test_lock.py")]
    run_their_tests(directory, "originals_redis", files, REDIS_LEFT_OUT, locks, 29)


# --- Tables ------------------------------------------------------------------------------------------------


class Waits(Exception):
    """The call polls, or queues, without an end in sight."""


def outcome(call):
    """What a caller sees: a value, or the class of the exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = call()
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return value if isinstance(value, (bool, type(None))) else "granted"


class Clock:
    """time, for an original: its polls take no time.  The third one finds the call waiting, and ends it."""

    def __init__(self):
        self.polls = 0

    def __getattr__(self, name):
        return getattr(time, name)

    def sleep(self, seconds):
        self.polls += 1
        if not 0 <= seconds <= threading.TIMEOUT_MAX:
            time.sleep(seconds)  # raises
        if self.polls > 2:
            raise Waits


def waiting(locks):
    return sum(request.state == "waiting" for key in KEYS for request in locks.holders(key))


def queued(locks, call):
    """The outcome of a call of a drop-in; Waits if it is in the queue of a key that is held."""
    results, before = [], waiting(locks)
    threading.Thread(target=lambda: results.append(outcome(call)), daemon=True).start()
    await_true(lambda: results or waiting(locks) > before, "the call ends, or waits")
    return results[0] if results else "Waits"


KEYS = []
"""Those that are held."""
SECONDS = [None, 0, 0.0, -1, -0.5, 1e-4, 300, 1e9, 1e300, 10**400, inf, -inf, nan, True, False, "", "5", "x", b"5", b"x"]
SECONDS += [Fraction(600, 2), Decimal("300"), [], {}, 300j, object()]
FRAMEWORK = {"Timeout", "LockError", "LockNotOwnedError", "DataError", "ResponseError"}
BUILTIN = {"TypeError", "ValueError", "OverflowError", "UnicodeEncodeError"}


class Table:
    """Collects what is different."""

    def __init__(self, differences):
        self.differences = differences
        self.wrong = {}

    def add(self, what, theirs, ours):
        """The same; or the framework's exception, where the original has a bare one."""
        if what in self.differences:
            right = (theirs, ours) == self.differences[what]
        else:
            right = ours == theirs or (theirs in BUILTIN and ours in FRAMEWORK)
        if not right:
            self.wrong[what] = theirs, ours

    def check(self):
        assert not self.wrong


def text(value):
    return repr(value) if type(value).__module__ == "builtins" and type(value) is not object else type(value).__name__


# --- filelock ----------------------------------------------------------------------------------------------


@pytest.fixture
def filelocks(locks, directory, monkeypatch):
    """(original, drop-in): each a module with the path of a lock, which is free; busy() makes both be held."""
    theirs = pytest.importorskip("filelock")
    monkeypatch.setattr(our_filelock, "_segment_name", locks.name)
    KEYS[:] = [os.fsencode(os.path.realpath(f"{directory}/busy"))]
    yield theirs, our_filelock
    our_filelock._opened.pop(locks.name, None)


def their_filelock(monkeypatch, call):
    monkeypatch.setattr(sys.modules["filelock._api"], "time", Clock())
    return outcome(call)


FILELOCK_DIFFERENCES = {
    # nan: polls for ever there.
    "acquire(timeout=nan)": ("Waits", "Timeout"),
    "FileLock(timeout=nan)": ("Waits", "Timeout"),
    # filelock of 2023 has no default for it; later ones take that of the object.
    "acquire(poll_interval=None)": ("TypeError", "Waits"),
}


@pytest.mark.parametrize("value", [value for value in SECONDS if value != 1e-4], ids=text)
def test_filelock_seconds(locks, directory, filelocks, monkeypatch, value):
    theirs, ours = filelocks
    busy, free = f"{directory}/busy", f"{directory}/free"
    table = Table(FILELOCK_DIFFERENCES)
    with theirs.FileLock(busy), ours.FileLock(busy):
        for what, call in {
            "acquire(timeout={})": lambda module: module.FileLock(busy).acquire(timeout=value),
            "FileLock(timeout={})": lambda module: module.FileLock(busy, timeout=value).acquire(),
            "acquire(poll_interval={})": lambda module: module.FileLock(busy).acquire(timeout=300, poll_interval=value),
            "free: acquire(timeout={})": lambda module: module.FileLock(free).acquire(timeout=value),
            "free: FileLock(timeout={})": lambda module: module.FileLock(free, timeout=value).acquire(),
            "free: acquire(poll_interval={})": lambda module: module.FileLock(free).acquire(poll_interval=value),
            "with FileLock(timeout={})": lambda module: module.FileLock(free, timeout=value).__enter__(),
        }.items():
            original = their_filelock(monkeypatch, lambda: call(theirs))
            table.add(what.format(text(value)), original, queued(locks, lambda: call(ours)))
    table.check()


@pytest.mark.parametrize("value", [True, False, None, 0, 1, "", "no", [], 0.0], ids=text)
def test_filelock_blocking(locks, directory, filelocks, monkeypatch, value):
    theirs, ours = filelocks
    busy = f"{directory}/busy"
    table = Table({})
    with theirs.FileLock(busy), ours.FileLock(busy):
        for timeout in (300, 0, -1, None):

            def call(module, timeout=timeout):
                return module.FileLock(busy).acquire(timeout=timeout, blocking=value)

            original = their_filelock(monkeypatch, lambda: call(theirs))
            table.add(f"blocking={value!r}, timeout={timeout!r}", original, queued(locks, lambda: call(ours)))
    table.check()


PATHS = {
    "str": lambda home: f"{home}/free",
    "bytes": lambda home: os.fsencode(f"{home}/free"),
    "Path": lambda home: pathlib.Path(home, "free"),
    "relative": lambda home: "free",
    "not UTF-8": lambda home: f"{home}/\udcff",
    "a file that is there": lambda home: str(pathlib.Path(home, "there").write_text("") and "" or f"{home}/there"),
    "link": lambda home: open(f"{home}/file", "w").close() or os.symlink(f"{home}/file", f"{home}/good") or f"{home}/good",
    "dangling link": lambda home: os.symlink(f"{home}/target", f"{home}/link") or f"{home}/link",
    "link into nowhere": lambda home: os.symlink(f"{home}/no/target", f"{home}/lost") or f"{home}/lost",
    "directory": lambda home: home,
    "slash at the end": lambda home: f"{home}/free/",
    "no directory": lambda home: f"{home}/no/lock",
    "a file as directory": lambda home: pathlib.Path(home, "file").write_text("") and "" or f"{home}/file/lock",
    "empty": lambda home: "",
    "empty bytes": lambda home: b"",
    "dot": lambda home: ".",
    "long name": lambda home: f"{home}/{'n' * 300}",
    "long path": lambda home: f"{home}/" + "./" * 40000 + "free",
    "NUL": lambda home: f"{home}/a\0b",
    "None": lambda home: None,
    "int": lambda home: 5,
    "float": lambda home: 0.5,
    "list": lambda home: [],
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the original, after a TypeError
@pytest.mark.parametrize("kind", PATHS)
def test_filelock_paths(directory, filelocks, monkeypatch, kind):
    results = []
    for module in filelocks:
        home = f"{directory}/{module.__name__}"
        os.mkdir(home)
        monkeypatch.chdir(home)
        results.append(outcome(lambda: module.FileLock(PATHS[kind](home)).acquire(timeout=0)))
    made = kind == "no directory" and results[0] == "granted"  # by later versions
    assert results[0] == results[1] or made


# --- redis-py ----------------------------------------------------------------------------------------------


@pytest.fixture
def clients(locks, redis_socket):
    redis = pytest.importorskip("redis")
    theirs = redis.Redis(unix_socket_path=redis_socket)
    KEYS[:] = [b"busy"]
    yield theirs, our_redis.Redis(locks)
    theirs.flushall()
    theirs.close()
    await_true(lambda: end_all() or locks.stat()["keys_busy"] == 0, "no call waits")


def end_all():
    """Calls that wait are granted then, one after the other."""
    for key, entry in list(our_redis._entries.items()):
        our_redis._forget(key, entry)


def their_redis(monkeypatch, call):
    monkeypatch.setattr(sys.modules["redis.lock"], "mod_time", Clock())
    return outcome(call)


REDIS_DIFFERENCES = {
    # nan: polls for ever there.
    "acquire(blocking_timeout=nan)": ("Waits", "LockError"),
    "lock(blocking_timeout=nan)": ("Waits", "LockError"),
    # A lease is 0 there from one call to the other: the key is deleted, and the caller told that it has it.
    "lock(timeout=0).reacquire()": (True, "LockNotOwnedError"),
    "lock(timeout=0.0).reacquire()": (True, "LockNotOwnedError"),
    "lock(timeout=False).reacquire()": (True, "LockNotOwnedError"),
}


def taken(client, **options):
    lock = client.lock("free", **options)
    lock.acquire()
    return lock


def freed(client):
    if isinstance(client, our_redis.Redis):
        for key, entry in list(our_redis._entries.items()):
            if key.name != b"busy":
                our_redis._forget(key, entry)
    else:
        for name in client.keys():
            if name != b"busy":
                client.delete(name)
    return client


@pytest.mark.parametrize("value", SECONDS, ids=text)
def test_redis_seconds(locks, clients, monkeypatch, value):
    busy = [client.lock("busy") for client in clients]
    assert [lock.acquire() for lock in busy] == [True, True]
    table = Table(REDIS_DIFFERENCES)
    for what, call in {
        "lock(timeout={}).acquire()": lambda client: client.lock("free", timeout=value).acquire(),
        "lock(timeout={}).owned()": lambda client: taken(client, timeout=value).owned(),
        "lock(timeout={}).release()": lambda client: taken(client, timeout=value).release(),
        "lock(timeout={}).extend()": lambda client: taken(client, timeout=value).extend(5),
        "lock(timeout={}).reacquire()": lambda client: taken(client, timeout=value).reacquire(),
        "extend({})": lambda client: taken(client, timeout=300).extend(value),
        "extend({}), owned()": lambda client: (lock := taken(client, timeout=300), lock.extend(value)) and lock.owned(),
        "extend({}, True), owned()": lambda client: (lock := taken(client, timeout=300), lock.extend(value, True)) and lock.owned(),
        "busy: lock(timeout={}, blocking=False)": lambda client: client.lock("busy", timeout=value, blocking=False).acquire(),
        "acquire(blocking_timeout={})": lambda client: client.lock("busy").acquire(blocking_timeout=value),
        "lock(blocking_timeout={})": lambda client: client.lock("busy", blocking_timeout=value).acquire(),
        "acquire(sleep={})": lambda client: client.lock("busy").acquire(sleep=value),
        "acquire(sleep={}, blocking_timeout)": lambda client: client.lock("busy").acquire(sleep=value, blocking_timeout=1e6),
        "lock(sleep={})": lambda client: client.lock("busy", sleep=value, blocking_timeout=1e6).acquire(),
        "free: acquire(blocking_timeout={})": lambda client: client.lock("free").acquire(blocking_timeout=value),
        "free: acquire(sleep={})": lambda client: client.lock("free").acquire(sleep=value),
    }.items():
        theirs = their_redis(monkeypatch, lambda: call(freed(clients[0])))
        ours = queued(locks, lambda: call(freed(clients[1])))
        table.add(what.format(text(value)), theirs, ours)
    table.check()


NAMES = ["name", b"name", memoryview(b"name"), bytearray(b"name"), "", b"", "n" * 70_000, "a\0b", "é", "\udcff", 0, -1, 5, 5.5, nan, inf]
NAMES += [10**400, True, False, None, (), [], {}, object(), Decimal(1), Fraction(1, 2)]


@pytest.mark.parametrize("value", NAMES, ids=lambda value: text(value)[:20])
def test_redis_names_and_tokens(locks, clients, monkeypatch, value):
    size = len(value) if isinstance(value, (str, bytes)) else 1
    table = Table({})
    for what, call in {
        "acquire()": lambda client: client.lock(value).acquire(blocking=False),
        "acquire() again": lambda client: (client.lock(value).acquire(), client.lock(value, blocking=False).acquire())[1],
        "locked()": lambda client: client.lock(value).locked(),
        "owned()": lambda client: client.lock(value).owned(),
        "release()": lambda client: client.lock(value).release(),
        "with": lambda client: client.lock(value).__enter__().owned(),
        "token": lambda client: client.lock("free").acquire(token=value),
        "token, owned()": lambda client: (lock := client.lock("free"), lock.acquire(token=value)) and lock.owned(),
        "token, release()": lambda client: (lock := client.lock("free"), lock.acquire(token=value)) and lock.release(),
    }.items():
        theirs = their_redis(monkeypatch, lambda: call(freed(clients[0])))
        ours = queued(locks, lambda: call(freed(clients[1])))
        if not 1 <= size <= 65_535 and not what.startswith("token") and what != "release()":
            assert ours == "LockError", "1 to 65,535 bytes here"
        else:
            table.add(what, theirs, ours)
    table.check()


@pytest.mark.parametrize("value", [True, False, None, 0, 1, "", "no", [], 0.0], ids=text)
def test_redis_blocking(locks, clients, monkeypatch, value):
    busy = [client.lock("busy") for client in clients]
    assert [lock.acquire() for lock in busy] == [True, True]
    table = Table({})
    for what, call in {
        "acquire(blocking={})": lambda client: client.lock("busy").acquire(blocking=value),
        "lock(blocking={})": lambda client: client.lock("busy", blocking=value).acquire(),
        "acquire(blocking={}, blocking_timeout=0)": lambda client: client.lock("busy").acquire(blocking=value, blocking_timeout=0),
        "thread_local={}": lambda client: client.lock("free", thread_local=value).acquire(),
    }.items():
        theirs = their_redis(monkeypatch, lambda: call(freed(clients[0])))
        table.add(what.format(repr(value)), theirs, queued(locks, lambda: call(freed(clients[1]))))
    table.check()
