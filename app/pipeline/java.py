"""The Java that Spark runs on: found before pyspark starts it, so that its absence is told plainly."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from app.errors import SetupError

OLDEST = 17
"""As Spark 4.0 asks for."""

_CURE = f"Install Java {OLDEST} or 21 (Debian: default-jre-headless) and have it on PATH, or set JAVA_HOME."
_ANSWERS_WITHIN = 30.0  # seconds
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find(environ: Mapping[str, str]) -> Path:
    """The program ``java`` of JAVA_HOME, or else of PATH: the order in which Spark itself looks.

    Raises SetupError where there is none, or one too old for Spark.
    """
    found = program(environ)
    if (version := _version(found)) < OLDEST:
        raise SetupError(f"{found} is Java {version}; Spark needs {OLDEST} or newer.", cure=_CURE)
    return found


def program(environ: Mapping[str, str]) -> Path:
    """As ``find``, of any version."""
    if home := environ.get("JAVA_HOME"):
        program = Path(home, "bin", "java")
        if not program.is_file():
            raise SetupError(f"there is no {program}.", setting="JAVA_HOME", cure=_CURE)
        return program
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise SetupError("Spark runs on Java, and java is not on PATH.", cure=_CURE)
    return Path(found)


def _version(program: Path) -> int:
    """17 for ``openjdk version "17.0.15"``, 8 for ``java version "1.8.0_402"``."""
    try:
        said = subprocess.run(  # noqa: S603 - the user's own Java, and a fixed word
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWERS_WITHIN,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{program} does not run: {error}", cure=_CURE) from error
    found = _VERSION.search(said)
    if found is None:
        raise SetupError(f"{program} does not say its version: {said.strip()!r}", cure=_CURE)
    return int(found[1])
