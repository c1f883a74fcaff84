"""Read and write subscriptions in YAML files, in the same form as in the configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from app.cli import exits, options, printing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from app.config.load.finding import Finding


def read(file: str) -> list[dict[str, Any]]:
    """Return the subscriptions of a YAML file, or of standard input for ``-``.

    The file has one subscription, or a ``subscriptions`` list as in the configuration. ``${env:…}``
    and ``${file:…}`` are resolved here with the rights of the caller. If the file is invalid, the
    command ends.
    """
    import os

    from app.config.load.document import parse
    from app.config.load.finding import BadConfiguration
    from app.config.load.secrets import resolve

    try:
        document = parse(options.content(file))
    except BadConfiguration as bad:
        _refuse(file, bad.findings)
    document.root = {"subscriptions": document.root.get("subscriptions", [document.root])}
    resolve(document, os.environ)
    if document.findings:
        _refuse(file, document.findings)
    read_ones = document.root["subscriptions"]
    if not isinstance(read_ones, list) or not all(isinstance(each, dict) for each in read_ones):
        printing.fail(
            f"{file} has no subscriptions.",
            cure="Write one subscription, or a list under subscriptions.",
            code=exits.SETUP,
        )
    return [_escaped(each) for each in read_ones]


def _refuse(file: str, findings: Iterable[Finding]) -> NoReturn:
    """Print the findings and end the command."""
    for finding in findings:
        printing.print_error(f"{file}: {finding}")
    raise typer.Exit(exits.SETUP)


def _escaped(value: Any) -> Any:
    """Escape all text in a resolved value, because the API would take ``${`` as a new reference."""
    from app.config.load.secrets import escaped

    match value:
        case dict():
            return {name: _escaped(inner) for name, inner in value.items()}
        case list():
            return [_escaped(inner) for inner in value]
        case str():
            return escaped(value)
    return value


def write(documents: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return subscriptions as YAML for a configuration, and the environment variables that it
    refers to.

    Each secret is replaced by a reference to a variable.
    """
    from app.config.load.yaml_core import dump

    missing: list[str] = []
    named = [_with_references(each, (each["id"],), missing) for each in documents]
    return dump({"subscriptions": named}), missing


def _with_references(value: Any, at: tuple[str, ...], missing: list[str]) -> Any:
    """Return the value with each hidden secret replaced by a reference to an environment variable.
    Append the names of these variables to ``missing``.
    """
    from app.model.secret import HIDDEN

    match value:
        case dict():
            return {
                name: _with_references(inner, (*at, name), missing) for name, inner in value.items()
            }
        case list():
            return [_with_references(inner, at, missing) for inner in value]
        case str() if value == HIDDEN:
            missing.append(_variable(at))
            return f"${{env:{missing[-1]}}}"
    return value


def _variable(at: tuple[str, ...]) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", "_".join(at).upper())


def documents_of(listed: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> Iterator[Any]:
    """Yield the documents of the named subscriptions, or of all that the API created."""
    known = {each["id"]: each for each in listed}
    for name in wanted:
        if name not in known:
            printing.fail(
                f"Subscription {name} does not exist.",
                cure="skybridge subscriptions list shows all subscriptions.",
            )
        yield known[name]["document"]
    if not wanted:
        yield from (each["document"] for each in listed if each["origin"] == "api")
