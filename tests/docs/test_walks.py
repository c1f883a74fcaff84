"""The walks of docs/contribute lead where they promise, on a copy of this checkout.

A walk writes files, applies changes and runs commands, in the order of its page. A comment above each block says which.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkout import git
from pages import CHECKOUT, blocks

WALKS = [
    page
    for page in sorted((CHECKOUT / "docs" / "contribute").glob("*.md"))
    if page.stem != "release"
]
WRITES = re.compile(r"writes this to (\S+)$")
APPLIES = "applies this change"
RESULTS = {"runs this and sees it pass": True, "runs this and sees it fail": False}

CHECK = """
mapfile -t changed < <(git ls-files --modified --others --exclude-standard '*.py')
if ((${#changed[@]})); then
  .venv/bin/ruff check --no-cache "${changed[@]}"
  .venv/bin/ruff format --check --no-cache "${changed[@]}"
  .venv/bin/mypy
  .venv/bin/lint-imports --no-cache
fi
.venv/bin/codespell
"""
"""What ``make check`` looks at, for the files that a walk changed."""


class Copy:
    """A copy of the checkout as it is now, with what is not committed yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "skybridge"
        for name in git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0"):
            file = self.folder / name
            if name and (CHECKOUT / name).is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, file)
        (self.folder / ".venv").symlink_to(CHECKOUT / ".venv")
        self._git("init", "--quiet")
        self._git("add", "--all")
        self._git("-c", "user.name=walk", "-c", "user.email=", "commit", "--quiet", "-m", "before")
        programs = folder / "programs"
        programs.mkdir()
        make = programs / "make"  # the packages are those of the checkout, which must not change
        make.write_text(
            f'#!/bin/sh\nexec {shutil.which("make")} -o .venv/.synced PYTHONPATH="$PYTHONPATH" "$@"\n'
        )
        make.chmod(0o755)
        paths = [self.folder, self.folder / "tests" / "support"]
        self._environ = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        }

    def restore(self) -> None:
        """Undo a walk."""
        self._git("reset", "--quiet", "--hard")
        self._git("clean", "--quiet", "--force", "-d", "-x", "--exclude=__pycache__")

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def apply(self, change: str) -> None:
        """Apply a diff. Its context may have moved, and a line of it may have changed."""
        self._git("apply", "-C1", "-", text=change)

    def run(self, commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _git(self, *words: str, text: str | None = None) -> None:
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("walks"))


@pytest.fixture
def copy(checkout: Copy) -> Iterator[Copy]:
    yield checkout
    checkout.restore()


def walk(page: Path, copy: Copy, *, runs: bool = True) -> None:
    """Follow a page. Without ``runs`` no command of it is run."""
    for block in blocks(page):
        what = block.reason.removeprefix("tests/docs/test_walks.py ")
        if written := WRITES.match(what):
            copy.write(written[1], block.text)
        elif what == APPLIES:
            copy.apply(block.text)
        elif runs:
            done = copy.run(block.text)
            assert (done.returncode == 0) == RESULTS[what], f"{block}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", WALKS, ids=lambda page: page.stem)
def test_the_changes_of_a_walk_fit(page, copy):
    """Cure: make them again on the present code, as the page says."""
    walk(page, copy, runs=False)


@pytest.mark.nightly
@pytest.mark.parametrize("page", WALKS, ids=lambda page: page.stem)
def test_a_walk_leads_where_it_promises_and_keeps_the_rules_of_the_house(page, copy):
    """A newcomer who follows a page to its end has a change that works, and that ``make check`` accepts."""
    walk(page, copy)
    done = copy.run(CHECK)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_walks_are_those_that_the_way_in_names():
    """docs/CONTRIBUTING.md links each of them."""
    text = (CHECKOUT / "docs" / "CONTRIBUTING.md").read_text()
    assert [page.name for page in WALKS if f"(contribute/{page.name})" not in text] == []
