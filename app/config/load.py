"""From a file and an environment to a configuration, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from app.config.document import Document, parse
from app.config.finding import BadConfiguration, Finding, Path, Place
from app.config.model import Config
from app.config.overrides import override
from app.config.problems import explain
from app.config.secrets import resolve

WITHOUT_FILE: Mapping[str, Any] = {
    "version": 1,
    "brokers": {"log": {"kind": "embedded", "path": "./skybridge-data/log"}},
    "store": {"kind": "sqlite", "path": "./skybridge-data/store.db"},
    "routes": [
        {
            "name": "everything",
            "to": {"broker": "log", "topic": "events"},
            "key": {"mapper": "partitionkey"},
        }
    ],
    "webhooks": {"allow_private": ["127.0.0.0/8", "::1/128", "localhost"]},
}
"""What ``serve`` runs on when no file is named."""


class Loaded:
    """A configuration that keeps to the model. ``source`` is the file's name, or empty. Its repr
    shows no values."""

    def __init__(
        self, config: Config, source: str, document: Document, references: Mapping[Path, str]
    ) -> None:
        self.config = config
        self.source = source
        self._document = document
        self._references = references

    def place(self, *path: str | int) -> Place:
        """Where a setting was written, or the nearest one above it."""
        return self._document.place(path)

    def shown(self, *path: str | int) -> str:
        """The text of a setting as it stands in the file, references unresolved: fit for messages."""
        value: Any = self._document.root
        for step in path:
            value = value[step]
        return self._references.get(path, str(value))

    def __repr__(self) -> str:
        return f"Loaded(source={self.source!r})"


def load(path: FilePath | None, environ: Mapping[str, str]) -> Loaded:
    """Reads, resolves, overrides and checks. Raises BadConfiguration with every error at once.

    Without a file: the embedded log in ./skybridge-data, one route that takes everything, webhooks
    to loopback allowed.
    """
    source = "" if path is None else str(path)
    try:
        return _loaded(_document(path), source, environ)
    except BadConfiguration as error:
        raise BadConfiguration(error.findings, source=source) from None


def _document(path: FilePath | None) -> Document:
    if path is None:
        document = Document()
        document.root = _copy(WITHOUT_FILE)
        return document
    try:
        return parse(path.read_bytes())
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        cure = "name another with --config, or let skybridge init write one"
        raise BadConfiguration(
            [Finding(level="error", setting="", message=message, cure=cure)]
        ) from None


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _loaded(document: Document, source: str, environ: Mapping[str, str]) -> Loaded:
    references = resolve(document, environ)
    hidden = set(references) | override(document, environ)
    try:
        config = Config.model_validate(document.root)
    except ValidationError as error:
        document.findings += explain(error, document, hidden)
    else:
        if not document.findings:
            return Loaded(config, source, document, references)
    raise BadConfiguration(
        sorted(document.findings, key=lambda finding: (finding.line, finding.place.column))
    )
