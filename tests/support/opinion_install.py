"""Build the drivers of the official SDKs into ``.servers/opinions``, each from its own registry.

A driver is built once for each state of its sources and its lock file.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_install import SERVERS, Missing, one_at_a_time

SOURCES = Path(__file__).resolve().parents[1] / "opinions"
HOME = SERVERS / "opinions"
_BUILD_TIME = 600.0  # seconds for one step with a cold cache


@dataclass(frozen=True)
class Sdk:
    """An SDK: the programs that it needs, how its driver is built, and how the driver is started.

    Attributes:
        name: The name of the SDK, and of the folder of its sources unless ``sources`` is set.
        release: The package and version under test.
        needs: Programs that must be on the path.
        steps: The commands that build the driver.
        start: The command that starts the driver; ``{folder}`` is the folder of the build.
        sources: The folder of the sources. None selects the folder with the name of the SDK.
    """

    name: str
    release: str
    needs: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    start: tuple[str, ...]
    sources: Path | None = None

    @property
    def folder(self) -> Path:
        return self.sources or SOURCES / self.name


_PACKAGES = ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars")
_JAVA_STEPS = (
    (*_PACKAGES, "-DincludeScope=runtime"),
    ("javac", "--release", "17", "-cp", "jars/*", "-d", "classes", "Opinion.java"),
)
_JAVA = "java", "-XX:TieredStopAtLevel=1", "-cp", "{folder}/classes:{folder}/jars/*", "Opinion"


def _of_java(name: str, release: str) -> Sdk:
    return Sdk(name, release, ("java", "javac", "mvn"), _JAVA_STEPS, _JAVA)


def _of_node(name: str, release: str) -> Sdk:
    steps = (("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"),)
    return Sdk(name, release, ("node", "npm"), steps, ("node", "{folder}/opinion.js"))


SDKS: Mapping[str, Sdk] = {
    sdk.name: sdk
    for sdk in (
        Sdk("python", "cloudevents 2.2.0", (), (), (sys.executable, "{folder}/opinion.py")),
        Sdk(
            "go",
            "sdk-go 2.16.2",
            ("go",),
            (("go", "build", "-mod=readonly", "-trimpath", "-o", "opinion", "."),),
            ("{folder}/opinion",),
        ),
        _of_java("java", "io.cloudevents 4.0.1"),
        _of_node("javascript", "cloudevents 10.0.0"),
    )
}

CESQL = _of_java("cesql", "io.cloudevents:cloudevents-sql 4.0.1")
"""The CloudEvents SQL package of the Java SDK. Its driver answers questions about expressions."""

SIGNATURES = _of_node("signatures", "standardwebhooks 1.1.1")
"""The npm package of Standard Webhooks. Its driver answers questions about signatures."""

KAFKA_CLIENT = Sdk(
    "kafka-client",
    "franz-go 1.20.7",
    ("go",),
    SDKS["go"].steps,
    ("{folder}/opinion",),
    SOURCES.parent / "kafka_clients" / "go",
)
"""A Kafka client in Go. Its driver reports what the client sees of the embedded log's listener."""


SPECTRAL = Sdk(
    "spectral",
    "spectral 6.16.3",
    ("node", "npm"),
    SIGNATURES.steps,
    ("node", "{folder}/node_modules/@stoplight/spectral-cli/dist/index.js", "lint"),
    SOURCES.parent / "openapi" / "spectral",
)
"""The linter of OpenAPI and AsyncAPI documents."""


OF_NPM = (SDKS["javascript"], SIGNATURES)
"""The drivers that ``make test`` runs. The nightly tests build the others, and install the linter."""


def installed(sdk: Sdk) -> Path:
    """Return the folder of a driver that is ready to start. The driver is built if necessary."""
    if not sdk.steps:
        return sdk.folder
    folder = HOME / f"{sdk.name}-{_digest(sdk)}"
    with one_at_a_time(f"opinion-{sdk.name}"):
        if not folder.is_dir():
            _build(sdk, folder)
    return folder


def command(sdk: Sdk, folder: Path) -> list[str]:
    return [part.format(folder=folder) for part in sdk.start]


def _digest(sdk: Sdk) -> str:
    summed = hashlib.sha256(repr(sdk.steps).encode())
    for path in sorted(each for each in sdk.folder.iterdir() if each.is_file()):
        summed.update(path.name.encode() + b"\0" + path.read_bytes())
    return summed.hexdigest()[:12]


def _build(sdk: Sdk, folder: Path) -> None:
    for program in sdk.needs:
        if shutil.which(program) is None:
            raise Missing(f"{program} is not on the path. Cure: install it.")
    for old in HOME.glob(f"{sdk.name}-*"):
        shutil.rmtree(old)
    fresh = HOME / f"building-{sdk.name}"
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(sdk.folder, fresh)
    for step in sdk.steps:
        _run(sdk, step, fresh)
    fresh.rename(folder)


def _run(sdk: Sdk, step: Sequence[str], folder: Path) -> None:
    result = subprocess.run(
        step, cwd=folder, capture_output=True, text=True, check=False, timeout=_BUILD_TIME
    )
    if result.returncode:
        said = " ".join((result.stdout + result.stderr).split())[-400:]
        raise Missing(f"{step[0]} could not build the driver for {sdk.release}: {said}")
