from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from app.config.lint.checks import lint
from app.config.load.finding import BadConfiguration, Finding
from app.config.load.loader import Loaded, load

MINIMAL = """\
version: 1
brokers:
  log: {kind: embedded, path: /srv/skybridge/log}
store: {kind: sqlite, path: /srv/skybridge/store.db}
"""

Load = Callable[..., Loaded]


@pytest.fixture(autouse=True)
def in_a_place_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths are judged from where the service starts, and a clone may lie in /tmp."""
    monkeypatch.chdir("/")


@pytest.fixture(autouse=True)
def files_of_nobody_else() -> Iterator[None]:
    """``check`` warns of secrets that every user of the machine can read."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def load_text(tmp_path: Path) -> Load:
    """Loads a text; ``minimal`` puts version, broker and store before it."""

    def load_it(
        text: str | bytes, environ: Mapping[str, str] = {}, *, minimal: bool = False
    ) -> Loaded:
        raw = text.encode() if isinstance(text, str) else text
        path = tmp_path / "skybridge.yaml"
        path.write_bytes((MINIMAL.encode() if minimal else b"") + raw)
        return load(path, environ)

    return load_it


@pytest.fixture
def refusal(load_text: Load) -> Callable[..., list[Finding]]:
    """The findings of a text that must be refused."""

    def refused(
        text: str | bytes, environ: Mapping[str, str] = {}, *, minimal: bool = False
    ) -> list[Finding]:
        with pytest.raises(BadConfiguration) as error:
            load_text(text, environ, minimal=minimal)
        return list(error.value.findings)

    return refused


@pytest.fixture
def lint_text(load_text: Load) -> Callable[..., list[str]]:
    """What lint says of a text, each finding as its line without the line number."""

    def linted(text: str, environ: Mapping[str, str] = {}, *, minimal: bool = True) -> list[str]:
        found = lint(load_text(text, environ, minimal=minimal))
        return [str(each).partition(": ")[2] if each.line else str(each) for each in found]

    return linted
