"""Run the tests whose imports reach a file that changed since a commit, by default ``main``:
``make impacted``.

::

    make impacted                      run them
    make impacted ARGS="--list"        only name them
    make impacted ARGS="--since HEAD~3"

A test file reaches a module of ``app`` if it imports this module, or another that does. The graph
is that of import-linter. Text that is a module's name counts as an import, because forked services
are configured by such lists. A file that is not Python belongs to the test folder of its name. A
change of what all tests use runs all.
"""

from __future__ import annotations

import argparse
import functools
import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import grimp

from checkout import git
from pages import CHECKOUT

TESTS = CHECKOUT / "tests"
SUPPORT = TESTS / "support"
EVERYTHING = {"pyproject.toml", "uv.lock", "tests/conftest.py", "Makefile", ".ci/run"}
_FROM = re.compile(r"^[ \t]*from ([\w.]+) import (\([^)]*\)|.+)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import (.+)", re.MULTILINE)
_NAME = re.compile(r"[\w.]+")
_MODULE_IN_STRING = re.compile(r"""["'](app\.[\w.]+)["']""")
FOLDER_OF = {
    **dict.fromkeys(("docs", "README.md", "CHANGELOG.md"), "tests/docs"),
    "helm": "tests/helm",
    "Dockerfile": "tests/helm",
    "openapi": "tests/openapi",
}


def changed(since: str) -> list[str]:
    """Return the paths that differ from the commit where this branch left ``since``, committed or
    not.
    """
    base = git("merge-base", since, "HEAD").strip()
    tracked = git("diff", "--name-only", base).split()
    return [*tracked, *git("ls-files", "--others", "--exclude-standard").split()]


def impacted(paths: Iterable[str]) -> list[Path]:
    """Return the test files that these changes may affect, sorted."""
    paths = list(paths)
    every = sorted(TESTS.rglob("test_*.py"))
    touched = {PurePosixPath(path) for path in paths}
    modules = {_module(path) for path in touched if path.suffix == ".py"}
    folders = {folder for path in touched if (folder := _folder(path))}
    reaching = _Reaches(modules)
    if EVERYTHING & set(paths) or reaching.shared & modules:
        return every
    return [
        test
        for test in every
        if PurePosixPath(test.relative_to(CHECKOUT).as_posix()) in touched
        or any(test.is_relative_to(CHECKOUT / folder) for folder in folders)
        or (modules and reaching(test))
    ]


class _Reaches:
    """A function that returns True if a test file reaches one of ``modules``, through support
    modules and ``app``."""

    def __init__(self, modules: Collection[str]) -> None:
        graph = _graph()
        self._known = graph.modules
        self._concerned = set(modules)
        for module in modules & self._known:  # a package is imported with each of its modules
            self._concerned |= graph.find_descendants(module)
            self._concerned |= graph.find_downstream_modules(module, as_package=True)
        self.shared = {name for name in self._names(TESTS / "conftest.py") if _support(name)}

    def __call__(self, test: Path) -> bool:
        seen: set[Path] = set()
        waiting = [test, *_conftests(test)]
        while waiting:
            file = waiting.pop()
            if file in seen:
                continue
            seen.add(file)
            names = self._names(file)
            if names & self._concerned:
                return True
            waiting += [path for name in names if (path := _support(name))]
        return False

    def _names(self, file: Path) -> set[str]:
        found = _named_in(file)
        return {name for name in found if name in self._known or not name.startswith("app.")}


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("app", cache_dir=None)


@functools.cache
def _named_in(file: Path) -> frozenset[str]:
    """Return the names that a file imports, and its strings that begin with ``app.``.

    The text is searched, because to parse all tests takes seconds. Imports in the text of a program count too.
    """
    text = file.read_text()
    found = {*_MODULE_IN_STRING.findall(text)}
    for module, names in _FROM.findall(text):
        found |= {module, *(f"{module}.{name}" for name in _NAME.findall(names))}
    for names in _IMPORT.findall(text):
        found |= set(_NAME.findall(names))
    return frozenset(found)


@functools.cache
def _support(name: str) -> Path | None:
    path = SUPPORT / f"{name}.py"
    return path if path.exists() else None


def _conftests(test: Path) -> list[Path]:
    """Return the conftest files that apply to a test. The conftest of all tests is left out,
    because a change of that file runs all tests."""
    folders = [folder for folder in test.parents if folder != TESTS and TESTS in folder.parents]
    return [path for folder in folders if (path := folder / "conftest.py").exists()]


def _module(path: PurePosixPath) -> str:
    """Return the module name of a path. ``app/log/engine.py`` is ``app.log.engine``; a support
    file has its bare name.
    """
    if path.parts[:2] == ("tests", "support"):
        return path.stem
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _folder(path: PurePosixPath) -> str | None:
    """Return the test folder of a file that is not Python, or that is a ``conftest``. Return None
    for all other files."""
    if path.parts[0] == "tests" and len(path.parts) > 2:
        apart = path.suffix != ".py" or path.name == "conftest.py"
        return str(PurePosixPath(*path.parts[:2])) if apart else None
    return FOLDER_OF.get(path.parts[0])


def main(words: Collection[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="impacted", description="Run the tests that a change may affect."
    )
    parser.add_argument("--since", default="main", help="a commit or branch")
    parser.add_argument("--list", action="store_true", help="name them only")
    asked, more = parser.parse_known_args(list(words))
    found = [str(test.relative_to(CHECKOUT)) for test in impacted(changed(asked.since))]
    if asked.list:
        print("\n".join(found))
        return 0
    if not found:
        print(f"Nothing that tests reach has changed since {asked.since}.")
        return 0
    total = len(list(TESTS.rglob("test_*.py")))
    print(f"{len(found)} of {total} test files reach what changed since {asked.since}.", flush=True)
    pytest = [sys.executable, "-m", "pytest", "-m", "not nightly", *more, *found]
    return subprocess.run(pytest, cwd=CHECKOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
