"""References in the file: ``${env:NAME}`` and ``${file:/path}`` in any text; ``$$`` is one dollar
sign.

A resolved value is a secret, which no message may repeat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from app.config.load.document import Document
from app.config.load.finding import Path, did_you_mean
from app.model.secret import FileSecret, FileText, MixedText
from app.tls import mark_of, read_text

_REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)\}?)")

_MEANT = re.compile(r"\$(?=[${])")

_FILE_ALONE = re.compile(
    r"\$\{file:([^}]+)\}"
)  # the whole text is one file, which may be read again


class Unresolved(Exception):
    """A reference is malformed or cannot be resolved. ``args`` are the problem and its cure; they
    repeat names, never values.
    """


def resolve(document: Document, environ: Mapping[str, str]) -> dict[Path, str]:
    """Replace the references in the document by their values. Return a mapping from the path of
    each reference to its text.

    A reference that cannot be resolved becomes a finding of the document.
    """
    return _each(document, lambda text: substitute(text, environ))


def collect_references(document: Document) -> dict[Path, str]:
    """Return the references in the document by path, without resolving them.

    No environment variable and no file is read, because the caller may not know their values. A
    malformed reference becomes a finding of the document.
    """
    return _each(document, _unresolved)


def _each(document: Document, read: Callable[[str], str]) -> dict[Path, str]:
    references: dict[Path, str] = {}
    document.root = _resolved(document.root, (), document, read, references)
    return references


def _resolved(
    value: Any,
    path: Path,
    document: Document,
    read: Callable[[str], str],
    references: dict[Path, str],
) -> Any:
    match value:
        case dict():
            return {
                key: _resolved(item, (*path, key), document, read, references)
                for key, item in value.items()
            }
        case list():
            return [
                _resolved(item, (*path, n), document, read, references)
                for n, item in enumerate(value)
            ]
        case str() if "$" in value:
            alone = _FILE_ALONE.fullmatch(value)
            mark = mark_of(alone[1]) if alone is not None else None
            try:
                text = read(value)
            except Unresolved as problem:
                document.add_error(path, *problem.args)
                references[path] = value
                return value
            refers = _REFERENCE.sub("", value.replace("$$", "")) != value.replace("$$", "")
            if refers:
                references[path] = value
            if refers and alone is None and text != value:
                return MixedText(_pieces(value, read))
            return FileText(text, alone[1], mark) if alone is not None else text
        case _:
            return value


def _pieces(text: str, read: Callable[[str], str]) -> tuple[str | FileSecret, ...]:
    """Split a text at its references. Each reference becomes a secret that has the value of the
    reference.
    """
    pieces: list[str | FileSecret] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        if match[0] != "$$":
            pieces += (read(text[end : match.start()]), FileSecret(read(match[0])))
            end = match.end()
    pieces.append(read(text[end:]))
    return tuple([piece for piece in pieces if isinstance(piece, FileSecret) or piece])


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """Return the text with every reference resolved. References inside the values are not resolved."""
    return _REFERENCE.sub(lambda match: _value(match, environ), text)


def _unresolved(text: str) -> str:
    """Check the form of the references in the text. Return the text with the references unresolved."""
    kinds = [_form(match) for match in _REFERENCE.finditer(text) if match[0] != "$$"]
    return text if kinds else text.replace("$$", "$")


def escaped(text: str) -> str:
    """Return ``text`` in the form in which it must be written in a file. Each ``$`` that would
    begin a reference is doubled.
    """
    return _MEANT.sub("$$", text)


def without_references(text: str) -> str:
    """Return a text that a caller of the API sent. It may contain no reference, because the caller
    may not read the environment and files of the service.

    ``$$`` is one dollar sign, as in the file. A reference raises Unresolved.
    """
    return _REFERENCE.sub(_no_reference, text)


def _no_reference(match: re.Match[str]) -> str:
    if match[0] == "$$":
        return "$"
    raise Unresolved(
        "The value has a reference. References are allowed only in the configuration file.",
        "Write the value itself. The service stores the value encrypted. Write $$ for a dollar sign.",
    )


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match[0] == "$$":
        return "$"
    kind, name = _form(match)
    return _variable(name, environ) if kind == "env" else _content(name)


def _form(match: re.Match[str]) -> tuple[str, str]:
    """Return the kind, ``env`` or ``file``, and the name of a reference."""
    kind, colon, name = match[1].partition(":")
    if not match[0].endswith("}") or not colon or not name or kind not in {"env", "file"}:
        raise Unresolved(
            "The reference is malformed.",
            "Write ${env:NAME} or ${file:/path}; write $$ for a dollar sign itself.",
        )
    return kind, name


def _variable(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        near = did_you_mean(name, environ) if environ else ""
        cure = f"Set {name}." + (f" {near}" if near.startswith("Did") else "")
        raise Unresolved(f"The environment variable {name} is not set.", cure)
    return environ[name]


def _content(name: str) -> str:
    """Return the text of the file. The line end that editors add at the end is removed."""
    try:
        return read_text(name).removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Unresolved(f"The file {name} is not UTF-8.", "Save the file as UTF-8.") from None
    except OSError as error:
        raise Unresolved(
            f"The file {name} cannot be read: {error.strerror}.",
            "Check the path and its permissions.",
        ) from None
