"""From a file and an environment to a configuration, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from app.config.derived.credentials import marks_as_read
from app.config.load.document import Document, parse
from app.config.load.finding import BadConfiguration, Finding, Location, Path
from app.config.load.overrides import override
from app.config.load.problems import translate
from app.config.load.secrets import escaped, resolve
from app.config.model.config import Config
from app.model.places import value_at
from app.model.subscription import Subscription
from app.tls import read_regular

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

_SHORT = 4  # characters: shorter values are parts of ordinary words


class Loaded:
    """A configuration that keeps to the model. ``source`` is the file's name, or empty. ``files``: marks of
    the files that it names, as they were read; none where it ``looks`` at no file. Its repr shows no values."""

    def __init__(
        self,
        config: Config,
        source: str,
        document: Document,
        references: Mapping[Path, str],
        *,
        looks: bool = True,
    ) -> None:
        self.config = config
        self.source = source
        self.raw: bytes | None = None  # what it was read from; it may hold secrets
        self.files = marks_as_read(config) if looks else ()
        self._document = document
        self._references = references
        self._secrets = _secrets(document, references)

    @classmethod
    def of(cls, config: Config) -> Loaded:
        """One that nobody wrote down."""
        return cls(config, "", Document(), {})

    def place(self, *path: str | int) -> Location:
        """Where a setting was written, or the nearest one above it."""
        return self._document.place(path)

    def written(self, path: Path) -> Path | None:
        """The path itself where it stands in the file, else None."""
        value: Any = self._document.root
        for step in path:
            inside = step in value if isinstance(value, dict) else isinstance(value, list)
            if not inside:
                return None
            value = value[step]
        return path

    def with_subscriptions(self, subscriptions: tuple[Subscription, ...]) -> Loaded:
        """As if these were written in the file instead."""
        other = copy(self)
        other.config = self.config.model_copy(update={"subscriptions": subscriptions})
        return other

    def as_written(self, *path: str | int) -> Any:
        """A setting as its author wrote it: references stand as references, what an environment variable
        overrides as ``${env:NAME}``. None where it was not written at all."""
        origins = _origins(self._document, self._references)
        return _with_origins(value_at(self._document.root, path), path, origins)

    def origins(self) -> Mapping[Path, str]:
        """Of every value that was not written where it stands: the reference, or ``${env:NAME}`` of what
        overrides it."""
        return _origins(self._document, self._references)

    def redacted(self, text: str) -> str:
        """The text with every value that came out of a reference or the environment replaced by where
        it came from. A very short one is replaced only where it stands in quotes."""
        for value, origin in self._secrets:
            for form in {value, repr(value)[1:-1]}:
                quoted = len(form) < _SHORT
                text = text.replace(f"'{form}'" if quoted else form, origin)
        return text

    def __repr__(self) -> str:
        return f"Loaded(source={self.source!r})"


def _origins(document: Document, references: Mapping[Path, str]) -> dict[Path, str]:
    """Of every value that was not written where it stands: what to say instead."""
    return dict(references) | {
        path: f"${{env:{place.variable}}}"
        for path, place in document.places.items()
        if place.variable
    }


def _with_origins(value: Any, path: Path, origins: Mapping[Path, str]) -> Any:
    if path in origins:
        return origins[path]
    match value:
        case dict():
            return {
                name: _with_origins(inner, (*path, name), origins) for name, inner in value.items()
            }
        case list():
            return [_with_origins(inner, (*path, n), origins) for n, inner in enumerate(value)]
        case str():
            return escaped(value)
    return value


def _secrets(document: Document, references: Mapping[Path, str]) -> list[tuple[str, str]]:
    """Resolved texts with what to say instead, longest first."""
    origins = _origins(document, references)
    found = [
        (text, origin)
        for path, origin in origins.items()
        for text in _leaves(_at(document.root, path))
        if text not in {"true", "false"}
    ]
    return sorted(found, key=lambda pair: len(pair[0]), reverse=True)


def _leaves(value: Any) -> Iterator[str]:
    """The texts and numbers in a value: an override may be a whole list or mapping."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield str(value)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def load(path: FilePath | None, environ: Mapping[str, str]) -> Loaded:
    """Reads, resolves, overrides and checks. Raises BadConfiguration with every error at once.

    Without a file: the embedded log in ./skybridge-data, one route that takes everything, webhooks
    to loopback allowed.
    """
    source = "" if path is None else str(path)
    return load_text(None if path is None else content(path), source, environ)


def load_text(raw: bytes | None, source: str, environ: Mapping[str, str]) -> Loaded:
    """As ``load``, of what was read already. None: without a file."""
    try:
        loaded = _loaded(_document(raw), source, environ)
        loaded.raw = raw
        return loaded
    except BadConfiguration as error:
        raise BadConfiguration(error.findings, source=source) from None


def content(path: FilePath) -> bytes:
    """Raises BadConfiguration for a file that cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        cure = "name another with --config, or write one with skybridge init"
        finding = Finding(level="error", setting="", message=message, cure=cure)
        raise BadConfiguration([finding], source=str(path)) from None


def _document(raw: bytes | None) -> Document:
    if raw is not None:
        return parse(raw)
    document = Document()
    document.root = _copy(WITHOUT_FILE)
    return document


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
        document.findings += translate(error, document, hidden)
    else:
        if not document.findings:
            return Loaded(config, source, document, references)
    raise BadConfiguration(
        sorted(document.findings, key=lambda finding: (finding.line, finding.place.column))
    )
