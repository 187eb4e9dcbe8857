# SPDX-License-Identifier: MIT
"""Agent of ../../conformance: the words of its README by the package's public calls."""
import ast
import inspect
import os
import shlex
import sys
import time

import lockshm
import lockshm.testing

class Failed(Exception):
    """Of a function that is to fail."""


CLASSES = [
    (lockshm.Busy, "busy"), (lockshm.Timeout, "timeout"), (lockshm.Lost, "lost"), (lockshm.NotOwned, "not-held"),
    (lockshm.Full, "full"), (lockshm.Invalid, "invalid"), (lockshm.NoSegment, "no-segment"),
    (lockshm.BridgeFailure, "bridge"), (lockshm.Denied, "permission"), (lockshm.Cancelled, "cancelled"), (ValueError, "invalid"), (Failed, "failed"),
]
STATUSES = {"OWNER_DIED": "died", "TOOK_OVER_EXPIRED": "expired"}
NAMES = {"global": "global_"}
NUMBERS = {"timeout", "lease", "max_hold", "cooldown", "redis_ttl"}
COUNTS = {"keys", "requests", "owners"}


def name_of(kind):
    return kind.__name__ + ("<" + kind.__base__.__name__ if kind is lockshm.Busy else "")


def shown(value):
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else f"{value:g}"


def declared(call):
    """Keywords and their defaults: of a function in C those of the stub, with what its object has."""
    if call != "exclusive":
        parameters = inspect.signature(getattr(lockshm.Locks, call)).parameters.values()
        return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    with open(os.path.join(os.path.dirname(lockshm.__file__), "_lockshm.pyi"), encoding="utf-8") as file:
        found = next(node for node in ast.walk(ast.parse(file.read())) if getattr(node, "name", "") == call)
    defaults = {arg.arg: node.value for arg, node in zip(found.args.kwonlyargs, found.args.kw_defaults)}
    with lockshm.testing.private() as locks:
        lock = locks.exclusive("k")
        return {**defaults, "timeout": lock.timeout, "lease": lock.lease, "reentrant": lock.reentrant}


class Agent:
    def __init__(self):
        self.input, self.output = sys.stdin, sys.stdout
        self.locks, self.holds, self.text = None, {}, ""

    def say(self, text):
        print(text, file=self.output, flush=True)

    def done(self, in_time):
        return "ok" if in_time else "late"

    def open(self, words, options):
        self.locks = lockshm.open(words[0], **options)
        return "ok"

    def destroy(self, words, options):
        lockshm.destroy(words[0])
        return "ok"

    def take(self, words, options):
        lock = (self.locks.shared if options.pop("shared", 0) else self.locks.exclusive)(words[1], **options)
        lock.acquire()
        self.holds[words[0]] = lock
        if lock.local_only:
            return "local-only"
        return STATUSES[lock.damage.status] if options.get("robust") and lock.damage else "ok"

    def release(self, words, options):
        return self.done(self.holds[words[0]].release(**options))

    def check(self, words, options):
        return "ok" if self.holds[words[0]].check() > 0 else "late"

    def renew(self, words, options):
        return self.done(self.holds[words[0]].renew(*(float(word) for word in words[1:])))

    def extend(self, words, options):
        return self.done(self.holds[words[0]].extend(float(words[1])))

    def upgrade(self, words, options):
        return self.done(self.holds[words[0]].upgrade())

    def downgrade(self, words, options):
        return self.done(self.holds[words[0]].downgrade())

    def ack(self, words, options):
        self.holds[words[0]].acknowledge()
        return "ok"

    def token(self, words, options):
        return self.holds[words[0]].token

    def damage(self, words, options):
        mark = self.holds[words[0]].damage
        return f"{STATUSES[mark.status]} {mark.pid}" if mark else "none"

    def defaults(self, words, options):
        if words[0] == "refusal":
            return " ".join(f"{name_of(kind)}=-" for kind, word in CLASSES if word not in ("failed",) and kind is not lockshm.Invalid)
        call = {"take": "exclusive", "flight": "single_flight"}.get(words[0], words[0])
        return " ".join(f"{name}={shown(value)}" for name, value in declared(call).items())

    def message(self, words, options):
        return self.text

    def sleep(self, words, options):
        time.sleep(float(words[0]))
        return "ok"

    def fork(self, words, options):
        pid = os.fork()
        if pid:
            return pid
        self.input, self.output = open(words[0]), open(words[1], "w")
        return "agent python"

    def inside(self):
        """What a recipe calls: goes on with the lines until "done VALUE" or "fail"."""
        self.say("inside")
        return self.serve()

    def flight(self, words, options):
        path = words[1]

        def look():
            return open(path).read() if os.path.exists(path) else None

        def fill():
            value = self.inside()
            with open(path, "w") as file:
                file.write(value)
            return value

        return self.locks.single_flight(words[0], look, fill, **options)

    def once(self, words, options):
        return "ran" if self.locks.once(words[0], float(words[1]), self.inside, **options) else "skipped"

    def seat(self, words, options):
        self.locks.seat(words[0], self.inside, **options).join()
        return "ended"

    def act(self, line):
        words, options = [], {}
        for word in shlex.split(line)[1:]:
            name, equals, value = word.partition("=")
            if equals and name in NUMBERS:
                options[name] = None if value == "none" else float(value)
            elif equals:
                options[name] = int(value) if name in COUNTS else value
            elif word == "norenew":
                options["renew"] = False
            elif word in ("shared", "robust", "global", "retry_on_failure"):
                options[NAMES.get(word, word)] = True
            else:
                words.append(word)
        return getattr(self, line.split()[0])(words, options)

    def answer(self, line):
        try:
            return self.act(line)
        except Exception as error:
            self.text = str(error).replace("\n", " ")
            return next((word for kind, word in CLASSES if isinstance(error, kind)), type(error).__name__)

    def serve(self):
        while line := self.input.readline():  # a child has another one
            if line.startswith("done"):
                return line[5:].strip() or None
            if line.startswith("fail"):
                raise Failed
            self.say(self.answer(line))
        os._exit(0)


agent = Agent()
agent.say(f"agent python {lockshm.library_version} fork recipes texts")
agent.serve()
