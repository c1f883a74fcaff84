"""Read regular files without blocking, and copy them for libraries that open files by name.

A path may lead to a pipe, a device or a socket. Opening a pipe waits for a writer, which would stop
the whole process, and data read from a pipe is gone. So such a path is refused like a missing file.
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
    """The error of a path that leads to a pipe, a device or a socket."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: str | Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        NotRegular: The path leads to a pipe, a device or a socket.
        OSError: The file cannot be read, or has more than 64 MiB (EFBIG).
    """
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
    """Return the text of a regular file in UTF-8, with line feeds as line ends."""
    return io.TextIOWrapper(io.BytesIO(read_regular(path)), "utf-8").read()


class _Memory:
    """A file in memory, open in this process alone and in no folder."""

    def __init__(self, content: bytes) -> None:
        descriptor = os.memfd_create("skybridge-pem", os.MFD_CLOEXEC)
        finalize(self, os.close, descriptor)
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        self.path = Path(f"/proc/self/fd/{descriptor}")


class _Temporary:
    """A temporary file that only its owner may read, for systems without files in memory."""

    def __init__(self, content: bytes) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="skybridge-")  # noqa: SIM115 - the file must exist as long as this object
        self._file.write(content)
        self._file.flush()
        self.path = Path(self._file.name)


def copy_of(path: Path) -> _Memory | _Temporary:
    """Return a copy of a regular file, which exists as long as the returned object. Raise OSError
    as ``read_regular`` does.
    """
    content = read_regular(path)
    return _Memory(content) if hasattr(os, "memfd_create") else _Temporary(content)
