"""A YAML 1.2 document as plain values, each with the place where it was written.

Built from the node tree rather than by a constructor, so that duplicate keys are all reported at
once and a time stays the text that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from yaml.error import MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from app.config.load.finding import BadConfiguration, Finding, Location, Path, written
from app.config.load.yaml_core import CORE, compose

REPEATED = 100_000
"""Values that aliases and merges may repeat: a few hundred bytes could mean billions of them."""

DEEPEST = 100  # collections in each other

_MERGE = f"{CORE}merge"
_DIGITS = 1_000  # of an integer; Python itself reads 4,300, and writes as many
_TABS = "write spaces instead: YAML indents only with spaces"
_QUOTES = 'quote text that holds any of : { } [ ] , # such as "${env:NAME}"'


class Document:
    """``root`` is the mapping; ``places`` has a place for every setting in it."""

    def __init__(self) -> None:
        self.root: dict[str | int, Any] = {}
        self.places: dict[Path, Location] = {}
        self.findings: list[Finding] = []

    def place(self, path: Path) -> Location:
        """Of the setting, or of the nearest one above it that was written."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Location())

    def wrong(self, path: Path, message: str, cure: str, place: Location | None = None) -> None:
        self.findings.append(
            Finding(
                level="error",
                setting=written(path),
                message=message,
                cure=cure,
                place=place or self.place(path),
            )
        )


def parse(raw: bytes) -> Document:
    """Raises BadConfiguration for what is no YAML mapping in UTF-8. Duplicate keys and the like are
    findings of the document."""
    text = _text(raw)
    try:
        root = compose(text)
    except YAMLError as error:
        raise _refused(*_translated(error, text)) from None
    except RecursionError:
        raise _too_deep(Location(1, 1)) from None
    document = Document()
    if root is None:
        raise _refused("the file is empty", "skybridge init writes a first file", Location(1, 1))
    if not isinstance(root, MappingNode):
        raise _refused("the file is not a mapping", "begin with: version: 1", _place(root))
    document.root = _Reader(document).value(root, (), ())
    return document


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refused("the file is not UTF-8", "save it as UTF-8", Location(line, 1)) from None


def _translated(error: YAMLError, text: str) -> tuple[str, str, Location]:
    """The parser's own words name characters, never a value of ours; its excerpt is left out."""
    if not isinstance(error, MarkedYAMLError):
        return "the file holds a character that YAML does not allow", "remove it", Location(1, 1)
    mark = error.problem_mark or error.context_mark
    lines = text.split("\n")
    place = Location(1, 1)
    if mark is not None:  # of a file that ends too early it is beyond the last line
        place = Location(min(mark.line + 1, len(lines)), mark.column + 1)
    problem = str(error.problem or error.context)
    is_tab = lines[place.line - 1][place.column - 1 :].startswith("\t")
    return f"no YAML: {problem}", _TABS if is_tab else _QUOTES, place


def _too_deep(place: Location) -> BadConfiguration:
    return _refused("nested too deeply", "write it flatter", place)


def _refused(message: str, cure: str, place: Location) -> BadConfiguration:
    return BadConfiguration(
        [Finding(level="error", setting="", message=message, cure=cure, place=place)]
    )


def _place(node: Node) -> Location:
    return Location(node.start_mark.line + 1, node.start_mark.column + 1)


class _Reader:
    """Turns nodes into values. ``above`` are the collections that a node stands in: an alias to one
    of them would never end."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._read: set[int] = set()  # nodes, by their id: the tree keeps them alive
        self._repeated = 0

    def value(self, node: Node, path: Path, above: tuple[int, ...]) -> Any:
        self._document.places.setdefault(path, _place(node))
        self._count(node)
        if len(above) > DEEPEST:  # what aliases nest is not nested in the text
            raise _too_deep(_place(node))
        if id(node) in above:
            self._document.wrong(
                path, "an alias to a node that contains it", "write it out", _place(node)
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
                first = self._document.places[*path, key].line
                self._document.wrong(
                    (*path, key), f"is set twice, first in line {first}", "keep one",
                    _place(key_node),
                )  # fmt: skip
                continue
            self._document.places[*path, key] = _place(key_node)
            result[key] = self.value(value_node, (*path, key), above)
        for key_node, value_node in merged:  # what is written here wins over what is merged in
            key = self._key(key_node, path)
            if key not in result:
                result[key] = self.value(value_node, (*path, key), above)
        return result

    def _merge(
        self, node: Node, path: Path, above: tuple[int, ...], into: list[tuple[Node, Node]]
    ) -> None:
        """Append the pairs of ``<<: *alias`` or ``<<: [*one, *two]``, nearest first: the first one wins.

        Each pair is a repeated value, also where a nearer one hides it: a caller's memory and time go into the
        making. Raises BadConfiguration beyond ``REPEATED``.
        """
        if len(above) > DEEPEST:
            raise _too_deep(_place(node))
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            self._count(source)
            if not isinstance(source, MappingNode) or id(source) in above:
                self._document.wrong(
                    path, "<< takes other mappings", "name an anchor", _place(node)
                )
                continue
            own = [pair for pair in source.value if pair[0].tag != _MERGE]
            self._repeat(len(own), source)
            into += own
            for key_node, value_node in source.value:
                if key_node.tag == _MERGE:
                    self._merge(value_node, path, (*above, id(source)), into)

    def _count(self, node: Node) -> None:
        """Count a node that was read before as a repeated one."""
        self._repeat(int(id(node) in self._read), node)
        self._read.add(id(node))

    def _repeat(self, values: int, node: Node) -> None:
        """Raise BadConfiguration for aliases and merges that mean more values than ``REPEATED``."""
        self._repeated += values
        if self._repeated > REPEATED:
            message = f"its aliases and merges repeat more than {REPEATED} values"
            raise _refused(message, "write fewer aliases of aliases", _place(node))

    def _key(self, node: Node, path: Path) -> str | int:
        key = self._scalar(node, path) if isinstance(node, ScalarNode) else None
        if isinstance(key, str) or type(key) is int:
            return key
        self._document.wrong(path, "the name of a setting must be text", "quote it", _place(node))
        return str(node.value)

    def _scalar(self, node: Node, path: Path) -> Any:
        text, tag = str(node.value), str(node.tag).removeprefix(CORE)
        read = _SCALARS.get(tag)
        if read is None:
            self._document.wrong(path, f"unknown tag {tag}", "leave the tag out", _place(node))
            return text
        try:
            return read(text)
        except (ValueError, KeyError):  # 0x_, thousands of digits, or a tag that somebody wrote
            self._document.wrong(
                path, f"is no {tag} that can be read", "correct it, or quote it", _place(node)
            )
            return text


def _integer(text: str) -> int:
    """YAML 1.2: ``010`` is ten, ``0o10`` is eight."""
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
"""By tag, from the text of a scalar to its value."""
