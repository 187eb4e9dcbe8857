# SPDX-License-Identifier: MIT
"""The README's example runs, and its types are right; so are those of the package."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import lockshm

HERE = pathlib.Path(__file__).resolve().parent.parent
MYPY = os.environ.get("MYPY", shutil.which("mypy"))


def examples():
    """The first, and that of keys across hosts, which hosts/ runs."""
    first, across = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    return first, across


def test_the_example_runs(locks, tmp_path):
    program = tmp_path / "example.py"
    program.write_text(examples()[0].replace('"shop"', f'"{locks.name}"'))
    out = subprocess.run([sys.executable, "-Werror", program], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    lines = out.stdout.splitlines()
    assert re.fullmatch(r"token \d+ lease 30", lines[0])
    assert re.fullmatch(r"'nightly': not free: held exclusive by pid \d+ \(python.*\) 'nightly job' for .* s", lines[1])
    assert lines[2] == "42" and lines[3].startswith("Once(ran=True, value='sent'")


def test_it_fits_on_a_screen():
    assert len((HERE / "README.md").read_text().partition("\n## ")[0].splitlines()) <= 60


@pytest.mark.skipif(not MYPY, reason="mypy is not installed")
def test_types(tmp_path):
    programs = [tmp_path / "first.py", tmp_path / "across.py"]
    for program, text in zip(programs, examples()):
        program.write_text(text)
    package = pathlib.Path(lockshm.__file__).parent
    for arguments, where in [([str(package)], HERE), *[([str(program)], tmp_path) for program in programs]]:
        out = subprocess.run(
            [MYPY, "--strict", "--cache-dir", str(tmp_path / "cache"), *arguments],
            cwd=where,
            env={**os.environ, "MYPYPATH": str(package.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert out.returncode == 0, out.stdout


@pytest.mark.skipif(not MYPY or not shutil.which("stubtest"), reason="mypy's stubtest is not installed")
def test_the_stubs_are_those_of_the_extension(tmp_path):
    out = subprocess.run(
        ["stubtest", "--concise", "lockshm._lockshm"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(pathlib.Path(lockshm.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stdout
