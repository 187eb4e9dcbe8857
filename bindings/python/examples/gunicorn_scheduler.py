# SPDX-License-Identifier: MIT
"""APScheduler in exactly one worker of gunicorn, however many there are.

    gunicorn -w 4 -c gunicorn_scheduler.py app:application

Each worker queues for the seat.  The first one runs the scheduler; when it dies or is restarted, the next one does.
post_fork is the place: a thread that is started earlier (--preload) stays in the master.
"""

import os

import lockshm
from apscheduler.schedulers.blocking import BlockingScheduler


def job():
    print("scheduled in", os.getpid(), flush=True)


def run_scheduler():
    """Runs as long as this worker has the seat."""
    global scheduler
    scheduler = BlockingScheduler()
    scheduler.add_job(job, "interval", seconds=float(os.environ.get("EVERY", "60")))
    scheduler.start()


def stop_scheduler(seat):
    """The worker was stopped for longer than its lease: another one schedules by now."""
    scheduler.shutdown(wait=False)


def post_fork(server, worker):
    locks = lockshm.open(os.environ.get("LOCKS", "shop"))
    lease = float(os.environ.get("LEASE", "30"))
    worker.seat = locks.seat("scheduler", run_scheduler, lease=lease, tag="apscheduler", on_lost=stop_scheduler)
