"""GitHub's example webhook payloads, from npm: fetched once into a cache folder, never committed.

The package is one JSON document; each payload in it is kept as the very bytes it has there.
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
FETCH_WITHIN = 60.0  # seconds
_DOCUMENT = "package/api.github.com/index.json"


class _Kind(msgspec.Struct):
    name: str
    examples: list[msgspec.Raw]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """``SKYBRIDGE_CACHE``, or the user's own cache folder."""
    if own := environ.get("SKYBRIDGE_CACHE"):
        return Path(own)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skybridge"


def payloads(folder: Path) -> list[tuple[str, bytes]]:
    """Event name and payload bytes, in the order of the package.

    Raises SetupError when the package is not in ``folder`` and npm cannot bring it.
    """
    tarball = folder / TARBALL
    if not tarball.exists():
        _fetch(folder)
    return read(tarball)


def read(tarball: Path) -> list[tuple[str, bytes]]:
    """What ``payloads`` gives, from a file whose digest must be the known one."""
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
        subprocess.run(  # noqa: S603 - fixed words, found by which
            command, check=True, capture_output=True, timeout=FETCH_WITHIN, cwd=folder
        )
    except (subprocess.SubprocessError, OSError) as failure:
        raise SetupError(f"npm could not fetch {PACKAGE}: {failure}") from failure
