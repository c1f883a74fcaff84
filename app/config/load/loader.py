"""Load a configuration from a file and environment variables. If it has errors, raise
BadConfiguration with all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from app.config.derived.credentials import marks_as_read
from app.config.load.document import Document, parse
from app.config.load.finding import BadConfiguration, Finding, Location, Path
from app.config.load.overrides import override, overrides_of
from app.config.load.problems import findings_of
from app.config.load.remainder import Remainder
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
            "key": {"mapper": "partitionkey", "missing": "from_request"},
        }
    ],
    "webhooks": {"allow_private": ["127.0.0.0/8", "::1/128", "localhost"]},
}
"""The configuration that ``serve`` runs without a file."""

_BASE = ("server", "log")
_SHORT = 4  # characters: shorter values may be parts of ordinary words


class InvalidDocument(BadConfiguration):
    """A document does not fit the model. ``remainder`` is its valid part, which the checks can examine."""

    def __init__(self, document: Document, references: Mapping[Path, str], source: str) -> None:
        self.remainder = Remainder(document, set(references) | _overridden(document))
        findings = [*document.findings, *self.remainder.findings]
        super().__init__(
            sorted(findings, key=lambda finding: (finding.line, finding.place.column)),
            source=source,
        )
        self._references = references

    def rest(self) -> Loaded | None:
        """Return the valid part of the configuration, or None if too little is valid."""
        remainder = self.remainder
        if remainder.config is None:
            return None
        references = {
            here: self._references[origin]
            for here, origin in remainder.origins.items()
            if origin in self._references
        }
        return Loaded(remainder.config, self.source, remainder.document, references)


def _overridden(document: Document) -> set[Path]:
    """Return the paths of the values that come from environment variables."""
    return set(document.places.variables)


class Loaded:
    """A valid configuration with its document, which maps settings to lines.

    ``source`` is the name of the file, or empty text. ``files`` has a mark of each file that the
    configuration names, taken when it was read. If ``may_read_files`` is False, no such file is
    read. The repr shows no values.
    """

    def __init__(
        self,
        config: Config,
        source: str,
        document: Document,
        references: Mapping[Path, str],
        *,
        may_read_files: bool = True,
    ) -> None:
        self.config = config
        self.source = source
        self.raw: bytes | None = None  # the bytes of the file, which may have secrets
        self.files = marks_as_read(config) if may_read_files else ()
        self._document = document
        self._references = references
        self._secrets = _secrets(document, references)

    @classmethod
    def of(cls, config: Config) -> Loaded:
        """Return a loaded configuration that has no file."""
        return cls(config, "", Document(), {})

    def place(self, *path: str | int) -> Location:
        """Return the location of a setting, or of the nearest setting above it."""
        return self._document.place(path)

    def written(self, path: Path) -> Path | None:
        """Return the path itself if the file has this setting, otherwise None."""
        value: Any = self._document.root
        for step in path:
            inside = step in value if isinstance(value, dict) else isinstance(value, list)
            if not inside:
                return None
            value = value[step]
        return path

    def with_subscriptions(self, subscriptions: tuple[Subscription, ...]) -> Loaded:
        """Return a copy of the configuration with these subscriptions instead of those in the file."""
        other = copy(self)
        other.config = self.config.model_copy(update={"subscriptions": subscriptions})
        return other

    def as_written(self, *path: str | int) -> Any:
        """Return a setting as its author wrote it, or None if the file does not have it.

        References stay references, and a value that an environment variable overrides is
        ``${env:NAME}``.
        """
        return _with_origins(value_at(self._document.root, path), path, self._known_origins)

    def origins(self) -> Mapping[Path, str]:
        """Return the reference of every value that comes from another file or an environment
        variable. For a value that a variable overrides, this is ``${env:NAME}``.
        """
        return self._known_origins

    @cached_property
    def _known_origins(self) -> dict[Path, str]:
        return _origins(self._document, self._references)

    def redacted(self, text: str) -> str:
        """Return the text with every resolved value replaced by its reference.

        A value of fewer than four characters is replaced only inside quotes, because it may be part
        of a word.
        """
        for value, origin in self._secrets:
            for form in {value, repr(value)[1:-1]}:
                quoted = len(form) < _SHORT
                text = text.replace(f"'{form}'" if quoted else form, origin)
        return text

    def __repr__(self) -> str:
        return f"Loaded(source={self.source!r})"


def _origins(document: Document, references: Mapping[Path, str]) -> dict[Path, str]:
    """Return the reference of every value that comes from a reference or an override."""
    variables = document.places.variables
    return dict(references) | {path: f"${{env:{name}}}" for path, name in variables.items()}


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
    """Return the resolved values with their references, the longest first. Of the references to a value, that of the
    setting itself is before those of its sections."""
    origins = _origins(document, references)
    inner_first = sorted(origins.items(), key=lambda pair: len(pair[0]), reverse=True)
    found = [
        (text, origin)
        for path, origin in inner_first
        for text in _leaves(_at(document.root, path))
        if text not in {"true", "false"}
    ]
    return sorted(found, key=lambda pair: len(pair[0]), reverse=True)


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value. The value may be a list or mapping, because an
    environment variable can override a whole section.
    """
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
    """Load, resolve, override and validate a configuration.

    If ``path`` is None, the configuration is ``WITHOUT_FILE``: an embedded log in ./skybridge-data,
    one route that accepts every event, and webhooks to loopback only.

    Raises:
        BadConfiguration: With every error at once.
    """
    source = "" if path is None else str(path)
    return load_text(None if path is None else content(path), source, environ)


