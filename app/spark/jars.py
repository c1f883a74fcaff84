"""The jars that Spark needs in addition to those of pyspark, each pinned by its checksum.

The jars are downloaded once from a Maven repository into a folder of the user and given to Spark as
files. No resolver runs when a session starts, so Spark runs exactly the tested versions. They are
the newest versions that resolve together (ADR 0021): the Kafka connector 4.0.3 requires a token
provider that was never published.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from app.errors import SetupError
from app.libraries.httpx_client import httpx
from app.spark.settings import SparkEngine

MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"
FOLDER = "SKYBRIDGE_JARS"
REPOSITORY = "SKYBRIDGE_MAVEN_REPOSITORY"

WAIT = httpx.Timeout(30.0, connect=10.0)  # seconds between two pieces, and for a connection
_PIECE = 1 << 16  # bytes


class Jar(msgspec.Struct, frozen=True):
    """A jar in a Maven repository.

    Attributes:
        group: The Maven group.
        artifact: The Maven artifact.
        version: The version.
        size: The size in bytes, for the progress bar.
        sha256: The SHA-256 digest of the file, in hexadecimal.
    """

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Return the path of the jar below the address of a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


JARS = (
    Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0", 467_590,
        "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3"),
    Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", 64_975,
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"),
    Jar("org.apache.kafka", "kafka-clients", "3.9.0", 9_204_801,
        "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18"),
    Jar("org.apache.commons", "commons-pool2", "2.12.0", 150_048,
        "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b"),
    Jar("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.11.0", 47_926_285,
        "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc"),
    Jar("org.xerial", "sqlite-jdbc", "3.46.1.3", 14_127_503,
        "4a4832720a65eaf7f4d6fd7ede52087b994dc5633c076f9e994dc0c8b4b0b4fa"),
)  # fmt: skip

POSTGRESQL = Jar("org.postgresql", "postgresql", "42.7.4", 1_086_687,
                 "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e")  # fmt: skip
"""The driver for a catalog in PostgreSQL."""

S3 = Jar("org.apache.iceberg", "iceberg-aws-bundle", "1.11.0", 63_613_165,
         "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f")  # fmt: skip
"""Iceberg's classes for S3, with the AWS SDK that they need."""

ReceivedCallback = Callable[[Jar, int], None]
"""A callback that receives a jar and the number of bytes that were just downloaded."""


def folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the jars: ``SKYBRIDGE_JARS``, or ``jars`` in the cache folder of the
    user.
    """
    if own := environ.get(FOLDER):
        return Path(own).absolute()
    cache = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "skybridge", "jars").absolute()


def repository(environ: Mapping[str, str]) -> str:
    """Return the address of the Maven repository: ``SKYBRIDGE_MAVEN_REPOSITORY``, or Maven Central.

    Raises:
        SetupError: The setting is not an http or https address.
    """
    address = environ.get(REPOSITORY) or MAVEN_CENTRAL
    if not address.startswith(("http://", "https://")):
        raise SetupError(
            f"{address!r} is not an http or https address.",
            setting=REPOSITORY,
            cure=f"Set it to the address of a Maven repository, such as {MAVEN_CENTRAL}.",
        )
    return address.rstrip("/")


def needed(engine: SparkEngine) -> tuple[Jar, ...]:
    """Return the jars of Skybridge that this Spark needs."""
    postgresql = (POSTGRESQL,) if engine.with_postgresql else ()
    return (*JARS, *postgresql, *((S3,) if engine.with_s3 else ()))


def paths(engine: SparkEngine, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the files for ``spark.jars``. Missing files are downloaded first, as the environment
    configures.
    """
    return ensure_jars(folder(environ), source=repository(environ), wanted=needed(engine))


def missing(where: Path, wanted: Sequence[Jar] = JARS) -> list[Jar]:
    """Return the jars whose file is missing in the folder or has another checksum."""
    return [jar for jar in wanted if _digest(where / jar.name) != jar.sha256]


def ensure_jars(
    where: Path,
    *,
    source: str = MAVEN_CENTRAL,
    told: ReceivedCallback = lambda _jar, _bytes: None,
    wanted: Sequence[Jar] = JARS,
) -> list[Path]:
    """Return the files of all jars, after downloading those that are missing in the folder
    ``where``.

    A file appears in the folder only when its checksum is right. A jar that is present is never
    downloaded again. During a download, ``told`` is called with the jar and the number of bytes
    just received.

    Raises:
        SetupError: Some jars could not be downloaded; the message names each with its cause.
    """
    absent = missing(where, wanted)
    if absent and (faults := list(_fetch_all(absent, where, source, told))):
        places = " ".join(f"{source}/{jar.path}" for jar, _ in faults)
        raise SetupError(
            "; ".join(f"{jar.name}: {why}" for jar, why in faults) + ".",
            cure=f"Set {REPOSITORY} to a Maven repository that answers, or bring {places} into "
            f"{where} by hand ({FOLDER} names another folder).",
        )
    return files(where, wanted)


def files(where: Path, wanted: Sequence[Jar] = JARS) -> list[Path]:
    return [where / jar.name for jar in wanted]


def _fetch_all(
    wanted: Sequence[Jar], where: Path, source: str, told: ReceivedCallback
) -> Iterator[tuple[Jar, str]]:
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        yield from ((jar, f"{where} cannot be made: {error.strerror}") for jar in wanted)
        return
    with httpx.Client(timeout=WAIT, follow_redirects=True) as client:
        for jar in wanted:
            try:
                _fetch(client, jar, where, f"{source}/{jar.path}", told)
            except httpx.HTTPStatusError as error:
                yield jar, f"the repository answers {error.response.status_code}"
            except (httpx.HTTPError, OSError) as error:
                yield jar, f"{error!s}" or repr(error)


def _fetch(client: httpx.Client, jar: Jar, where: Path, url: str, told: ReceivedCallback) -> None:
    """Download a jar and move it into the folder once its checksum is right. Other processes never
    see a partial file.
    """
    handle, name = tempfile.mkstemp(prefix=f".{jar.name}.", dir=where)
    try:
        with os.fdopen(handle, "wb") as file, client.stream("GET", url) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes(_PIECE):
                file.write(piece)
                told(jar, len(piece))
        if (found := _digest(Path(name))) != jar.sha256:
            raise OSError(f"its SHA-256 is {found}, and not {jar.sha256}")
        Path(name).chmod(0o644)  # mkstemp creates files that only the owner can read
        Path(name).replace(where / jar.name)
    finally:
        Path(name).unlink(missing_ok=True)


def _digest(path: Path) -> str:
    """Return the SHA-256 digest of a file; empty if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return ""
    return _digest_of(path, found.st_mtime_ns, found.st_size)


@cache
def _digest_of(path: Path, *_state: int) -> str:
    """Read a file once for each state, because a command looks twice at a hundred megabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
