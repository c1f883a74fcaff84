"""Run git in this checkout."""

from __future__ import annotations

import subprocess

from pages import CHECKOUT


def git(*words: str) -> str:
    """Run git in this checkout and return its output. Raises CalledProcessError if git fails."""
    command = ["git", *words]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
