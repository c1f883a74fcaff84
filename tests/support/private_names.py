"""List the undocumented names of libraries that ``app`` uses.

Such names begin with an underscore, or are imported from a module that the library does not
document.
``PYTHONPATH=tests/support python -m private_names`` prints them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import app

ROOT = Path(app.__file__).parent

DOCUMENTED = {
    "aio_pika": {"aio_pika", "aio_pika.abc"},
    "aiokafka": {
        "aiokafka",
        "aiokafka.abc",
        "aiokafka.admin",
        "aiokafka.errors",
        "aiokafka.structs",
    },
    "aiormq": {"aiormq", "aiormq.abc", "aiormq.exceptions"},
    "httpx": {"httpx"},
    "kio": {"kio.index", "kio.schema", "kio.serial"},  # and its submodules without an underscore
    "pamqp": {"pamqp"},
    "pulsar": {"pulsar"},
    "py4j": {"py4j"},
    "pyspark": {"pyspark", "pyspark.errors", "pyspark.sql"},
    "scramp": {"scramp"},
    "typer": {"typer", "typer.core", "typer.main"},
    "uvicorn": {"uvicorn"},
}
"""The documented modules of each library.

Some references name no modules, or only state that modules without an underscore are for users:
kio, pamqp, py4j and ``pyspark.sql``. Of these libraries, every module without an underscore counts
as documented.
"""
WHOLE = ("kio.", "pamqp.", "py4j.", "pyspark.sql.")
PUBLIC_ATTRIBUTES = frozenset(
    {"_asdict", "_fields", "_field_defaults", "_replace", "_exit", "_make"}
)


class Use(NamedTuple):
    """A place in ``app`` that uses an undocumented name. ``library`` is "" if the syntax does not
    show it."""

    module: str
    line: int
    library: str  # "" if unknown from the syntax
    name: str


class _Found(NamedTuple):
    """The uses and the patches of libraries in ``app``."""

    uses: tuple[Use, ...]
    patched: tuple[Use, ...]


def uses() -> tuple[Use, ...]:
    """Return every use of an undocumented name in ``app``, sorted by module and line."""
    return _found().uses


def patched() -> tuple[Use, ...]:
    """Return the places where ``app`` replaces a name in the module of a library or adds to
    ``sys.modules``."""
    return _found().patched


@cache
def _found() -> _Found:
    """Read all modules, once in a process: it takes seconds."""
    used: list[Use] = []
    replaced: list[Use] = []
    for path in ROOT.rglob("*.py"):
        module, nodes = _module(path), [*ast.walk(ast.parse(path.read_text()))]
        used += _used(module, nodes)
        replaced += _replaced(module, nodes)
    return _Found(tuple(sorted(used)), tuple(replaced))


def in_source(module: str, source: str) -> Iterator[Use]:
    """Yield the uses of undocumented names in one module.

    The module is imported if one of its classes may extend a class of a library.
    """
    return _used(module, [*ast.walk(ast.parse(source))])


def _used(module: str, nodes: Sequence[ast.AST]) -> Iterator[Use]:
    """Yield the uses of undocumented names among the nodes of one module."""
    ours = _defined(nodes)
    for node in nodes:
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield from _imported(module, node)
        elif isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node, ours):
            yield Use(module, node.lineno, "", node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"getattr", "hasattr", "setattr", "delattr"} and len(node.args) > 1:
                name = node.args[1]
                if isinstance(name, ast.Constant) and _is_private(str(name.value)):
                    yield Use(module, node.lineno, "", str(name.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            library, _, rest = node.value.partition(".")
            if library in DOCUMENTED and _is_private(rest) and rest.isidentifier():
                yield Use(module, node.lineno, library, rest)
        elif isinstance(node, ast.ClassDef):
            yield from _inherited(module, node)


def _replaced(module: str, nodes: Sequence[ast.AST]) -> Iterator[Use]:
    """Yield the assignments among the nodes of one module that patch a library."""
    modules = set(_modules_in(nodes))
    for node in nodes:
        for each in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(each, ast.Attribute) and getattr(each.value, "id", "") in modules:
                yield Use(module, each.lineno, each.value.id, each.attr)
            if not isinstance(each, ast.Name) and ast.unparse(each).startswith("sys.modules["):
                yield Use(module, each.lineno, "sys", "modules")
        if isinstance(node, ast.Call) and _is_setdefault_of_modules(node.func):
            yield Use(module, node.lineno, "sys", "modules")


def _is_setdefault_of_modules(called: ast.expr) -> bool:
    name = getattr(called, "attr", "")
    return name == "setdefault" and ast.unparse(called) == "sys.modules.setdefault"


def _modules_in(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names that a source file gives to imported modules of libraries."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [each.asname or each.name.partition(".")[0] for each in node.names]
            yield from (each for each in names if each not in sys.stdlib_module_names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] != "app":
            for each in node.names:
                if f"{node.module}.{each.name}" in sys.modules:
                    yield each.asname or each.name


def _imported(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
    pairs = (
        [(each.name, "") for each in node.names]
        if isinstance(node, ast.Import)
        else [(node.module or "", each.name) for each in node.names]
    )
    for origin, name in pairs:
        library = origin.partition(".")[0]
        if library in {"app", "__future__"} or library in sys.stdlib_module_names:
            continue
        parts = [*origin.split("."), name]
        if any(map(_is_private, parts)) or not _is_documented(library, origin):
            yield Use(module, node.lineno, library.lstrip("_"), name or origin)


def _is_documented(library: str, module: str) -> bool:
    return library not in DOCUMENTED or module in DOCUMENTED[library] or module.startswith(WHOLE)


def _inherited(module: str, node: ast.ClassDef) -> Iterator[Use]:
    """Yield the private names of a library's base class that a class overrides or uses."""
    if not node.bases:
        return
    names = {
        each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    names |= {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
    private = {each for each in names if _is_private(each)}
    if not private:
        return
    for base in _foreign_bases(module, node.name):
        library = base.__module__.partition(".")[0]
        there = {each for each in private if hasattr(base, each)} | (private & _set_in(base))
        yield from (Use(module, node.lineno, library, each) for each in there)


def _foreign_bases(module: str, name: str) -> list[type]:
    kind = getattr(importlib.import_module(module), name, None)
    if not isinstance(kind, type):
        return []
    libraries = DOCUMENTED.keys()
    return [each for each in kind.__mro__ if each.__module__.partition(".")[0] in libraries]


@cache
def _set_in(base: type) -> frozenset[str]:
    """Return the names of the fields that the methods of a class set."""
    try:
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(base)))
    except (OSError, TypeError, SyntaxError):
        return frozenset()
    return frozenset(
        each.attr
        for each in ast.walk(tree)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and _is_private(each.attr)
    )


def _is_private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and name != "_" and not dunder and name not in PUBLIC_ATTRIBUTES


def _is_own(node: ast.Attribute, ours: frozenset[str]) -> bool:
    """Return True if the attribute belongs to the object itself, the standard library, or this
    module."""
    value = node.value
    name = value.id if isinstance(value, ast.Name) else ""
    of_super = isinstance(value, ast.Call) and getattr(value.func, "id", "") == "super"
    return (
        name in {"self", "cls"} or name in sys.stdlib_module_names or of_super or node.attr in ours
    )


def _defined(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that the classes and functions of a module define."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return frozenset(found)


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    for found in uses():
        print(f"{found.module}:{found.line} {found.library} {found.name}")
    print([*patched()])
