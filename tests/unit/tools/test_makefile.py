"""The verbs of the Makefile need Python and make, and no other program."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from pages import CHECKOUT


def test_the_first_verb_needs_python_and_make_alone(tmp_path: Path) -> None:
    """A fresh clone gets the uv of the lock file, and each verb leaves its mark, without awk and touch."""
    lock, make = CHECKOUT / "uv.lock", shutil.which("make")
    assert make is not None
    for name in ("Makefile", "pyproject.toml", lock.name):
        shutil.copy(CHECKOUT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    done = subprocess.run(
        [make, "-n", "demo"], cwd=tmp_path, env={"PATH": str(tmp_path / "bin")},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    packages = tomllib.loads(lock.read_text())["package"]
    version = next(each["version"] for each in packages if each["name"] == "uv")
    assert f"uv=={version}\n" in done.stdout
    commands = {line.split()[0].lstrip("@") for line in done.stdout.splitlines() if line.strip()}
    assert commands.isdisjoint({"awk", "touch", "sed"}), commands
