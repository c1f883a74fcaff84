"""A wall clock of a process that a run can shift while the process runs. Its monotonic clock stays as it is."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafka_install import Missing

SOURCE = Path(__file__).with_name("clock.c")
_NANOSECONDS = 1_000_000_000


class ShiftedClock:
    """The wall clock of one program. Its files are beside ``place``."""

    def __init__(self, place: Path) -> None:
        """Compile the library. Raises Missing if the machine has no C compiler."""
        self._file = place.with_suffix(".shift")
        self._library = place.with_suffix(".so")
        if shutil.which("cc") is None:
            raise Missing("cc is not on the path. Cure on Debian: apt-get install gcc libc6-dev")
        made = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE)]
        subprocess.run(made, check=True)
        self._file.write_bytes(bytes(8))

    def environ(self) -> Mapping[str, str]:
        """Return the environment in which a program has this clock."""
        return {"LD_PRELOAD": str(self._library), "PROOF_CLOCK": str(self._file)}

    def shift(self, seconds: float) -> None:
        """Let the clock be ahead of the machine's by so many seconds, from now on."""
        with self._file.open("r+b") as file:  # the program has mapped this very file
            file.write(struct.pack("q", round(seconds * _NANOSECONDS)))
