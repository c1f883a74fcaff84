"""The words of the help for the values of options and arguments: FILE, NUMBER, ID."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

_BY_NAME: Mapping[str, str] = {
    "attribute": "NAME=VALUE",
    "begin": "POINT",
    "broker": "BROKER",
    "folder": "FOLDER",
    "host": "ADDRESS",
    "keep": "FOLDER",
    "server": "URL",
    "since": "TIME",
    "sink": "URL",
    "subscription": "ID",
    "time": "TIME",
    "topic": "TOPIC",
    "until": "TIME",
    "url": "URL",
}
"""Words that are more precise than the type, by the name of the parameter."""
_BY_TYPE: Mapping[type, str] = {int: "NUMBER", float: "NUMBER", str: "TEXT"}


def of(name: str, kind: Any, *, is_argument: bool) -> str | None:
    """Return the word for the value of a parameter, or None for a switch."""
    inner = _inner(kind)
    if inner is bool:
        return None
    if isinstance(inner, type) and issubclass(inner, Enum):
        return "|".join(str(each.value) for each in inner)
    if get_origin(inner) is Literal:
        return "|".join(get_args(inner))
    plain = name.strip("_")
    word = _BY_NAME.get(plain)
    if inner is Path:
        return "FOLDER" if word == "FOLDER" else "FILE"
    if word is not None:
        return word
    if is_argument and inner is str:
        return plain.upper()
    return _BY_TYPE.get(inner)


def _inner(kind: Any) -> Any:
    """Return the type of one value: without None, and without the list around it."""
    while get_origin(kind) in {Union, UnionType, list}:
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return kind


def usage(argument: Any) -> str:
    """Return an argument as the usage line has it: in brackets if it is optional."""
    text = argument.metavar or argument.name.upper()
    text = text if argument.required else f"[{text}]"
    return text if argument.nargs == 1 else f"{text}..."
