"""A cache of parsed Spark classes for the JVM (class data sharing), which saves a third of the time
of a short command.

The JVM of the first command at a terminal writes the cache file when it ends, some seconds after
the command. A command whose output is piped uses the file but never writes it, because the reader
would wait for the JVM. A JVM ignores a file of another Java version, a file for other jars, and an
incomplete file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from app.spark import java

_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""Options that silence the warning of Java about each class that it cannot cache."""
_OWN: Final = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare")
_SLOWEST: Final = timedelta(minutes=10)
"""The longest time that a JVM may take to write the cache file."""


def options(
    jars: Sequence[Path], given: str, *, leave: bool, environ: Mapping[str, str] = os.environ
) -> str:
    """Return the JVM options that use the class cache for these jars, or that write it.

    Return an empty string if ``given`` already sets an option of the cache or the folder of the
    jars is read-only. The same holds if its path has a space, which would end an option.

    Args:
        jars: The jars on the class path of the JVM.
        given: The JVM options that the operator set.
        leave: Whether the JVM may write the cache file when none exists.
        environ: The environment that determines which Java runs.
    """
    folder = jars[0].parent
    unfit = any(map(str.isspace, str(folder))) or not os.access(folder, os.W_OK)
    if unfit or any(name in given for name in _OWN):
        return ""
    kept = folder / f"spark-{_cache_key(jars, java.program(environ))}.jsa"
    if _is_complete(kept):
        return f"{_QUIET} -XX:SharedArchiveFile={kept}"
    if not leave or _is_being_written(kept):
        return ""
    for old in folder.glob("spark-*.jsa"):
        old.unlink(missing_ok=True)
    return f"{_QUIET} -XX:ArchiveClassesAtExit={kept}"


def _cache_key(jars: Sequence[Path], program: Path) -> str:
    """Return a hash of everything the JVM compares that is known before Java runs: the program and
    the jars.
    """
    java_of = program.resolve()
    parts = [str(java_of), str(java_of.stat().st_mtime_ns), *(jar.name for jar in jars)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _is_being_written(kept: Path) -> bool:
    try:
        begun = datetime.fromtimestamp(kept.stat().st_mtime, UTC)
    except OSError:
        return False
    return datetime.now(UTC) - begun < _SLOWEST


def _is_complete(kept: Path) -> bool:
    """Return True if the cache file is complete: Java writes the first four bytes last."""
    try:
        with kept.open("rb") as file:
            return any(file.read(4))
    except OSError:
        return False
