# SPDX-License-Identifier: MIT
"""The part of the build that pyproject.toml cannot say: flags of the C library, by pkg-config or from the environment."""

import glob
import os
import shlex
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def flags(variable, option):
    """LOCKSHM_CFLAGS and LOCKSHM_LIBS, if given, replace what pkg-config says."""
    text = os.environ.get(variable)
    if text is None:
        command = [os.environ.get("PKG_CONFIG", "pkg-config"), option, "lockshm"]
        try:
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"lockshm: the C library is not installed, or pkg-config does not find it ({error})")
    return shlex.split(text)


class BuildWithLibrary(build_ext):
    """Only this needs the library: an archive of the source is made, and its metadata read, without it."""

    def build_extension(self, extension):
        extension.extra_compile_args += flags("LOCKSHM_CFLAGS", "--cflags")
        extension.extra_link_args += flags("LOCKSHM_LIBS", "--libs")
        super().build_extension(extension)


setup(
    cmdclass={"build_ext": BuildWithLibrary},
    ext_modules=[
        Extension(
            "lockshm._lockshm",
            sorted(glob.glob("src/_lockshm/*.c")),
            depends=["src/_lockshm/lockshm_py.h"],
            define_macros=[("Py_LIMITED_API", "0x030a0000")],
            py_limited_api=True,
            extra_compile_args=["-std=c11", "-fvisibility=hidden"],
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
