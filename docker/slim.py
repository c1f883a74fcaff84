# ruff: noqa: INP001, T201 - a program of its own, in a stage of the image
"""Remove from installed packages what a running service does not need, and print what that saves.

    python slim.py FOLDER     the Dockerfile runs it on /opt/skybridge

It removes tests and examples of packages, sources and types of compiled modules, and everything of a shared
library that is behind its loaded segments: symbols and information for debuggers. The loader reads
program headers alone, so a library loads as before. Byte code stays, because a service with a
read-only root file system could not write it, and would start slowly each time.
"""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = (
    "alembic/testing",
    "apsw/sqlite_extra_binaries",  # extensions of SQLite, which no code loads
    "apsw/tests",
    "certifi/tests",
    "sqlalchemy/testing",
)
SOURCES = {".c", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"}

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")


def main(folder: Path) -> None:
    """Remove the superfluous files of a virtual environment."""
    (packages,) = folder.glob("lib/python3.*/site-packages")
    before = _size(folder)
    for name in TESTS:
        shutil.rmtree(packages / name, ignore_errors=True)
    _print("tests", before, after := _size(folder))
    for path in _files(packages):
        if path.suffix in SOURCES:
            path.unlink()
    _print("sources and types", after, less := _size(folder))
    for path in _files(packages):
        if ".so" in path.suffixes:
            path.write_bytes(stripped(path.read_bytes()))
    _print("symbols", less, least := _size(folder))
    _print("all", before, least)


def stripped(library: bytes) -> bytes:
    """Return an ELF library without what is behind its last segment, and without section headers.
    Return any other file unchanged.
    """
    if not library.startswith(_MAGIC):
        return library
    header = [*_HEADER.unpack_from(library)]
    first, size, count = header[5], header[9], header[10]
    end = max(first + size * count, _HEADER.size)
    for number in range(count):
        _, _, offset, _, _, length, _, _ = _SEGMENT.unpack_from(library, first + size * number)
        end = max(end, offset + length)
    header[6] = 0  # where the section headers are
    header[11:] = [header[11], 0, 0]  # their number, and the section of their names
    return _HEADER.pack(*header) + library[_HEADER.size : end]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def _print(what: str, before: int, after: int) -> None:
    print(f"{what}: {before / 1e6:.0f} MB -> {after / 1e6:.0f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
