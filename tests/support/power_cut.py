"""A disk that loses unsynced writes: an apsw VFS that knows which writes were synced.

Files are really written, through the ordinary VFS. For each file the disk also keeps the *durable
image*:
the content that an xSync has promised. A power cut at the n-th operation freezes that image for every
file, with a random part of the later writes. Some of these are torn at the edge of a sector, as a disk
with a cache may leave them. ``restore`` writes the frozen images into a folder for the engine to open.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import apsw

SECTOR = 512


class ForgetfulDisk:
    """A disk whose power fails at a chosen operation.

    Args:
        seed: The seed of the random choices.
        cut_at: The number of the operation (write, truncate or sync) at which the power fails; 0: never.
        kept: Shares of its unsynced writes that a file may keep. One is drawn for each file.
    """

    def __init__(
        self, seed: int, cut_at: int = 0, kept: Sequence[float] = (0.0, 0.5, 0.9, 1.0)
    ) -> None:
        self.name = f"forgetful-{uuid4().hex}"
        self.operations = 0
        self.cut_at = cut_at
        self.frozen: dict[str, bytes] | None = None
        self.fail_syncs = False
        self.lock = threading.RLock()
        self._random = Random(seed)
        self._kept = kept
        self._files: dict[str, _Shadow] = {}
        self._vfs = _Vfs(self)

    @property
    def is_cut(self) -> bool:
        return self.frozen is not None

    def close(self) -> None:
        self._vfs.unregister()

    def restore(self, folder: Path) -> None:
        assert self.frozen is not None
        folder.mkdir(parents=True)
        for name, image in self.frozen.items():
            (folder / name).write_bytes(image)

    def shadow(self, path: str) -> _Shadow:
        name = Path(path).name
        if name not in self._files:
            self._files[name] = _Shadow()
        return self._files[name]

    def forget(self, path: str) -> None:
        self._files.pop(Path(path).name, None)

    def step(self) -> None:
        """Count an operation that is about to happen. Raise ``apsw.IOError`` if the power is off."""
        if self.is_cut:
            raise apsw.IOError("the power is off")
        self.operations += 1
        if self.operations == self.cut_at:
            self.cut()
            raise apsw.IOError("the power went off")

    def cut(self) -> None:
        """Cut the power now, unless it was cut before."""
        with self.lock:
            if self.frozen is None:
                files = self._files.items()
                self.frozen = {
                    name: shadow.after_cut(self._random, self._kept) for name, shadow in files
                }


class _Shadow:
    """The durable image of one file, and its writes that were not synced yet."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []  # None: truncate at the offset

    def sync(self) -> None:
        for offset, data in self.pending:
            _apply(self.durable, offset, data)
        self.pending.clear()

    def after_cut(self, random: Random, shares: Sequence[float]) -> bytes:
        image = bytearray(self.durable)
        kept = random.choice(shares)
        for offset, data in self.pending:
            if random.random() >= kept:
                continue
            _apply(image, offset, _torn(data, random))
        return bytes(image)


def _torn(data: bytes | None, random: Random) -> bytes | None:
    if data is None or len(data) <= SECTOR or random.random() < 0.7:
        return data
    return data[: random.randrange(1, len(data) // SECTOR + 1) * SECTOR]


def _apply(image: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


class _Vfs(apsw.VFS):
    """The VFS that routes every write of SQLite through the disk."""

    def __init__(self, disk: ForgetfulDisk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 - apsw's name
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - apsw's name
        with self._disk.lock:
            self._disk.step()
            self._disk.forget(filename)
            super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    """A file that counts its writes, truncations and syncs as operations of the disk."""

    def __init__(self, disk: ForgetfulDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._shadow = disk.shadow(path) if path else _Shadow()
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - apsw's name
        with self._disk.lock:
            self._disk.step()
            self._shadow.pending.append((offset, bytes(data)))
            super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - apsw's name
        with self._disk.lock:
            self._disk.step()
            self._shadow.pending.append((newsize, None))
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        with self._disk.lock:
            self._disk.step()
            if self._disk.fail_syncs:
                raise apsw.IOError("the sync failed")
            self._shadow.sync()
            super().xSync(flags)
