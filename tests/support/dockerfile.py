"""Parse the stages of the Dockerfile into instructions."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from pages import CHECKOUT

DOCKERFILE = (CHECKOUT / "Dockerfile").read_text()


def instructions(stage: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a stage and of its bases in order, each with its text on one line."""
    stages: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    name = ""
    joined = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, text = line.partition(" ")
        if word == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", text).groups()
            stages[name] = (base, [])
        elif name:
            stages[name][1].append((word, " ".join(text.split())))
    base, own = stages[stage]
    if base in stages:
        yield from instructions(base)
    yield from own


def variables(text: str) -> dict[str, str]:
    """Return the variables of one ENV instruction."""
    return dict(each.split("=", 1) for each in shlex.split(text))


_BUILT = ("node_modules", "dist")  # what .dockerignore leaves out


def copy_into(source: Path, target: Path) -> None:
    """Copy like a COPY instruction: the content of a folder, or a file into a folder."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", *_BUILT))
    else:
        shutil.copy(source, target)
