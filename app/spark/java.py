"""Find the Java that Spark runs on before pyspark starts it, so that a missing Java is reported
clearly.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from app.errors import SetupError

OLDEST = 17
"""The oldest major version of Java that Spark 4.0 runs on."""

_CURE = f"Install Java {OLDEST} or 21 (Debian: default-jre-headless) and have it on PATH, or set JAVA_HOME."
_ANSWERS_WITHIN = 30.0  # seconds
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find(environ: Mapping[str, str]) -> Path:
    """Return the program ``java`` of JAVA_HOME, or else of PATH, which is the order in which Spark
    looks.

    Raises:
        SetupError: There is no Java, or its version is too old for Spark.
    """
    found = _program(environ)
    if (version := _version(found)) < OLDEST:
        raise SetupError(f"{found} is Java {version}; Spark needs {OLDEST} or newer.", cure=_CURE)
    return found


def _program(environ: Mapping[str, str]) -> Path:
    if home := environ.get("JAVA_HOME"):
        program = Path(home, "bin", "java")
        if not program.is_file():
            raise SetupError(f"there is no {program}.", setting="JAVA_HOME", cure=_CURE)
        return program
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise SetupError("Spark runs on Java, and java is not on PATH.", cure=_CURE)
    return Path(found)


@cache
def _version(program: Path) -> int:
    """Return the major version of Java: 17 for ``openjdk version "17.0.15"``, 8 for ``java version
    "1.8.0_402"``. Each program is asked once, because its answer takes 0.1 s of CPU.
    """
    try:
        output = subprocess.run(  # noqa: S603 - the user's own Java, and a fixed argument
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWERS_WITHIN,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{program} does not run: {error}", cure=_CURE) from error
    found = _VERSION.search(output)
    if found is None:
        raise SetupError(f"{program} printed no version: {output.strip()!r}", cure=_CURE)
    return int(found[1])
