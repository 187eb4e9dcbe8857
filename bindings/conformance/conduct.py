#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs cases of README.md with agents: processes that use the locks of one segment by a binding's public calls.

conduct.py [--case WORDS] [--debug] --agent COMMAND [--agent COMMAND] FILE...

Agents A, B, C, ... of a case are made of the commands in turn.  LOCKCTL names lockctl, which shows who waits.
"""
import argparse
import ctypes
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 120  # seconds for an answer: more than any machine takes that still runs
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "cont": signal.SIGCONT}
LINE = re.compile(r"([A-Z])(?: (?!=>|~|>)(.*?))?(?: (=>|~|>) ?(.*))?")
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)
lockctl = os.environ.get("LOCKCTL", "lockctl")


class Wrong(Exception):
    """The line of the case that failed, and why."""


class Agent:
    """One process, and the lines to and from it."""

    def __init__(self, pid, to, out):
        self.pid, self.to, self.out, self.buffer = pid, to, out, b""

    @classmethod
    def start(cls, command, log):
        process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        agent = cls(process.pid, process.stdin.fileno(), process.stdout.fileno())
        agent.process = process
        return agent

    def send(self, line):
        try:
            os.write(self.to, line.encode() + b"\n")
        except BrokenPipeError:
            raise Wrong("the agent has ended") from None

    def answer(self, limit):
        """A line, or None if there is none in that time."""
        end = time.monotonic() + limit
        while b"\n" not in self.buffer:
            if not select.select([self.out], [], [], max(0, end - time.monotonic()))[0]:
                return None
            more = os.read(self.out, 65536)
            if not more:
                raise Wrong("the agent has ended")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def state(self):
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return "X"

    def is_dead(self):
        """With all its threads: the first may end before the others."""
        return self.state() == "X" or self.state() == "Z" and len(os.listdir(f"/proc/{self.pid}/task")) == 1

    def signal(self, name):
        """Returns when it is dead or stopped."""
        os.kill(self.pid, SIGNALS[name])
        done = {"kill": self.is_dead, "stop": lambda: self.state() in "tT", "cont": lambda: self.state() not in "tT"}[name]
        await_true(done, f"the end of {name}")

    def end(self):
        if self.state() not in "XZ":
            os.kill(self.pid, signal.SIGKILL)
        if hasattr(self, "process"):
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()


def await_true(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"{what} did not come")
        time.sleep(0.002)


class Case:
    """A name, what agents need for it, and numbered lines."""

    def __init__(self, file, name):
        self.file, self.name, self.needs, self.lines = file, name, set(), []


def read(path):
    cases = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            word, _, rest = line.strip().partition(" ")
            if word == "case":
                cases.append(Case(path, rest))
            elif word == "needs":
                cases[-1].needs |= set(rest.split())
            elif word and word[0] != "#":
                cases[-1].lines.append((number, line.strip()))
    return cases


class Run:
    """One case with its agents, in a segment of its own."""

    def __init__(self, case, commands, directory, serial, debug):
        self.case, self.commands, self.directory, self.debug = case, commands, directory, debug
        self.segment = f"conformance-{os.getpid()}-{serial}"
        self.agents, self.opened = {}, {self.segment}
        self.values = {**os.environ, "SEGMENT": self.segment, "DIR": directory}
        self.log = open(f"{directory}/log", "w+", encoding="utf-8", errors="replace")

    def start(self, name):
        """Returns what the agent lacks."""
        command = self.commands[(ord(name) - ord("A")) % len(self.commands)]
        agent = self.agents[name] = Agent.start(command, self.log)
        return self.greet(name, agent)

    def greet(self, name, agent):
        hello = (agent.answer(LIMIT) or "silence").split()
        if hello[0] != "agent":
            raise Wrong(f"{name} begins with {' '.join(hello)}")
        agent.language = hello[1]
        self.values[name] = str(agent.pid)
        return self.case.needs - set(hello[2:]) - ({"hosts"} if "HOST_A" in os.environ else set())

    def expand(self, text):
        text = re.sub(r"\{(.)\*(\d+)\}", lambda m: m[1] * int(m[2]), text)
        return re.sub(r"\$(\w+)", lambda m: self.values.get(m[1], m[0]), text)

    def fork(self, name, child):
        """The child has named pipes for what its parent has as standard input and output."""
        paths = [f"{self.directory}/{child}.{end}" for end in ("in", "out")]
        for path in paths:
            os.mkfifo(path)
        ends = [os.open(path, os.O_RDWR) for path in paths]
        parent = self.agents[name]
        parent.send("fork " + " ".join(paths))
        pid = parent.answer(LIMIT)
        self.agents[child] = Agent(int(pid), *ends)
        self.greet(child, self.agents[child])

    def waits(self, name):
        """Does the segment have a request of the agent that is not granted?"""
        for segment in self.opened:
            shown = subprocess.run([lockctl, "ls", segment, "--json"], capture_output=True, check=False).stdout
            for lock in json.loads(shown or b"{}").get("locks", []):
                if any(waiter["pid"] == self.agents[name].pid for waiter in lock["waiters"]):
                    return True
        return False

    def await_wait(self, name):
        def blocked():
            answer = self.agents[name].answer(0)
            if answer is not None:
                raise Wrong(f"got {answer}")
            return self.waits(name)
        await_true(blocked, "a wait in the queue")

    def check(self, name, sign, expected):
        if sign == "=>" and expected == "...":
            return self.await_wait(name)
        answer = self.agents[name].answer(LIMIT)
        if answer is None:
            raise Wrong(f"no answer in {LIMIT} s")
        if sign == "=>" and re.fullmatch(r"\$\d", expected):
            self.values[expected[1:]] = answer
            return None
        wanted = self.expand(expected)
        holds = {"=>": lambda: answer == wanted, "~": lambda: re.search(wanted, answer),
                 ">": lambda: int(answer) > int(wanted)}[sign]
        if not holds():
            raise Wrong(f"got {answer}")
        return None

    def step(self, line):
        name, command, sign, expected = LINE.fullmatch(line).groups()
        words = (command or "").split()
        if words and words[0] in SIGNALS:
            return self.agents[name].signal(words[0])
        if words and words[0] == "fork":
            return self.fork(name, words[1])
        if words:
            self.agents[name].send(self.expand(command))
        if words and words[0] == "open":
            self.opened.add(self.expand(words[1]))
        return self.check(name, sign, expected) if sign else None

    def prepare(self):
        """All agents, before the first lease begins to run.  Returns what one lacks."""
        forked = {line.split()[2] for _, line in self.case.lines if line.split()[1] == "fork"}
        lacks = set()
        for name in sorted({line[0] for _, line in self.case.lines} - forked):
            lacks |= self.start(name)
        for name in self.agents if not lacks else ():
            first = next(line for _, line in self.case.lines if line[0] == name)
            if not first.startswith(f"{name} open "):
                self.step(f"{name} open $SEGMENT => ok")
        return lacks

    def lines(self):
        for number, line in self.case.lines:
            try:
                self.step(line)
            except Wrong as wrong:
                self.log.seek(0)
                kind = self.agents[line[0]].language if line[0] in self.agents else "?"
                raise Wrong(f"{self.case.file}:{number}: {line}\n  {wrong} ({kind})\n{self.log.read()}") from None

    def play(self):
        """Returns "passed", or why it is skipped."""
        lacks = self.prepare()
        if lacks:
            return "an agent lacks " + ", ".join(sorted(lacks))
        if self.debug:
            for name, agent in self.agents.items():
                print(f"{name}: {agent.language}: gdb -p {agent.pid}")
            input("Enter goes on ")
        self.lines()
        return "passed"

    def end(self):
        for agent in self.agents.values():
            agent.end()
        self.log.close()
        for name in os.listdir(self.directory):
            os.unlink(f"{self.directory}/{name}")
        for path in (f"/dev/shm/{segment}" for segment in self.opened if segment.startswith(self.segment)):
            if os.path.exists(path):
                os.unlink(path)


def main():
    global LIMIT
    parser = argparse.ArgumentParser(description="Runs cases with agents, see README.md.")
    parser.add_argument("--agent", action="append", required=True, metavar="COMMAND")
    parser.add_argument("--case", default="", metavar="WORDS", help="only cases with these words in their names")
    parser.add_argument("--debug", action="store_true", help="stop when the agents have started; no limits of time")
    parser.add_argument("file", nargs="+")
    given = parser.parse_args()
    if given.debug:
        LIMIT = 1e9
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    passed, failed, skipped = 0, 0, 0
    cases = [case for path in given.file for case in read(path) if given.case in case.name]
    with tempfile.TemporaryDirectory() as directory:
        for serial, case in enumerate(cases):
            run = Run(case, given.agent, directory, serial, given.debug)
            try:
                result = run.play()
                passed, skipped = passed + (result == "passed"), skipped + (result != "passed")
                if result != "passed":
                    print(f"skipped: {case.name}: {result}")
            except Wrong as wrong:
                failed += 1
                print(f"FAILED: {case.name}\n{wrong}")
            finally:
                run.end()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
