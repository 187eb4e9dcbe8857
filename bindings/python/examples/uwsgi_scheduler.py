# SPDX-License-Identifier: MIT
"""A background job in exactly one worker of uWSGI.

    uwsgi --plugin python3 --http-socket :8000 --master --processes 4 --enable-threads --wsgi-file uwsgi_scheduler.py

--enable-threads is needed: the seat is a thread.  With --lazy-apps and without.
"""

import os
import threading

import lockshm
import uwsgi

locks = lockshm.open(os.environ.get("LOCKS", "shop"))
every = float(os.environ.get("EVERY", "60"))
lost = threading.Event()


def job():
    print("scheduled in", os.getpid(), flush=True)


def run_jobs():
    """Runs as long as this worker has the seat."""
    lost.clear()
    while not lost.wait(every):
        job()


def take_seat():
    locks.seat("scheduler", run_jobs, tag="jobs", on_lost=lambda seat: lost.set())


if uwsgi.worker_id():  # --lazy-apps: this is a worker, and the hook has run already
    take_seat()
else:  # the master, whose threads stay behind in a fork
    uwsgi.post_fork_hook = take_seat


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"served\n"]
