"""Fetch the official JSON Schema of AsyncAPI from the npm package of that project. Repeated calls
fetch nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from kafka_install import SERVERS, Missing, one_at_a_time

PACKAGE = "@asyncapi/specs@6.11.1"
FILE = "asyncapi-specs-6.11.1.tgz"
SHA512 = "A3WBLqAKGoJ2+6FWFtpjBlCQ1oFCcs4GxF7zsIGvNqp/klGUHjlA3aAcZ9XMMpLGE8zPeYDz2x9FmO6DSuKraQ=="
_TIME = 120.0  # seconds


def install() -> Path:
    """Return the path of the npm package, fetched if necessary. Raises Missing if npm cannot fetch
    it.
    """
    kept = SERVERS / FILE
    with one_at_a_time("asyncapi"):
        if not kept.is_file():
            _fetch()
        found = base64.b64encode(hashlib.sha512(kept.read_bytes()).digest()).decode()
        if found != SHA512:
            kept.unlink()
            raise Missing(f"{PACKAGE} is damaged or was changed. Cure: run make servers again")
    return kept


def schema(version: str) -> dict[str, Any]:
    """Return the JSON Schema of AsyncAPI documents of this version. Raises Missing if npm cannot
    fetch the package.
    """
    with tarfile.open(install()) as package:
        file = package.extractfile(f"package/schemas/{version}.json")
        assert file is not None
        found: dict[str, Any] = json.load(file)
        return found


def _fetch() -> None:
    command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(SERVERS)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIME)
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", "") or str(error)
        raise Missing(
            f"npm cannot fetch {PACKAGE}: {output.strip()[-300:]}. Cure: install Node.js 20 or later,"
            " and check that the registry can be reached."
        ) from None


if __name__ == "__main__":
    print(install())
