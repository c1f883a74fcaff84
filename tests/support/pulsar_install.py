"""Install Apache Pulsar into ``.servers/`` of the checkout with Maven, unless it is there already.

The distribution is one tarball of 245 MB on Maven Central. Only its jars and one configuration file are
kept: they suffice to run a standalone server without the scripts.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from kafka_install import install_once, maven

VERSION = "4.0.8"
CHECKOUT = Path(__file__).resolve().parents[2]
SERVERS = CHECKOUT / ".servers"
HOME = SERVERS / f"pulsar-{VERSION}"

_NAME = "pulsar-server-distribution"
_ARTIFACT = f"org.apache.pulsar:{_NAME}:{VERSION}:tar.gz:bin"
_KEPT = ("lib/", "conf/standalone.conf")


def installed() -> bool:
    return HOME.is_dir()


def install() -> Path:
    """Install Pulsar unless it is there, and return its folder."""
    install_once("Pulsar", HOME, _fill)
    return HOME


def _fill(fresh: Path) -> None:
    goal = "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={fresh}"
    maven(f"Pulsar {VERSION}", fresh, *goal)
    [tarball] = fresh.glob("*.tar.gz")
    _unpack(tarball, fresh)
    tarball.unlink()


def _unpack(tarball: Path, where: Path) -> None:
    """Extract the files that a server needs, without the top folder of the tarball."""
    with tarfile.open(tarball) as archive:
        for member in archive:
            member.name = member.name.partition("/")[2]
            if member.isfile() and member.name.startswith(_KEPT):
                archive.extract(member, where, filter="data")
