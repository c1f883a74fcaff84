"""Check that a library has a version with which its adapter was tested."""

from __future__ import annotations

from importlib.metadata import version

from app.errors import SetupError


def demand(package: str, known: tuple[str, ...], adapter: str) -> None:
    """Raise SetupError if the installed ``package`` has another version than the tested ones.

    Args:
        package: The name of the distribution.
        known: Prefixes of the tested versions, such as ``0.14``.
        adapter: The file with the undocumented names.
    """
    found = version(package)
    if not any(f"{found}.".startswith(f"{each}.") for each in known):
        raise SetupError(
            f"{package} {found} is not known to this release",
            cure=f"install {package} {' or '.join(known)}; to allow {found}, run the tests that "
            f"{adapter} names with it, and add it to KNOWN there",
        )
