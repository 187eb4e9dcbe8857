# SPDX-License-Identifier: MIT
"""examples/gunicorn_once.py, whose work waits at the gate of the test."""

import gate
import gunicorn_once


def warm_up():
    with gate.connect() as visit:
        visit.say("warms up")
        visit.wait()


gunicorn_once.warm_up = warm_up
post_worker_init = gunicorn_once.post_worker_init
