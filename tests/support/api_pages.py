"""Make the pages of docs/reference/api from openapi/openapi.json: one page for each tag, and one with the objects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from app.api.openapi.document import operations
from markdown_writing import prose, slug, table

Schema = Mapping[str, Any]

PREFACE = """# HTTP API

This page lists the operations of both listeners. Each tag has a page with its parameters, bodies and answers. `make
docs` writes these pages from [openapi.json](../../../openapi/openapi.json), which a running service serves at
`/openapi.json` of its admin listener, and as a page at `/docs`.

[Objects](objects.md) lists the members of all bodies. Each error is a [problem](../problems.md).

An operation with a scope needs a [token](../../guides/operators.md) with this scope, if the admin listener has tokens:
"""
OBJECTS = """# Objects of the HTTP API

This page lists the members of the objects in bodies and answers of the [HTTP API](README.md). `make docs` writes it from
the OpenAPI document. Objects whose name begins with `Subscription.` are settings:
[subscriptions](../configuration/subscriptions.md) lists them.
"""
_SETTINGS = "Subscription."
_OF_SETTINGS = "../configuration/subscriptions.md"


def pages(document: Schema) -> Mapping[str, str]:
    """Return the pages by their file name."""
    by_tag: dict[str, list[tuple[str, str, Schema]]] = {
        each["name"]: [] for each in document["tags"]
    }
    for path, method, operation in operations(document["paths"]):
        by_tag[operation["tags"][0]].append((path, method, operation))
    tags = {each["name"]: each["description"] for each in document["tags"]}
    made = {f"{slug(tag)}.md": _page(tag, tags[tag], found) for tag, found in by_tag.items()}
    readme = _readme(document["components"]["securitySchemes"], tags, by_tag)
    return {"README.md": readme, "objects.md": _objects(document["components"]["schemas"]), **made}


def _readme(
    schemes: Schema, tags: Mapping[str, str], by_tag: Mapping[str, list[tuple[str, str, Schema]]]
) -> str:
    scopes = [
        (f"`{name}`", each["description"].partition(": ")[2].removesuffix("."))
        for name, each in schemes.items()
    ]
    parts = [PREFACE, table(("scope", "allows to"), scopes)]
    for tag, found in by_tag.items():
        rows = [
            (f"[`{method.upper()} {path}`]({slug(tag)}.md#{_anchor(operation)})", _first(operation))
            for path, method, operation in found
        ]
        text = f"## [{tag}]({slug(tag)}.md)\n\n{tags[tag]}\n"
        parts.append(f"{text}\n{table(('operation', 'use'), rows)}")
    return "\n".join(parts)


def _page(tag: str, text: str, found: list[tuple[str, str, Schema]]) -> str:
    head = (
        f"# HTTP API: {tag}\n\nThis page describes the operations of the tag `{tag}`. {text} "
        "`make docs` writes it from the OpenAPI document. [HTTP API](README.md) lists all operations.\n"
    )
    return "\n".join([head, *(_operation(*each) for each in found)])


def _operation(path: str, method: str, operation: Schema) -> str:
    lines = [f'<a id="{_anchor(operation)}"></a>', "", f"## {method.upper()} {path}", ""]
    lines += [prose(operation["description"]), ""]
    if scopes := [name for each in operation.get("security", ()) for name in each]:
        lines += [f"Scope: `{', '.join(scopes)}`", ""]
    if parameters := [_parameter(each) for each in operation.get("parameters", ())]:
        lines.append(table(("parameter", "in", "type", "default", "meaning"), parameters))
    if body := operation.get("requestBody"):
        lines += [
            f"Body: {_content(body['content'])}. {prose(body.get('description', ''))}".rstrip(),
            "",
        ]
    answers = [
        (status, _content(each.get("content", {})), _answer(each))
        for status, each in operation["responses"].items()
    ]
    lines.append(table(("answer", "body", "meaning"), answers))
    return "\n".join(lines)


def _parameter(each: Schema) -> tuple[str, ...]:
    schema = each["schema"]
    default = "required" if each.get("required") else _default(schema)
    return f"`{each['name']}`", each["in"], _type(schema), default, prose(each["description"])


def _answer(answer: Schema) -> str:
    headers = ", ".join(f"`{name}`" for name in answer.get("headers", {}))
    text = prose(answer["description"]).rstrip(".") + "."
    return f"{text} Headers: {headers}." if headers else text


def _content(content: Schema) -> str:
    """Return the types of a body, with their media types where these differ from plain JSON."""
    found: dict[str, list[str]] = {}
    for media, each in content.items():
        found.setdefault(_type(each.get("schema", {})), []).append(media)
    problem = any("problem" in media for media in content)
    return ", or ".join(
        kind if problem or media == ["application/json"] else f"{kind} as `{'`, `'.join(media)}`"
        for kind, media in found.items()
    )


def _objects(schemas: Schema) -> str:
    return "\n".join(
        [
            OBJECTS,
            *(
                _object(name, each)
                for name, each in sorted(schemas.items())
                if not _is_setting(name)
            ),
        ]
    )


def _object(name: str, schema: Schema) -> str:
    lines = [f"## {name}", ""]
    if text := schema.get("description"):
        lines += [prose(text), ""]
    if "enum" in schema:
        lines += ["One of " + ", ".join(f"`{each}`" for each in schema["enum"]) + ".", ""]
    lines += [f"All members of {_type(each)}." for each in schema.get("allOf", ())]
    required = schema.get("required", ())
    rows = [
        (
            f"`{member}`",
            _type(each),
            _needed(member in required, each),
            prose(each.get("description", "")),
        )
        for member, each in schema.get("properties", {}).items()
    ]
    if rows:
        lines += ["", table(("member", "type", "default", "meaning"), rows)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _needed(required: bool, schema: Schema) -> str:
    return "required" if required else _default(schema)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({_OF_SETTINGS if _is_setting(name) else f'objects.md#{slug(name)}'})"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    choices = [each for name in ("anyOf", "oneOf", "allOf") for each in schema.get(name, ())]
    if choices:
        return " or ".join(dict.fromkeys(map(_type, choices)))
    if isinstance(schema.get("type"), list):
        return " or ".join(schema["type"])
    return _plain(schema)


def _plain(schema: Schema) -> str:
    if schema.get("type") == "array":
        inner = _type(schema["items"]) if schema.get("items") else "JSON"
        return f"array of {inner}"
    values = schema.get("additionalProperties")
    if schema.get("type") == "object" and isinstance(values, dict):
        return f"object of {_type(values)}"
    return str(schema.get("format") or schema.get("type") or "JSON")


def _is_setting(name: str) -> bool:
    return name.startswith(_SETTINGS) or name == _SETTINGS.rstrip(".")


def _anchor(operation: Schema) -> str:
    return str(operation["operationId"])


def _first(operation: Schema) -> str:
    """Return the first sentence of a description."""
    return prose(re.split(r"(?<=\.)\s", operation["description"], maxsplit=1)[0])
