# SPDX-License-Identifier: MIT
"""asyncio: examples/aio_server.py in several processes under load, and 10,000 waits of one process."""

import contextlib
import os
import pathlib
import signal
import socket
import threading

import lockshm.testing
import pytest
from gate import WATCHDOG
from support import EXAMPLES, HERE, await_true, python

LONG = os.environ.get("LONG") == "1"


class Client:
    """One connection to a server: a line for a line."""

    def __init__(self, path):
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(WATCHDOG)
        self.connection.connect(path)
        self._lines = self.connection.makefile("r", encoding="utf-8")

    def send(self, account):
        self.connection.sendall(f"{account}\n".encode())

    def read(self):
        return self._lines.readline().strip()

    def ask(self, account):
        self.send(account)
        return self.read()

    def close(self):
        self._lines.close()
        self.connection.close()


@pytest.fixture
def start(directory):
    """Starts one of the processes: (server, path of its socket)."""
    with contextlib.ExitStack() as stack:

        def one(name):
            path = f"{directory}/{name}.sock"
            server = stack.enter_context(python(directory, str(EXAMPLES / "aio_server.py"), path))
            await_true(lambda: os.path.exists(path) and can_connect(path), "the server listens")
            return server, path

        yield one


def can_connect(path):
    try:
        Client(path).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def connect():
    clients = []

    def one(path):
        clients.append(Client(path))
        return clients[-1]

    yield one
    for client in clients:
        client.close()


def test_two_processes_under_load_lose_no_deposit(locks, start, connect, directory):
    paths = [start(name)[1] for name in "ab"]
    clients = [connect(path) for path in paths for _ in range(8)]
    each = 500 if LONG else 25
    balances = []

    def deposit(client):
        balances.extend(int(client.ask("shared")) for _ in range(each))

    threads = [threading.Thread(target=deposit, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WATCHDOG)
    total = len(clients) * each
    assert sorted(balances) == list(range(1, total + 1))
    assert pathlib.Path(directory, "shared.balance").read_text() == str(total)


def test_a_client_that_goes_away_leaves_no_wait(locks, start, connect):
    _, path = start("a")
    key = "account:mine"
    with locks.exclusive(key):
        patient, impatient = connect(path), connect(path)
        patient.send("mine")
        await_true(lambda: len(locks.holders(key)) == 2, "a request waits")
        impatient.send("mine")
        await_true(lambda: len(locks.holders(key)) == 3, "another request waits")
        impatient.close()
        await_true(lambda: len(locks.holders(key)) == 2, "its wait is gone")
    assert patient.read() == "1"
    assert patient.ask("mine") == "2"


def test_the_waits_of_a_killed_process_delay_no_other(locks, start, connect):
    (killed, doomed), (_, other) = start("a"), start("b")
    key = "account:mine"
    with locks.exclusive(key):
        for number in range(20):
            connect(doomed).send("mine")
            await_true(lambda n=number: len(locks.holders(key)) == n + 2, "the request waits")
        last = connect(other)
        last.send("mine")
        await_true(lambda: len(locks.holders(key)) == 22, "the last request waits")
        os.kill(killed.pid, signal.SIGKILL)
    assert last.read() == "1"


def test_ten_thousand_waits_of_one_process(directory, gate, capsys, monkeypatch):
    n = 50000 if LONG else 10000
    with lockshm.testing.private(requests=n + 1000) as locks:
        monkeypatch.setenv("LOCKS", locks.name)
        with locks.exclusive("page") as mine:
            with python(directory, str(HERE / "aio_load.py"), str(n), GATE=gate.path) as process:
                waiter = gate.visit()
                waiter.await_event("waits")
                assert len(locks.holders("page")) == n + 1
                mine.release()
                waiter.go()
                await_true(lambda: process.lines("in order"), "all are granted, in order")
                mine.acquire()
                lines = process.lines(f"{n} waits")
        with capsys.disabled():
            print("".join(f"\n{n} waits{line}" for line in lines))
        await_true(lambda: locks.stat()["keys_busy"] == 0, "nothing is left")
