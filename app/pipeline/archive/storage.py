"""Files of the lake, on this machine or in any storage that PyIceberg supports."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def create_file(path: str, access: Mapping[str, str]) -> Any:
    """Create a file for writing, in a folder of this machine or in any storage that PyIceberg
    supports.
    """
    local = _local(path)
    if local is None:
        return _anywhere(path, access).new_output(path).create()
    local.parent.mkdir(parents=True, exist_ok=True)
    return local.open("xb")


def open_file(path: str, access: Mapping[str, str]) -> contextlib.AbstractContextManager[Any]:
    """Open a file for reading."""
    local = _local(path)
    found = local.open("rb") if local else _anywhere(path, access).new_input(path).open()
    return contextlib.closing(found)


def delete_file(path: str, access: Mapping[str, str]) -> None:
    """Delete a file."""
    local = _local(path)
    local.unlink() if local else _anywhere(path, access).delete(path)


def _local(path: str) -> Path | None:
    """Return the path on this machine; None for other storage. Like Hadoop, it takes ``%20`` in a
    URI literally.
    """
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return Path(path)
    return Path("/", rest.lstrip("/")) if scheme == "file" else None


def _anywhere(path: str, access: Mapping[str, str]) -> Any:
    from pyiceberg.io import load_file_io  # noqa: PLC0415 - heavy, and not needed for a folder

    return load_file_io(dict(access), path)
