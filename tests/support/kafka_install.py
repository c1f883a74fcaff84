"""Fetch Apache Kafka as jars into ``.servers/`` of the checkout, with Maven. Repeated calls fetch
nothing.

No Docker and no unpacked distribution is needed. Maven Central has the broker, its storage tool and its
command-line classes. They can be run from a class path.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

VERSION = "4.3.1"
CHECKOUT = Path(__file__).resolve().parents[2]
SERVERS = CHECKOUT / ".servers"
HOME = SERVERS / f"kafka-{VERSION}"
JARS = HOME / "jars"

_DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>test</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_LOG4J = """<Configuration status="WARN">
  <Appenders>
    <Console name="out" target="SYSTEM_ERR"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="${sys:level:-WARN}"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


class Missing(Exception):
    """The machine lacks something that a test server needs. The text names it and the cure."""


def installed() -> bool:
    return HOME.is_dir()


def install() -> Path:
    """Return the folder of Kafka's jars, fetched if necessary. Raises Missing if that fails."""
    install_once("Kafka", HOME, _fill)
    return JARS


def install_once(what: str, home: Path, fill: Callable[[Path], None]) -> None:
    """Fill the folder ``home`` of a server once, even if several processes ask at the same time.

    Raises Missing without Java or Maven.

    Args:
        what: The name of the server, for messages and for the lock.
        home: The folder to make.
        fill: The function that fills an empty folder with what ``home`` must have.
    """
    if shutil.which("java") is None:
        raise Missing(
            f"java is not on the path, and {what} needs Java 17 or newer. Cure on Debian: apt-get install "
            "default-jre-headless"
        )
    with one_at_a_time(what.lower()):
        if home.is_dir():
            return
        if shutil.which("mvn") is None:
            raise Missing(
                f"mvn is not on the path, and Maven fetches {what}. Cure on Debian: apt-get install maven"
            )
        fresh = home.with_name(f"{home.name}.fetching")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        (fresh / "log4j2.xml").write_text(_LOG4J)
        fill(fresh)
        fresh.rename(home)


def maven(what: str, folder: Path, *goal: str) -> None:
    """Run Maven in ``folder`` to fetch ``what``. Raises Missing if Maven fails."""
    command = ["mvn", "-q", "-B", *goal]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        told = " ".join(result.stdout.split())[-400:]
        raise Missing(f"Maven could not fetch {what}: {told}")


def _fill(fresh: Path) -> None:
    (fresh / "pom.xml").write_text(_pom())
    goal = "dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime"
    maven(f"Kafka {VERSION}", fresh, *goal)


def _pom() -> str:
    dependency = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
    return _POM.format(dependencies="".join(dependency.format(*each) for each in _DEPENDENCIES))


@contextlib.contextmanager
def one_at_a_time(name: str, folder: Path = SERVERS) -> Iterator[None]:
    """Hold the lock of this name during the block. Other threads and processes that want it wait."""
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / f"{name}.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
