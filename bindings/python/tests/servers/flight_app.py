# SPDX-License-Identifier: MIT
"""examples/single_flight.py, whose work waits at the gate of the test."""

import os

import gate
import single_flight


def render(page):
    with gate.connect() as visit:
        visit.say("renders")
        visit.wait()
    return f"{page} by {os.getpid()}".encode()


single_flight.render = render
application = single_flight.application