def load_text(raw: bytes | None, source: str, environ: Mapping[str, str]) -> Loaded:
    """Load a configuration like ``load``, from bytes that were already read; None means no file."""
    try:
        loaded = _loaded(_document(raw), source, environ)
        loaded.raw = raw
        return loaded
    except InvalidDocument:
        raise
    except BadConfiguration as error:
        raise BadConfiguration(error.findings, source=source) from None


def load_base(raw: bytes | None, environ: Mapping[str, str]) -> Config:
    """Return the valid settings of the sections ``server`` and ``log``, with ``WITHOUT_FILE`` for all
    others. A document that cannot be parsed counts as no file.
    """
    document = _document(None)
    try:
        written_root = parse(raw).root if raw is not None else {}
    except BadConfiguration:
        written_root = {}
    document.root |= {name: written_root[name] for name in _BASE if name in written_root}
    try:
        return _loaded(document, "", environ).config
    except InvalidDocument as invalid:
        return invalid.remainder.config or Config.model_validate(WITHOUT_FILE)


def load_sections(
    raw: bytes | None, sections: Collection[str], environ: Mapping[str, str]
) -> Config:
    """Return the settings of some sections, with ``WITHOUT_FILE`` for all others. References elsewhere are not
    resolved, and variables that override other settings are not read.

    Raises:
        BadConfiguration: With every error of these sections at once.
    """
    document = _document(raw)
    written = document.root
    document.root = _copy(WITHOUT_FILE)
    document.root |= {name: written[name] for name in sections if name in written}
    return _loaded(document, "", environ, sections).config


def content(path: FilePath) -> bytes:
    """Return the bytes of the file, or raise BadConfiguration if it cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        message = f"The file cannot be read: {error.strerror}."
        cure = "Name another file with --config, or write a new file with skybridge init."
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


def _loaded(
    document: Document,
    source: str,
    environ: Mapping[str, str],
    sections: Collection[str] | None = None,
) -> Loaded:
    """Return the configuration of a document. With ``sections``, variables override only settings in these."""
    references = resolve(document, environ)
    overriding = environ if sections is None else overrides_of(sections, environ)
    hidden = set(references) | override(document, overriding)
    try:
        config = Config.model_validate(document.root)
    except ValidationError as error:
        document.findings += findings_of(error, document, hidden)
    else:
        if not document.findings:
            return Loaded(config, source, document, references)
    raise InvalidDocument(document, references, source)
