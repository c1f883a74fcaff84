"""Regular files, read without a wait for anybody, and copies of them for libraries that open files by name.

A path may lead to a pipe, a device or a socket. To open a pipe waits until somebody writes to it, which would stop
the whole process, and what is read from it is gone. So such a path is refused, as a file that does not exist is.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
from pathlib import Path
from weakref import finalize

LARGEST = 64 << 20  # bytes


class NotRegular(OSError):
    """The path leads to a pipe, a device or a socket."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: str | Path) -> bytes:
    """Return the content of a regular file. Raises OSError: NotRegular for a pipe or a device, EFBIG beyond 64 MiB."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise NotRegular(path) from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NotRegular(path)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def read_text(path: str | Path) -> str:
    """Return the text of a regular file in UTF-8, as ``open`` reads it: each line ends in a line feed."""
    return io.TextIOWrapper(io.BytesIO(read_regular(path)), "utf-8").read()


class _Memory:
    """A file of this process alone, without a place in any folder."""

    def __init__(self, content: bytes) -> None:
        descriptor = os.memfd_create("skybridge-pem", os.MFD_CLOEXEC)
        finalize(self, os.close, descriptor)
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        self.path = Path(f"/proc/self/fd/{descriptor}")


class _Temporary:
    """The same as a temporary file, which its owner alone may read."""

    def __init__(self, content: bytes) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="skybridge-")  # noqa: SIM115 - it lasts as long as this
        self._file.write(content)
        self._file.flush()
        self.path = Path(self._file.name)


def copy_of(path: Path) -> _Memory | _Temporary:
    """Return a copy of a regular file, which lasts as long as the object. Raises OSError as ``read_regular`` does."""
    content = read_regular(path)
    return _Memory(content) if hasattr(os, "memfd_create") else _Temporary(content)
