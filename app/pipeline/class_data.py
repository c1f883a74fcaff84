"""What a JVM has made of Spark's classes, kept for the next one: a third of what a short command costs.

The first command at a terminal leaves a file when its JVM ends, some seconds after the command itself. A program that
reads the output would wait for the JVM: there a file is taken and none is left. A JVM takes no file of another version
of Java or with other jars, nor one that was not written to its end.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from app.pipeline import java

_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""Java warns of each class that it cannot keep."""
_OWN: Final = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare")
_SLOWEST: Final = timedelta(minutes=10)
"""That a JVM may take to write it."""


def options(
    jars: Sequence[Path], given: str, *, leave: bool, environ: Mapping[str, str] = os.environ
) -> str:
    """For a JVM with these jars: to take what is kept, or to ``leave`` it. None where the options ``given`` say
    otherwise, the folder of the jars cannot be written, or has a space, which ends an option.
    """
    folder = jars[0].parent
    unfit = any(map(str.isspace, str(folder))) or not os.access(folder, os.W_OK)
    if unfit or any(name in given for name in _OWN):
        return ""
    kept = folder / f"spark-{_version(jars, java.program(environ))}.jsa"
    if _whole(kept):
        return f"{_QUIET} -XX:SharedArchiveFile={kept}"
    if not leave or _is_being_written(kept):
        return ""
    for old in folder.glob("spark-*.jsa"):
        old.unlink(missing_ok=True)
    return f"{_QUIET} -XX:ArchiveClassesAtExit={kept}"


def _version(jars: Sequence[Path], program: Path) -> str:
    """Of what a JVM compares, so far as it is known before Java runs."""
    java_of = program.resolve()
    parts = [str(java_of), str(java_of.stat().st_mtime_ns), *(jar.name for jar in jars)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _is_being_written(kept: Path) -> bool:
    try:
        begun = datetime.fromtimestamp(kept.stat().st_mtime, UTC)
    except OSError:
        return False
    return datetime.now(UTC) - begun < _SLOWEST


def _whole(kept: Path) -> bool:
    """Java writes the head of the file last."""
    try:
        with kept.open("rb") as file:
            return any(file.read(4))
    except OSError:
        return False
