# SPDX-License-Identifier: MIT
"""The blocks of MIGRATING.md run; those of the drop-ins also with the packages that they replace."""

import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "MIGRATING.md"
BLOCKS = {
    section.partition("\n")[0]: block
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL)
}
PRELUDE = """
import lockshm, lockshm.compat.filelock
locks = lockshm.open("shop", create=False)
lockshm.compat.filelock.configure("shop")
"""


def run(program, directory):
    path = pathlib.Path(directory, "block.py")
    path.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, "-Werror", path], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("section", BLOCKS)
def test_a_block_runs(locks, directory, section):
    run((PRELUDE + BLOCKS[section]).replace('"shop"', repr(locks.name)), directory)


def test_every_package_with_a_drop_in_has_a_block():
    assert {"filelock", "redis-py"} <= BLOCKS.keys()


def test_it_fits_on_180_lines():
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 180


def test_the_links_inside_it_lead_somewhere():
    text = PAGE.read_text(encoding="utf-8")
    titles = {re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-") for line in re.findall("^## .*", text, re.M)}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= titles


def test_the_block_for_filelock_runs_with_filelock(directory):
    pytest.importorskip("filelock")
    run(BLOCKS["filelock"].replace("lockshm.compat.filelock", "filelock"), directory)


def test_the_block_for_redis_runs_with_redis(directory, redis_socket):
    block = BLOCKS["redis-py"].replace("lockshm.compat.redis import", "redis.exceptions import")
    block = block.replace("LockNotOwnedError, Redis", "LockNotOwnedError")
    run("import redis\n" + block.replace('Redis("shop")', f"redis.Redis(unix_socket_path={redis_socket!r})"), directory)
