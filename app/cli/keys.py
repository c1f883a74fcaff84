"""Read and write the keys of signatures: from options and files, into files that others cannot read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import exits, options, printing

if TYPE_CHECKING:
    from app.model.signing_key import SigningKey

WRITABLE = "Name a file in a folder that exists, and that you may write to."


def read_keys(named: Iterable[tuple[str, str]]) -> list[SigningKey]:
    """Return the keys of pairs of option and text, or end the command if one is malformed. No message
    repeats a key.
    """
    from app.model.signing_key import read_key

    keys = []
    for name, text in named:
        try:
            keys.append(read_key(text.strip()))
        except ValueError as error:
            printing.fail(
                f"{name}: {error}", cure="Make a key with skybridge secret.", code=exits.SETUP
            )
    return keys


def texts_of(option: str, files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield option and content of each key file, or end the command if one cannot be read."""
    for file in files:
        text = options.content(file).decode("utf-8", "replace")
        warn_if_readable(option, file)
        yield f"{option} {file}", text


def warn_if_readable(option: str, file: Path) -> None:
    """Warn of a file with a secret that every user of this machine can read."""
    if str(file) != "-" and file.stat().st_mode & stat.S_IROTH:
        printing.err().print(
            f"warning {option} {file} has a secret, and every user of this machine can read it. "
            f"Run chmod 600 {file}.",
            markup=False,
        )


def write_secret(file: Path, text: str, named: str) -> None:
    """Write a secret into a new file that only its owner can read (mode 0600), or end the command. Messages
    call the file ``named``.
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            os.fchmod(descriptor, 0o600)  # whatever the umask is
            out.write(f"{text}\n")
    except FileExistsError:
        printing.fail(
            f"{named} exists already, and its secret would be lost.",
            cure="Name a new file, or remove this one.",
            code=exits.SETUP,
        )
    except OSError as fault:
        printing.fail(
            f"{named} cannot be written: {fault.strerror}.", cure=WRITABLE, code=exits.SETUP
        )
