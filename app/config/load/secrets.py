"""``${env:NAME}`` and ``${file:/path}`` in any text of the file; ``$$`` is one dollar sign.

What they resolve to is a secret: no message here or later repeats it.
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

_FILE_ALONE = re.compile(r"\$\{file:([^}]+)\}")  # its reader may read it again


class Unresolved(Exception):
    """``args``: what is wrong with a reference, and its cure. Repeats names, never values."""


def resolve(document: Document, environ: Mapping[str, str]) -> dict[Path, str]:
    """Puts values in the place of references, in the document. Returns the text that stood there,
    by path; what cannot be resolved is a finding of the document."""
    return _each(document, lambda text: substitute(text, environ))


def keep(document: Document) -> dict[Path, str]:
    """The references as they stand, by path, for a reader who must not learn what they stand for: nothing
    of the environment and no file is read. Those of a wrong form are findings of the document."""
    return _each(document, _as_they_stand)


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
                document.wrong(path, *problem.args)
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
    """Split a text at its references. Each reference becomes a secret with its value."""
    pieces: list[str | FileSecret] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        if match[0] != "$$":
            pieces += (read(text[end : match.start()]), FileSecret(read(match[0])))
            end = match.end()
    pieces.append(read(text[end:]))
    return tuple([piece for piece in pieces if isinstance(piece, FileSecret) or piece])


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """The text with every reference in it resolved. What a value holds is never looked at again."""
    return _REFERENCE.sub(lambda match: _value(match, environ), text)


def _as_they_stand(text: str) -> str:
    kinds = [_form(match) for match in _REFERENCE.finditer(text) if match[0] != "$$"]
    return text if kinds else text.replace("$$", "$")


def escaped(text: str) -> str:
    """What has to be written so that it means ``text``."""
    return _MEANT.sub("$$", text)


def literal(text: str) -> str:
    """The text where its author may use no references: a caller of the API must not read our
    environment and files. ``$$`` means what it means in the file, so that both say the same."""
    return _REFERENCE.sub(_no_reference, text)


def _no_reference(match: re.Match[str]) -> str:
    if match[0] == "$$":
        return "$"
    raise Unresolved(
        "holds a reference, which is allowed only in the configuration file",
        "give the value itself, which is stored encrypted; write $$ for a dollar sign",
    )


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match[0] == "$$":
        return "$"
    kind, name = _form(match)
    return _variable(name, environ) if kind == "env" else _content(name)


def _form(match: re.Match[str]) -> tuple[str, str]:
    """``env`` or ``file``, and its name."""
    kind, colon, name = match[1].partition(":")
    if not match[0].endswith("}") or not colon or not name or kind not in {"env", "file"}:
        raise Unresolved(
            "a reference is ${env:NAME} or ${file:/path}", "write $$ for a dollar sign itself"
        )
    return kind, name


def _variable(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        near = did_you_mean(name, environ) if environ else ""
        cure = f"set {name}" + (f"; {near}" if near.startswith("did") else "")
        raise Unresolved(f"environment variable {name} is not set", cure)
    return environ[name]


def _content(name: str) -> str:
    """Without the line end that editors leave behind the last line."""
    try:
        return read_text(name).removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Unresolved(f"file {name} is not UTF-8", "save it as UTF-8") from None
    except OSError as error:
        raise Unresolved(
            f"file {name} cannot be read: {error.strerror}", "check path and rights"
        ) from None
