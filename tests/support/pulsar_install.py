"""Bring Apache Pulsar into ``.servers/`` of the checkout, with Maven. Idempotent.

The distribution is one tarball of 245 MB on Maven Central; of it the jars and one configuration file
are enough to run a standalone server, without the scripts around it.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from kafka_install import Missing, one_at_a_time

VERSION = "4.0.8"
CHECKOUT = Path(__file__).resolve().parents[2]
SERVERS = CHECKOUT / ".servers"
HOME = SERVERS / f"pulsar-{VERSION}"

_NAME = "pulsar-server-distribution"
_ARTIFACT = f"org.apache.pulsar:{_NAME}:{VERSION}:tar.gz:bin"
_KEPT = ("lib/", "conf/standalone.conf")
_LOG4J = """<Configuration status="WARN">
  <Appenders>
    <Console name="out" target="SYSTEM_ERR"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="${sys:level:-WARN}"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


def installed() -> bool:
    return HOME.is_dir()


def install() -> Path:
    """The folder of the distribution; fetched once, whoever of several processes comes first."""
    if shutil.which("java") is None:
        raise Missing("java is not on the path (a JDK 17 or newer runs Pulsar)")
    with one_at_a_time("pulsar"):
        if not installed():
            _fetch()
    return HOME


def _fetch() -> None:
    if shutil.which("mvn") is None:
        raise Missing("mvn is not on the path (Maven fetches Pulsar's distribution)")
    fresh = HOME.with_name(f"{HOME.name}.fetching")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    goal = ["dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={fresh}"]
    result = subprocess.run(["mvn", "-q", "-B", *goal], capture_output=True, text=True, check=False)
    if result.returncode:
        raise Missing(f"Maven could not fetch Pulsar {VERSION}: {_tail(result.stdout)}")
    [tarball] = fresh.glob("*.tar.gz")
    _unpack(tarball, fresh)
    tarball.unlink()
    (fresh / "log4j2.xml").write_text(_LOG4J)
    shutil.rmtree(HOME, ignore_errors=True)
    fresh.rename(HOME)


def _unpack(tarball: Path, where: Path) -> None:
    """What a server needs, without the folder that everything in the tarball is in."""
    with tarfile.open(tarball) as archive:
        for member in archive:
            member.name = member.name.partition("/")[2]
            if member.isfile() and member.name.startswith(_KEPT):
                archive.extract(member, where, filter="data")


def _tail(text: str) -> str:
    return " ".join(text.split())[-400:]
