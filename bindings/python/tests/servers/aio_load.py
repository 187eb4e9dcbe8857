# SPDX-License-Identifier: MIT
"""A process with many waits of one event loop for one key, beside a ticker of 1 ms.

Usage: aio_load.py N    stops at the gate when all wait; prints the longest delay of the ticker in both parts
"""

import asyncio
import os
import sys
import time

import gate
import lockshm

locks = lockshm.open(os.environ["LOCKS"])


class Ticker:
    """The longest time by which a sleep of 1 ms was late: what the event loop makes its other clients wait."""

    def __init__(self):
        self.longest = 0.0
        self._task = asyncio.ensure_future(self._run())

    async def _run(self):
        while True:
            start = time.monotonic()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.monotonic() - start - 0.001)

    async def end(self):
        await asyncio.sleep(0.002)
        self._task.cancel()
        return self.longest


class Key:
    """What the tasks do under the lock."""

    def __init__(self):
        self.order = []
        self.inside = 0

    async def hold(self, number):
        async with locks.exclusive("page", timeout=None):
            self.inside += 1
            assert self.inside == 1
            self.order.append(number)
            self.inside -= 1


async def main(n):
    key, tasks, ticker = Key(), [], Ticker()
    start = time.monotonic()
    for number in range(n):
        tasks.append(asyncio.ensure_future(key.hold(number)))
        if number % 20 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    queued, delay = time.monotonic() - start, await ticker.end()
    print(f"{n} waits queued in {queued:.2f} s, the ticker's longest delay {delay * 1000:.1f} ms", flush=True)
    with gate.connect() as visit:
        visit.say("waits")
        await asyncio.get_running_loop().run_in_executor(None, visit.wait)
    ticker = Ticker()
    start = time.monotonic()
    await asyncio.gather(*tasks)
    took, delay = time.monotonic() - start, await ticker.end()
    print(f"{n} waits granted in {took:.2f} s, the ticker's longest delay {delay * 1000:.1f} ms", flush=True)
    assert key.order == list(range(n)), "not granted in the order of the requests"
    print("in order", flush=True)


asyncio.run(main(int(sys.argv[1])))
