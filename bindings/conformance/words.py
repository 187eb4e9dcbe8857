#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""words.py words.txt FILE...: FILE has the command of an agent.  Does each agent have the options, defaults and refusals of the table, and no others?"""
import re
import sys

import conduct

COLUMNS = {"c": 3, "lua": 4, "python": 5, "php": 6}
NOTHING = {"no", "none", "0", "-"}


def read(path):
    """Rows of cells; one that differs from the others needs its reason."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text, _, reason = line.partition("#")
            cells = text.split()
            if not cells:
                continue
            if len(cells) != 7 or ("-" in cells[3:] or ":" in text) and not reason.strip():
                sys.exit(f"{path}:{number}: seven columns, and a reason where languages differ")
            rows.append(cells)
    return rows


def expected(rows, kind, language):
    """What the agent is to answer, as a set."""
    wanted = set()
    for cells in rows:
        name, _, default = cells[COLUMNS[language]].partition(":")
        default = default or cells[2]
        if cells[0] == kind and name != "-":
            wanted.add((cells[1] if name == "=" else name, "none" if default in NOTHING else default))
    return wanted


def answered(agent, kind):
    agent.send(f"defaults {kind}")
    pairs = (word.partition("=") for word in agent.answer(conduct.LIMIT).split())
    return {(name, "none" if value in NOTHING else value) for name, _, value in pairs}


def main():
    rows, passed, failed = read(sys.argv[1]), 0, 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            agent = conduct.Agent.start(file.read(), None)
        language = re.match(r"agent (\w+)", agent.answer(conduct.LIMIT))[1]
        for kind in dict.fromkeys(cells[0] for cells in rows):
            wanted, got = expected(rows, kind, language), answered(agent, kind)
            passed, failed = passed + (wanted == got), failed + (wanted != got)
            for sign, odd in (("not in", got - wanted), ("only in", wanted - got)):
                for name, value in sorted(odd):
                    print(f"FAILED: {language}: {kind}: {name}={value} is {sign} words.txt")
        agent.end()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
