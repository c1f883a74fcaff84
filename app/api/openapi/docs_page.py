"""``/docs``: the OpenAPI document and the problems as one HTML page that loads nothing from other hosts."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.api.openapi.document import operations
from app.problems import PROBLEMS, problem_type

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
details{border:1px solid #8884;border-radius:.4rem;margin:.4rem 0;padding:.4rem .8rem}
summary{cursor:pointer}code,pre{font-family:ui-monospace,monospace}pre{overflow:auto}
.method{display:inline-block;min-width:4.5rem;font-weight:bold}
table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.1rem 1rem .1rem 0}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}
"""


def render(document: Mapping[str, Any]) -> str:
    """Return the OpenAPI document as one HTML page."""
    title = html.escape(f"{document['info']['title']} {document['info']['version']}")
    return "".join(
        [
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>",
            f"<style>{_STYLE}</style><h1>{title}</h1>",
            f"<p>{html.escape(document['info'].get('description', ''))}</p>",
            "<p>For machines: <a href=openapi.json>openapi.json</a></p>",
            *_sections(document["paths"]),
            "<h2>problems</h2>",
            *map(_problem, sorted(PROBLEMS)),
            "<h2>schemas</h2>",
            *(_schema(name, each) for name, each in document["components"]["schemas"].items()),
            "</html>",
        ]
    )


def _sections(paths: Mapping[str, Any]) -> Iterator[str]:
    tag = ""
    for path, method, operation in operations(paths):
        if (own := operation["tags"][0]) != tag:
            tag = own
            yield f"<h2>{html.escape(tag)}</h2>"
        yield _operation(method, path, operation)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    head = (
        f"<details id={html.escape(operation['operationId'])}><summary>"
        f"<span class=method>{method.upper()}</span> <code>{html.escape(path)}</code> "
        f"{html.escape(operation.get('summary', ''))}</summary>"
    )
    text = f"<p>{html.escape(operation.get('description', ''))}</p>{_scope(operation)}"
    parameters = _table(
        (f"{each['name']} ({each['in']})", each.get("description", ""))
        for each in operation.get("parameters", ())
    )
    answers = _table(
        (status, each["description"]) for status, each in operation["responses"].items()
    )
    return f"{head}{text}{parameters}{answers}</details>"


def _scope(operation: Mapping[str, Any]) -> str:
    names = [name for each in operation.get("security", ()) for name in each]
    return f"<p>Scope: <code>{html.escape(', '.join(names))}</code></p>" if names else ""


def _problem(code: str) -> str:
    """Return the cause and the cure of a problem. Its anchor is the code."""
    kind = PROBLEMS[code]
    rows = _table(
        iter(
            [
                ("status", ", ".join(map(str, kind.statuses))),
                ("cause", kind.cause),
                ("cure", kind.cure),
            ]
        )
    )
    return (
        f"<details id={code}><summary><code>{problem_type(code)}</code></summary>{rows}</details>"
    )


def _table(rows: Iterator[tuple[str, str]]) -> str:
    cells = [
        f"<tr><th><code>{html.escape(name)}</code><td>{html.escape(text)}" for name, text in rows
    ]
    return f"<table>{''.join(cells)}</table>" if cells else ""


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    text = html.escape(json.dumps(schema, indent=2))
    return f"<details id=schema-{html.escape(name)}><summary><code>{html.escape(name)}</code></summary><pre>{text}</pre></details>"
