"""Files of modules that tests take from the Go module proxy.

The proxy checks what it hands out against Go's checksum database, so a version is a pin.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from kafka_install import SERVERS, Missing

_WITHIN = 1500.0  # seconds: a cold cache beside busy neighbours


def module(path: str, version: str) -> Path:
    """The folder of a module as it was published. Raises Missing."""
    folder: str = json.loads(_go("mod", "download", "-json", f"{path}@{version}"))["Dir"]
    return Path(folder)


def _go(*words: str) -> str:
    if shutil.which("go") is None:
        raise Missing("go is not on the path (on Debian: apt-get install golang-go)")
    result = subprocess.run(
        ["go", *words],
        cwd=SERVERS,
        capture_output=True,
        text=True,
        check=False,
        timeout=_WITHIN,
    )
    if result.returncode:
        said = " ".join((result.stdout + result.stderr).split())[-400:]
        raise Missing(f"go {words[0]} {words[-1]}: {said}")
    return result.stdout
