# SPDX-License-Identifier: MIT
"""Something that each worker would do when it starts, done at most once an hour by all of them together.

    gunicorn -w 4 -c gunicorn_once.py app:application

A worker that skips it logs that, with the process and the time (logger "lockshm", level INFO).  A run that is killed
half way does not count: the next worker runs it.
"""

import os

import lockshm

period = float(os.environ.get("PERIOD", "3600"))


def warm_up():
    """Stands for the work."""
    print("warmed up by", os.getpid(), flush=True)


def post_worker_init(worker):
    locks = lockshm.open(os.environ.get("LOCKS", "shop"))
    if not locks.once("warm-up", period, warm_up):
        worker.log.info("warm-up: done by another worker")
