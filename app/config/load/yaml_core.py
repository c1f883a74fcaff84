"""Read and write YAML 1.2 with libyaml. Plain scalars have the meaning of the core schema (YAML
1.2.2, 10.3).

The parser of libyaml is written in C. The tree of nodes is built in Python, so that too deep
nesting raises RecursionError instead of ending the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml
from yaml.composer import Composer
from yaml.nodes import Node
from yaml.resolver import BaseResolver

CORE: Final = "tag:yaml.org,2002:"
_DIGITS = "[0-9][0-9_]*"
_NUMBER = rf"(?:{_DIGITS}(?:\.[0-9_]*)?|\.{_DIGITS})"
_INFINITE, _NAN = r"\.(?:inf|Inf|INF)", r"\.(?:nan|NaN|NAN)"
_PLAIN: Final[Mapping[str, tuple[str, str]]] = {
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (rf"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|{_DIGITS})", "-+0123456789"),
    "float": (rf"[-+]?(?:{_NUMBER}(?:[eE][-+]?[0-9]+)?|{_INFINITE})|{_NAN}", "-+0123456789."),
    "null": ("~|null|Null|NULL", "~nN"),
    "merge": ("<<", "<"),
}
"""The pattern of a scalar without quotes, and the characters with which it may begin, by YAML tag."""


class _Core(BaseResolver):
    """The resolver of types by YAML's core schema, in which ``no`` and ``12:30`` are text."""


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes all text which ``_Core`` would read as another type."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - the signature of the base class
        super().increase_indent(flow, indentless=False)


for _tag, (_pattern, _first) in _PLAIN.items():
    for _each in (_Core, _Dumper):
        _each.add_implicit_resolver(f"{CORE}{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first))
_Core.add_implicit_resolver(f"{CORE}null", re.compile(r"\Z"), [""])


class _Loader(Composer, yaml.CSafeLoader):
    yaml_implicit_resolvers = _Core.yaml_implicit_resolvers

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)


def compose(text: str) -> Node | None:
    """Return the root node of the one document, or None if it is empty. Raise YAMLError or
    RecursionError.
    """
    return _Loader(text).get_single_node()


def dump(value: Any) -> str:
    """Return the value as YAML, with mappings in their own order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
