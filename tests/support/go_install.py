"""Fetch files of Go modules from the Go module proxy.

``go`` checks downloads against Go's checksum database, so a version always has the same content.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from kafka_install import SERVERS, Missing

_WITHIN = 1500.0  # seconds: for a cold cache on a busy machine


def module(path: str, version: str) -> Path:
    """Return the folder of a published Go module. Raises Missing if it cannot be fetched."""
    folder: str = json.loads(go("mod", "download", "-json", f"{path}@{version}"))["Dir"]
    return Path(folder)


def go(*words: str, **environ: str) -> str:
    """Run ``go`` with further environment variables, and return its output. Raises Missing if it is not installed or
    fails."""
    if shutil.which("go") is None:
        raise Missing("go is not on the path (on Debian: apt-get install golang-go)")
    result = subprocess.run(
        ["go", *words],
        cwd=SERVERS,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=_WITHIN,
    )
    if result.returncode:
        said = " ".join((result.stdout + result.stderr).split())[-400:]
        raise Missing(f"go {words[0]} {words[-1]}: {said}")
    return result.stdout
