"""Count the words that style rules forbid, in docstrings, comments and messages of ``app`` and ``tests/support``, and in pages.

``make words`` prints the counts of each folder. ``make words ARGS=app/api`` lists the offences of that folder with file
and line, ``ARGS="app/api --kind told"`` one kind of them. ``ARGS=--lower`` writes lower ceilings after a clean-up.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import words_pages
from words_patterns import MOST_WORDS, WORDS, Offence

CHECKOUT = Path(__file__).resolve().parents[2]
CEILINGS = CHECKOUT / "tests" / "docs" / "words_ceilings.toml"
SHOWN = 90

KINDS = {
    "fragment": "a docstring that begins with a fragment",
    "told": "told or said",
    "nobody": "nobody, somebody or whoever",
    "dialect": "a word that has a standard one: tell, say, stand, beside, behind, anew, likewise, ours",
    "code": "the code of a rule",
    "long": "a sentence of a docstring or a page with more than 25 words",
    "stale": "a name in backquotes that the code does not have",
    "twins": "a class that shares its name with a class for another thing",
}
"""Each kind of offence, and what it is."""

FRAGMENTS = (
    "Of|By|With|Without|From|What|Who|Whose|Whom|Which|Where|Wherever|Whether|When|While|How|Why|"
    "Whatever|Whoever|Until|It|Its|They|Their|Them|Those|These|Each|Nothing|Nobody|Somebody|"
    "Something|Everything|Everybody|As|For|At|In|On|Into|To|Through|Over|Between|Behind|Beside|"
    "Before|After|Since|Once|So|Or|And|But|Not|Never|Also|Told|Said|None"
)
_FRAGMENT = re.compile(rf"(?:{FRAGMENTS})\b|``[\w.*, ]+``(?::| None| True| False|  )")
_CODE = re.compile(r"``.+?``|`[^`\n]+`", re.DOTALL)
_TABLE = re.compile(r"^ *=+ +=+.*^ *=+ +=+[^\n]*$|^[^\n]*\|[^\n]*$", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?=``\w+``[: ]|\w+ {2,}\w)|\n\s*[-*] |:\n")
_NAME = re.compile(r"(?<!`)``([A-Za-z_][\w.]*)(?:\(\))?``(?!`)")
_WORD = re.compile(r"\w+")
_BROKER = re.compile(
    r"app/(?:brokers/(?:embedded|kafka|pulsar|rabbitmq)/|bindings/(?:kafka|pulsar|rabbitmq)\.py)"
)
_STORE = re.compile(r"app/(?:interfaces/store\.py|store/)")


class Text(NamedTuple):
    """A docstring, a comment or a message, with the line where it begins."""

    form: str
    line: int
    text: str


class Module(NamedTuple):
    """A parsed source file. ``path`` is relative to the checkout; ``names`` are all words of its code."""

    path: str
    texts: list[Text]
    classes: list[tuple[str, int]]
    names: set[str]

    @property
    def folder(self) -> str:
        """Return the part of the house that people rewrite at once."""
        first, second, *below = self.path.split("/")
        return f"{first}/{second}" if first == "tests" or below else first


@cache
def modules() -> tuple[Module, ...]:
    """Read all Python files of ``app`` and ``tests/support``."""
    files = [
        *sorted((CHECKOUT / "app").rglob("*.py")),
        *sorted((CHECKOUT / "tests" / "support").rglob("*.py")),
    ]
    return tuple(
        parse(str(file.relative_to(CHECKOUT)), file.read_text(encoding="utf-8"))
        for file in files
        if file.name not in {"words_count.py", "words_patterns.py"}
    )


def parse(path: str, source: str) -> Module:
    """Find the texts, the public classes and the names of one file."""
    module = Module(path, [], [], set())
    lines = source.splitlines()
    documents: set[int] = set()
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        _note(node, module, documents, inside)
    for number, line in enumerate(lines, 1):
        before, mark, comment = line.partition("# ")
        if mark and number not in inside and (not before.strip() or before.endswith("  ")):
            module.texts.append(Text("comment", number, comment))
    return module


def _note(node: ast.AST, module: Module, documents: set[int], inside: set[int]) -> None:
    body = getattr(node, "body", None)
    for statement in body if isinstance(body, list) else ():
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            documents.add(id(value))
            inside.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
            module.texts.append(Text("docstring", value.lineno, value.value))
    match node:
        case ast.Constant(value=str() as text) if id(node) not in documents:
            inside.update(range(node.lineno, node.end_lineno or node.lineno))
            module.names.update(_WORD.findall(text))
            if " " in text:
                module.texts.append(Text("message", node.lineno, text))
        case ast.ClassDef(name=name):
            module.names.add(name)
            if not name.startswith("_"):
                module.classes.append((name, node.lineno))
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            module.names.add(name)
        case (
            ast.keyword(arg=str(name))
            | ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
        ):
            module.names.add(name)
        case ast.ImportFrom(module=str(name)):
            module.names.update(name.split("."))
            module.names.update(each.name for each in node.names)
        case ast.alias(name=name):
            module.names.update(name.split("."))


@cache
def offences() -> tuple[Offence, ...]:
    """Return all offences, by folder, file and line."""
    known = set().union(*(module.names for module in modules())) | _other_names()
    found = [each for module in modules() for each in in_module(module, known)]
    return (*found, *_twins(), *words_pages.offences())


def in_module(module: Module, known: set[str]) -> Iterator[Offence]:
    """Yield the offences of one file, but for ``twins``."""
    for form, line, text in module.texts:
        for kind, at, hit in _in_text(form, text, known):
            place = f"{module.path}:{line + text.count(chr(10), 0, at)}"
            yield Offence(kind, module.folder, place, " ".join(hit.split()))


def _in_text(form: str, text: str, known: set[str]) -> Iterator[tuple[str, int, str]]:
    plain = _CODE.sub(lambda match: "x" * len(match[0]), text)
    for kind, pattern in WORDS.items():
        for match in pattern.finditer(plain):
            if kind != "code" or form != "message":
                yield kind, match.start(), text[max(0, match.start() - 40) : match.end() + 40]
    if form == "docstring":
        yield from _in_docstring(text, known)


def _in_docstring(text: str, known: set[str]) -> Iterator[tuple[str, int, str]]:
    if _FRAGMENT.match(text.lstrip()):
        yield "fragment", 0, text.lstrip()[:SHOWN]
    for sentence in _SENTENCE.split(_TABLE.sub("\n\n", text)):
        if len(_CODE.sub("x", sentence).split()) > MOST_WORDS:
            yield "long", max(0, text.find(sentence)), sentence.strip()[:SHOWN]
    for match in _NAME.finditer(text):
        if not known.issuperset(match[1].strip(".").split(".")) or not _resolves(match[1]):
            yield "stale", match.start(), match[0]


@cache
def _resolves(name: str) -> bool:
    """Return False if the dotted name of a class of ``app`` names a module or class that is not there."""
    parts = name.removeprefix("app.").split(".")
    place = next((at for at, part in enumerate(parts) if part[:1].isupper()), 0)
    if not place or not (name.startswith("app.") or (CHECKOUT / "app" / parts[0]).is_dir()):
        return True
    prefix = f"/{'/'.join(parts[:place])}/"
    there = [each for each in modules() if prefix in _dotted(each)]
    return any(each.names.issuperset(parts[place:]) for each in there)


def _dotted(module: Module) -> str:
    return f"/{module.path.removesuffix('.py')}/"


def _twins() -> Iterator[Offence]:
    by_name = defaultdict(list)
    for module in modules():
        if module.path.startswith("app/"):
            for name, line in module.classes:
                by_name[name].append((module, line))
    for name, places in sorted(by_name.items()):
        if len({_thing(module.path) for module, _ in places}) > 1:
            for module, line in places:
                yield Offence("twins", module.folder, f"{module.path}:{line}", name)


def _thing(path: str) -> str:
    """Return one label for classes that are the same thing: one a broker, or a protocol and what implements it."""
    for label, pattern in (("broker", _BROKER), ("store", _STORE)):
        if pattern.match(path):
            return label
    return path


def _other_names() -> set[str]:
    """Return the words of settings, charts and pages of the console, which are code too, though not in Python."""
    files: Iterable[Path] = [
        *(CHECKOUT / "helm").rglob("*.yaml"),
        *(CHECKOUT / "app" / "console" / "web" / "src").rglob("*.ts*"),
        CHECKOUT / "pyproject.toml",
        CHECKOUT / "Makefile",
    ]
    names: set[str] = set()
    for file in files:
        names.update(_WORD.findall(file.read_text(encoding="utf-8")))
    return names | {path.stem for path in (CHECKOUT / "tests").rglob("*.py")} | set(dir(builtins))


def counts() -> dict[str, Counter[str]]:
    """Return the count of each kind by folder. ``house`` counts the names that classes share."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for each in offences():
        if each.kind != "twins":
            found[each.folder][each.kind] += 1
    found["house"]["twins"] = len({each.text for each in offences() if each.kind == "twins"})
    return dict(sorted(found.items()))


