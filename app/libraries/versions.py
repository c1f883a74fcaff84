"""The guard of an adapter: a library of another version than the known ones may lack what the adapter uses."""

from __future__ import annotations

from importlib.metadata import version

from app.errors import SetupError


def demand(package: str, known: tuple[str, ...], adapter: str) -> None:
    """Raise SetupError if the installed ``package`` is of another version.

    Args:
        package: name of the distribution.
        known: beginnings of the versions that the adapter was tested with, such as ``0.14``.
        adapter: file that holds the undocumented names.
    """
    found = version(package)
    if not any(f"{found}.".startswith(f"{each}.") for each in known):
        raise SetupError(
            f"{package} {found} is not known to this release",
            cure=f"install {package} {' or '.join(known)}; to allow {found}, run the tests that "
            f"{adapter} names with it, and add it to KNOWN there",
        )
