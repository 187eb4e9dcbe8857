# SPDX-License-Identifier: MIT
"""Real gunicorn on each of two hosts, in a master that has opened the segment before the workers are made (--preload)."""

import contextlib
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "servers"))
from support import gunicorn  # noqa: E402

pytest.importorskip("gunicorn")


def test_workers_of_two_hosts_exclude_each_other(hosts, tmp_path):
    count = tmp_path / "count"
    count.write_text("0")
    here = str(pathlib.Path(__file__).resolve().parent)
    with contextlib.ExitStack() as stack:
        servers = []
        for locks in hosts:
            directory = tmp_path / locks.name
            directory.mkdir()
            options = ["--preload", "--pythonpath", here, "--worker-class", "gthread", "--threads", "4", "--timeout", "300"]
            servers.append(
                stack.enter_context(gunicorn(str(directory), "hosts_app", *options, HOST=locks.name, COUNT=str(count)))
            )
        before = int(count.read_text())
        replies = [server.get("/") for _ in range(20) for server in servers]
        assert [reply.result()[0] for reply in replies] == [200] * 40
        assert int(count.read_text()) == before + 40
