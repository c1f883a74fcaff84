"""The checkout as git sees it."""

from __future__ import annotations

import subprocess

from pages import CHECKOUT


def git(*words: str) -> str:
    """What ``git`` prints of it. Raises CalledProcessError."""
    command = ["git", *words]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