def ceilings() -> dict[str, dict[str, int]]:
    """Read the most that each folder may have of each kind."""
    return tomllib.loads(CEILINGS.read_text(encoding="utf-8"))


def lowered() -> str:
    """Return the ceilings as a file, none of them higher than before; a new folder begins with 0."""
    now = counts()
    lines = []
    for folder, before in sorted(ceilings().items()):
        least = {kind: min(most, now.get(folder, {}).get(kind, 0)) for kind, most in before.items()}
        left = ", ".join(f"{kind} = {count}" for kind, count in least.items() if count)
        lines.append(f'"{folder}" = {{{left}}}\n')
    return HEAD + "\n".join(lines)


HEAD = """# The most offences of each kind in each folder: `make words ARGS=--lower` writes this file after a clean-up.
# A count may fall and never rise. An empty line between folders lets branches change neighbours.

"""


def main() -> None:
    """Print the counts, or the offences of a folder."""
    parser = argparse.ArgumentParser(prog="make words", description=__doc__)
    parser.add_argument("folder", nargs="?", help="list the offences of this folder or file")
    parser.add_argument("--kind", choices=KINDS, help="list this kind alone")
    parser.add_argument("--lower", action="store_true", help="write lower ceilings")
    options = parser.parse_args()
    if options.lower:
        CEILINGS.write_text(lowered(), encoding="utf-8")
    if not options.folder and not options.kind:
        _print_table()
        return
    for each in offences():
        if each.place.startswith(options.folder or "") and options.kind in (None, each.kind):
            sys.stdout.write(f"{each.place}: {each.kind}: {each.text}\n")


def _print_table() -> None:
    rows = counts()
    total: Counter[str] = Counter()
    sys.stdout.write(f"{'':20}" + "".join(f"{kind:>10}" for kind in KINDS) + "\n")
    for folder, row in rows.items():
        total.update(row)
        sys.stdout.write(
            f"{folder:20}" + "".join(f"{row[kind] or '':>10}" for kind in KINDS) + "\n"
        )
    sys.stdout.write(f"{'all':20}" + "".join(f"{total[kind]:>10}" for kind in KINDS) + "\n")


if __name__ == "__main__":
    main()
