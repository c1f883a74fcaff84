"""What tests take from the Go module proxy, into ``.servers``: programs that are built, and files of modules.

The proxy checks what it hands out against Go's checksum database, so a version is a pin.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kafka_install import SERVERS, Missing

_BUILD_TIME = 1500.0  # seconds: a cold cache beside busy neighbours


def program(name: str, package: str, version: str, tags: str = "") -> Path:
    """The executable of a main package, built once for its version. ``tags``: of the build. Raises Missing."""
    home = SERVERS / f"{name}-{version}"
    with one_at_a_time(name):
        if not (home / name).is_file():
            fresh = home.with_name(f"{home.name}.building")
            shutil.rmtree(fresh, ignore_errors=True)
            words = ("install", "-trimpath", f"-tags={tags}", f"{package}@{version}")
            _go(*words, GOBIN=str(fresh), GOFLAGS="")
            fresh.rename(home)
    return home / name


def module(path: str, version: str) -> Path:
    """The folder of a module as it was published. Raises Missing."""
    folder: str = json.loads(_go("mod", "download", "-json", f"{path}@{version}"))["Dir"]
    return Path(folder)


def _go(*words: str, **environ: str) -> str:
    if shutil.which("go") is None:
        raise Missing("go is not on the path (on Debian: apt-get install golang-go)")
    result = subprocess.run(
        ["go", *words],
        cwd=SERVERS,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_TIME,
    )
    if result.returncode:
        said = " ".join((result.stdout + result.stderr).split())[-400:]
        raise Missing(f"go {words[0]} {words[-1]}: {said}")
    return result.stdout


@contextlib.contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    SERVERS.mkdir(exist_ok=True)
    lock = os.open(SERVERS / f"{name}.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
