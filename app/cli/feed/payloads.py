"""Example webhook payloads of GitHub. They are fetched from npm once into a cache folder, and are
not part of this repository.

The npm package contains one JSON document. Each payload has the same bytes as in this document.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.errors import SetupError

PACKAGE = "@octokit/webhooks-examples@7.6.1"
TARBALL = "octokit-webhooks-examples-7.6.1.tgz"
SHA512 = (
    "0dee94dd707a3b70ed09aedb2a008ccd31dd7a8a6aa99e92362bcc6099caeb98"
    "9eaca2f5027348034b644580914bb970193efdd9df8fb3559b7c796ca3a3329d"
)
FETCH_TIMEOUT = 60.0  # seconds
_DOCUMENT = "package/api.github.com/index.json"


class _Kind(msgspec.Struct):
    name: str
    examples: list[msgspec.Raw]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that the variable ``SKYBRIDGE_CACHE`` names, or else the cache folder of
    the user.
    """
    if own := environ.get("SKYBRIDGE_CACHE"):
        return Path(own)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skybridge"


def payloads(folder: Path) -> list[tuple[str, bytes]]:
    """Return the event name and the bytes of each payload, in the order of the package.

    Raises:
        SetupError: If the package is not in ``folder`` and npm cannot fetch it.
    """
    tarball = folder / TARBALL
    if not tarball.exists():
        _fetch(folder)
    return read(tarball)


def read(tarball: Path) -> list[tuple[str, bytes]]:
    """Check the SHA-512 digest of a package file. Return the event names and payloads in the file."""
    if hashlib.sha512(tarball.read_bytes()).hexdigest() != SHA512:
        raise SetupError(f"{tarball} is not {PACKAGE}.", cure="Delete it and retry.")
    with tarfile.open(tarball) as archive:
        document = archive.extractfile(_DOCUMENT)
        content = document.read() if document else b"[]"
    kinds = msgspec.json.decode(content, type=list[_Kind])
    return [(kind.name, bytes(example)) for kind in kinds for example in kind.examples]


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SetupError("npm is not installed.", cure="Install npm.")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", PACKAGE, "--silent", "--pack-destination", os.fspath(folder)]
    try:
        subprocess.run(  # noqa: S603 - fixed arguments; the path comes from which
            command, check=True, capture_output=True, timeout=FETCH_TIMEOUT, cwd=folder
        )
    except (subprocess.SubprocessError, OSError) as failure:
        raise SetupError(
            f"npm could not fetch {PACKAGE}: {failure}.",
            cure="Connect to the npm registry, and retry.",
        ) from failure
