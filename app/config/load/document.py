"""A YAML 1.2 document as plain values, each with its line and column.

The values are built from the tree of YAML nodes, not by a YAML constructor. So all duplicate keys
are reported at once, and a time stays text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from yaml.error import YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from app.config.load.finding import (
    BadConfiguration,
    Finding,
    Location,
    Path,
    cure_sentence,
    problem_sentence,
    written,
)
from app.config.load.places import Places
from app.config.load.yaml_core import CORE, compose
from app.config.load.yaml_faults import explain_yaml_fault

REPEATED = 100_000
"""The largest number of values that aliases and merges may repeat. Without a limit, a few hundred
bytes of YAML could expand to billions of values.
"""

DEEPEST = 100  # levels of nested collections

_MERGE = f"{CORE}merge"
_DIGITS = 1_000  # of an integer; Python reads and writes up to 4,300


class Document:
    """A parsed document. ``root`` is its mapping, and ``places`` has the location of every setting."""

    def __init__(self) -> None:
        self.root: dict[str | int, Any] = {}
        self.places = Places()
        self.findings: list[Finding] = []

    def place(self, path: Path) -> Location:
        """Return the location of the setting, or of the nearest setting above it that is in the
        document.
        """
        return self.places.nearest(path)

    def add_error(self, path: Path, message: str, cure: str, place: Location | None = None) -> None:
        """Add an error about the setting at ``path``. If ``place`` is set, it is the location of
        the error instead of the setting's own.
        """
        self.findings.append(
            Finding(
                level="error",
                setting=written(path),
                message=problem_sentence(message),
                cure=cure_sentence(cure),
                place=place or self.place(path),
            )
        )


def parse(raw: bytes) -> Document:
    """Parse a document. Faults such as duplicate keys become findings of the document.

    Raises:
        BadConfiguration: If the bytes are not a YAML mapping in UTF-8.
    """
    text = _text(raw)
    try:
        root = compose(text)
    except YAMLError as error:
        fault = explain_yaml_fault(error, text)
        place = Location(fault.line, fault.column)
        raise _refused(fault.problem, fault.cure, place) from None
    except RecursionError:
        raise _too_deep(Location(1, 1)) from None
    document = Document()
    if root is None:
        raise _refused(
            "The file is empty.", "Write a configuration file with skybridge init.", Location(1, 1)
        )
    if not isinstance(root, MappingNode):
        raise _refused(
            "The file is not a mapping.", "Begin the file with version: 1.", _place(root)
        )
    document.root = _Reader(document).value(root, (), ())
    return document


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refused(
            "The file is not UTF-8.", "Save the file as UTF-8.", Location(line, 1)
        ) from None


def _too_deep(place: Location) -> BadConfiguration:
    return _refused("The values are nested too deeply.", "Use fewer levels.", place)


def _refused(message: str, cure: str, place: Location) -> BadConfiguration:
    return BadConfiguration(
        [Finding(level="error", setting="", message=message, cure=cure, place=place)]
    )


def _place(node: Node) -> Location:
    return Location(node.start_mark.line + 1, node.start_mark.column + 1)


class _Reader:
    """A converter of YAML nodes to values.

    In the methods, ``above`` has the ids of the collections around a node. An alias to one of these
    collections would never end.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._read: set[int] = set()  # ids of nodes, which the tree keeps alive
        self._repeated = 0

    def value(self, node: Node, path: Path, above: tuple[int, ...]) -> Any:
        if path not in self._document.places:  # the place of its name is better
            self._document.places.add(path, _place(node))
        self._count(node)
        if len(above) > DEEPEST:  # aliases can nest deeper than the text
            raise _too_deep(_place(node))
        if id(node) in above:
            self._document.add_error(
                path,
                "The alias refers to a list or mapping that contains the alias.",
                "Write the values instead of the alias.",
                _place(node),
            )
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path, (*above, id(node)))
        if isinstance(node, SequenceNode):
            inside = (*above, id(node))
            return [self.value(item, (*path, n), inside) for n, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path, above: tuple[int, ...]) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        merged: list[tuple[Node, Node]] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                self._merge(value_node, path, above, merged)
                continue
            key = self._key(key_node, path)
            if key in result:
                first = self._document.place((*path, key)).line
                self._document.add_error(
                    (*path, key), f"The setting appears twice, for the first time in line {first}.", "Remove one of the two lines.",
                    _place(key_node),
                )  # fmt: skip
                continue
            self._document.places.add((*path, key), _place(key_node))
            result[key] = self.value(value_node, (*path, key), above)
        for key_node, value_node in merged:  # own settings win over merged ones
            key = self._key(key_node, path)
            if key not in result:
                result[key] = self.value(value_node, (*path, key), above)
        return result

    def _merge(
        self, node: Node, path: Path, above: tuple[int, ...], into: list[tuple[Node, Node]]
    ) -> None:
        """Append the pairs of the merge key ``<<: *alias`` or ``<<: [*one, *two]`` to ``into``. If
        a key is repeated, the first pair wins.

        Each pair counts as a repeated value, even if an earlier pair with the same key wins,
        because it costs memory and time.

        Raises:
            BadConfiguration: If more than ``REPEATED`` values are repeated.
        """
        if len(above) > DEEPEST:
            raise _too_deep(_place(node))
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            self._count(source)
            if not isinstance(source, MappingNode) or id(source) in above:
                self._document.add_error(
                    path,
                    "The key << merges only mappings.",
                    "Write the alias of a mapping after <<.",
                    _place(node),
                )
                continue
            own = [pair for pair in source.value if pair[0].tag != _MERGE]
            self._repeat(len(own), source)
            into += own
            for key_node, value_node in source.value:
                if key_node.tag == _MERGE:
                    self._merge(value_node, path, (*above, id(source)), into)

    def _count(self, node: Node) -> None:
        """Count a node that was read before as one repeated value."""
        self._repeat(int(id(node) in self._read), node)
        self._read.add(id(node))

    def _repeat(self, values: int, node: Node) -> None:
        """Count repeated values. Raise BadConfiguration if there are more than ``REPEATED``."""
        self._repeated += values
        if self._repeated > REPEATED:
            message = f"The aliases and merges repeat more than {REPEATED} values."
            raise _refused(message, "Use fewer aliases of aliases.", _place(node))

    def _key(self, node: Node, path: Path) -> str | int:
        key = self._scalar(node, path) if isinstance(node, ScalarNode) else None
        if isinstance(key, str) or type(key) is int:
            return sys.intern(key) if isinstance(key, str) else key
        self._document.add_error(
            path, "The name of a setting is not text.", "Put the name in quotes.", _place(node)
        )
        return str(node.value)

    def _scalar(self, node: Node, path: Path) -> Any:
        text, tag = str(node.value), str(node.tag).removeprefix(CORE)
        read = _SCALARS.get(tag)
        if read is None:
            self._document.add_error(
                path, f"The YAML tag {tag} is unknown.", "Remove the tag.", _place(node)
            )
            return text
        try:
            return read(text)
        except (ValueError, KeyError):  # 0x_, thousands of digits, or an explicit tag
            self._document.add_error(
                path,
                f"The value is not a valid {tag}.",
                "Correct the value, or put it in quotes.",
                _place(node),
            )
            return text


def _integer(text: str) -> int:
    """Return the integer of a YAML 1.2 scalar: ``010`` is ten, ``0o10`` is eight."""
    digits = text.replace("_", "")
    if len(digits) > _DIGITS:
        raise ValueError(len(digits))
    try:
        return int(digits, 0)
    except ValueError:
        return int(digits)


def _float(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda _text: None,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "int": _integer,
    "float": _float,
}
"""The function from the text of a scalar to its value, by tag."""
