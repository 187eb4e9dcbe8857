#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One table: lockshm beside filelock, redis-py, multiprocessing.Lock and threading.Lock, in one run.

Usage: run.py [--rounds N] [--save FILE]    with PYTHONPATH and LD_LIBRARY_PATH as tests/unit.sh sets them

The locks take turns within each round.  A figure is the median of the rounds' medians, a "longest" that of all rounds.
redis-server is started on a socket of its own; what is not installed is left out, and so is the C pair without cc.
"""

import argparse
import contextlib
import os
import pathlib
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import lockshm
import lockshm.testing
import scenarios
from kinds import KINDS, LEASE

HERE = pathlib.Path(__file__).resolve().parent


NOTES = f"""\
(n x): times as long as lockshm. redis-py's lease is {LEASE:g} s here; its asyncio figures are redis.asyncio's. filelock and
multiprocessing.Lock wait in a thread of an event loop, and cannot be handed over between its tasks; in that row the last
column is asyncio.Lock. lockshm serves contending processes in strict order, so that each hold costs a context switch; with
the others the process that has just released takes the lock again. multiprocessing.Lock and threading.Lock are one lock
without a key, which its processes or threads have from their common start."""


class Missing(Exception):
    pass


class Bench:
    """What the kinds share."""

    def __init__(self, directory, segment):
        self.directory = directory
        self.segment = segment
        self._redis = None

    def redis_socket(self):
        path = f"{self.directory}/redis"
        if self._redis is None:
            if not shutil.which("redis-server"):
                raise Missing("redis-server is not installed")
            command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", self.directory]
            quiet = subprocess.DEVNULL
            self._redis = subprocess.Popen(command, stdout=quiet, stderr=quiet, preexec_fn=scenarios.die_with_parent)
            while not os.path.exists(path):
                time.sleep(0.01)
        return path

    def close(self):
        if self._redis:
            self._redis.kill()
            self._redis.wait()


def flags(variable, option):
    """As setup.py: the environment, or pkg-config."""
    if variable in os.environ:
        return shlex.split(os.environ[variable])
    command = ["pkg-config", option, "lockshm"]
    return shlex.split(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def c_pairs(bench):
    """Seconds of the pair in C: as the binding asks, with a lease that is renewed and without; of a thread."""
    program = f"{bench.directory}/pair"
    if not os.path.exists(program):
        source = str(HERE / "pair.c")
        cflags, libs = flags("LOCKSHM_CFLAGS", "--cflags"), flags("LOCKSHM_LIBS", "--libs")
        subprocess.run(["cc", "-O2", *cflags, source, "-o", program, *libs], check=True)
    out = subprocess.run([program, bench.segment], check=True, capture_output=True, text=True).stdout
    return [float(word) / 1e9 for word in out.split()]


def seconds(value):
    if value is None:
        return "never"
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def times(value, ours):
    """How many times as long, or as often."""
    return f"{value / ours:.2g} x" if value / ours < 9.5 else f"{value / ours:,.0f} x"


class Table:
    """Samples by scenario and kind: one list, or one dictionary, for each round."""

    def __init__(self):
        self.samples = {}

    def add(self, scenario, kind, samples):
        self.samples.setdefault((scenario, kind), []).append(samples)

    def typical(self, scenario, kind):
        rounds = self.samples.get((scenario, kind))
        if not rounds:
            return False
        if any(None in samples for samples in rounds):
            return None
        return statistics.median(statistics.median(samples) for samples in rounds)

    def longest(self, scenario, kind):
        rounds = self.samples.get((scenario, kind))
        if not rounds:
            return False
        values = [value for samples in rounds for value in samples]
        return None if None in values else max(values)

    def figure(self, scenario, kind, name, choose):
        rounds = self.samples.get((scenario, kind))
        return choose(one[name] for one in rounds) if rounds else False


def between_processes(kind):
    return kind.between_processes


def any_kind(kind):
    return True


def has_plain(kind):
    return kind.has_plain


def has_tasks(kind):
    return kind.tasks > 0


SCENARIOS = [
    ("free", scenarios.free_pair, any_kind),
    ("plain", scenarios.free_pair_plain, has_plain),
    ("with", scenarios.free_with, any_kind),
    ("process", scenarios.hand_over, between_processes),
    ("asyncio", scenarios.hand_over_async, between_processes),
    ("tasks", scenarios.hand_over_tasks, has_tasks),
    ("killed", scenarios.holder_killed, between_processes),
    ("contended", scenarios.contended, between_processes),
]


def measure(bench, kinds, rounds):
    table = Table()
    never = set()
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        if shutil.which("cc"):
            for name, pair in zip(("free", "plain", "thread"), c_pairs(bench)):
                table.add("C", name, [pair])
        table.add("C", "empty", scenarios.empty_calls())
        for scenario, run, suits in SCENARIOS:
            for kind in kinds:
                if not suits(kind) or (scenario, kind) in never:
                    continue
                samples = run(kind(bench))
                table.add(scenario, kind.name, samples)
                if None in samples:
                    never.add((scenario, kind))
    return table


def rows(table, kinds):
    """(label, [figure of each kind], how to write it)"""
    names = [kind.name for kind in kinds]
    yield "free: acquire() and release()", [table.typical("free", name) for name in names], seconds
    yield "free: the same with `renew=False`", [table.typical("plain", name) for name in names], seconds
    yield "free: `with lock: pass`", [table.typical("with", name) for name in names], seconds
    for scenario, label in (
        ("process", "hand-over to a thread of another process"),
        ("asyncio", "hand-over to a task of another process"),
        ("tasks", "hand-over between tasks of one event loop"),
        ("killed", "holder killed until the next one runs"),
    ):
        yield f"{label}, median", [table.typical(scenario, name) for name in names], seconds
        yield f"{label}, longest", [table.longest(scenario, name) for name in names], seconds
    n = scenarios.PROCESSES
    for label, figure, choose, write in (
        ("holds a second", "rate", statistics.median, "{:,.0f}".format),
        ("longest wait", "longest", max, seconds),
        ("least served, of its share", "least", statistics.median, "{:.0%}".format),
    ):
        yield f"{n} processes contend: {label}", [table.figure("contended", name, figure, choose) for name in names], write


def cell(value, ours, write, is_ours):
    if value is False:
        return "-"
    text = write(value)
    return text if is_ours or not value or write is not seconds else f"{text} ({times(value, ours)})"


def free_pair_lines(table, ours):
    """Our free pair beside what it consists of."""
    empty = table.typical("C", "empty")
    yield f"Two empty C calls of Python take {seconds(empty)}."
    if not table.typical("C", "free"):
        return
    for name, lease in (("free", "renewed, the default"), ("plain", "renew=False")):
        pair, free = table.typical("C", name), table.typical(name, ours)
        yield (
            f"A free pair of lockshm with a lease ({lease}) takes {seconds(free)}: {free / (pair + empty):.2f} times"
            f" the pair in C, {seconds(pair)}, and the two calls."
        )
    yield f"The pair of a thread in C, without a service thread, takes {seconds(table.typical('C', 'thread'))}."


def report(table, kinds):
    lines = ["| | " + " | ".join(kind.name for kind in kinds) + " |", "|---|" + "---|" * len(kinds)]
    for label, values, write in rows(table, kinds):
        cells = [cell(value, values[0], write, number == 0) for number, value in enumerate(values)]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", *free_pair_lines(table, kinds[0].name)]
    lines += ["", NOTES]
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return (
        f"{(models or [platform.machine()])[0]}, {os.cpu_count()} processors, Linux {platform.release()}, Python {platform.python_version()},"
        f" load {os.getloadavg()[0]:.2f} at the start"
    )


def usable(bench):
    for kind in KINDS:
        try:
            kind(bench)
        except (ImportError, Missing) as error:
            print(f"left out: {kind.name}: {error}", file=sys.stderr)
        else:
            yield kind


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=pathlib.Path)
    arguments = parser.parse_args()
    about, start = machine(), time.monotonic()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="ls."))
        bench = Bench(directory, stack.enter_context(lockshm.testing.private()).name)
        stack.callback(bench.close)
        kinds = list(usable(bench))
        text = report(measure(bench, kinds, arguments.rounds), kinds)
    text = f"# lockshm beside other locks\n\n{about}.\n\n    bench/run.py --rounds {arguments.rounds}\n\n{text}\n"
    print(text)
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    if arguments.save:
        arguments.save.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
