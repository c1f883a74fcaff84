"""Explain why a text is not YAML, with a cure for the usual mistakes: indents, tabs, brackets, quotes.

The parser names characters. Its messages have no values, so neither have these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from yaml.error import MarkedYAMLError, YAMLError

_TABS = "Indent the line with spaces, because YAML does not allow tabs."
_QUOTES = 'Quote text that has any of : { } [ ] , #, such as "${env:NAME}".'
_COLON = "Write a colon and a space after the name of a setting."
_ALIAS = "Define the anchor & before the alias, or quote text that begins with *."
_OPENED = re.compile(r"did not find expected ',' or '([}\]])'")
_DASHES = re.compile(r" *((?:- +)*)")
_VALUE = re.compile(r":\s+[^\s#&|>]")  # a setting with a value on its line


class YamlFault(NamedTuple):
    """A problem with its cure, and its line and column, from 1."""

    problem: str
    cure: str
    line: int = 1
    column: int = 1


def explain_yaml_fault(error: YAMLError, text: str) -> YamlFault:
    """Return the problem, the cure and the place of an error of the parser."""
    if not isinstance(error, MarkedYAMLError):
        return YamlFault(
            "The file has a character that YAML does not allow.", "Remove the character."
        )
    mark = error.problem_mark or error.context_mark
    lines = text.split("\n")
    line, column = 1, 1
    if mark is not None:  # beyond the last line if the file ends too early
        line, column = min(mark.line + 1, len(lines)), mark.column + 1
    problem = str(error.problem or error.context)
    if _is_indent(problem, lines, line, column):
        return _indent_fault(lines, line)
    cure = _cure(error, problem, lines[line - 1], column)
    return YamlFault(f"The file is not valid YAML: {problem}.", cure, line, column)


def _cure(error: MarkedYAMLError, problem: str, line: str, column: int) -> str:
    start = error.context_mark.line + 1 if error.context_mark is not None else 0
    opened = _OPENED.fullmatch(problem)
    if line[column - 1 :].startswith("\t"):
        return _TABS
    if opened is not None and "${" not in line:
        bracket = {"}": "{", "]": "["}[opened[1]]
        return f"Close the bracket {bracket} of line {start}, and put commas between its entries."
    if "quoted scalar" in str(error.context):
        return f"Close the quote of line {start}."
    if "expected ':'" in problem:
        return _COLON
    return _ALIAS if "undefined alias" in problem else _QUOTES


def _is_indent(problem: str, lines: Sequence[str], line: int, column: int) -> bool:
    """Return True if the first character of a line has a column that fits no section."""
    here = lines[line - 1]
    if "mapping values" in problem:  # the line continues the value of the line before it
        above = next((each for each in reversed(lines[: line - 1]) if _counts(each)), "")
        return len(_DASHES.match(above)[0]) < _indent(here) and _VALUE.search(above) is not None  # type: ignore[index]  # matches any text
    block = problem.endswith(("expected key", "expected '-' indicator"))
    return block and column == _indent(here) + 1


def _indent_fault(lines: Sequence[str], line: int) -> YamlFault:
    indent = _indent(lines[line - 1])
    *others, last = map(str, _open_indents(lines[: line - 1], indent) or [0])
    fitting = f"{', '.join(others)} or {last}" if others else last
    return YamlFault(
        f"The line is indented by {indent} spaces, which fits no section around it.",
        f"Indent it like the other settings of its section, by {fitting} spaces.",
        line,
        indent + 1,
    )


def _open_indents(lines: Sequence[str], indent: int) -> list[int]:
    """Return the indents of the sections that the lines leave open, without ``indent`` itself."""
    found: list[int] = []
    for each in filter(_counts, lines):
        own = _indent(each)
        found = [*(one for one in found if one < own), own]
        content = len(_DASHES.match(each)[0])  # type: ignore[index]  # matches any text
        if content > own:
            found.append(content)
    return [each for each in found if each != indent]


def _counts(line: str) -> bool:
    """Return True if the line has more than a comment."""
    return line.strip() != "" and not line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
