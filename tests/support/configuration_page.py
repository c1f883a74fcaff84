"""Write docs/configuration.md from the JSON Schema of the configuration, for ``make docs``.

Each definition is a section, in the order in which a reader meets it in the file. The heading is
the path of the definition in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

PREFACE = """# Configuration

This page lists every setting. `make docs` generates it from the model that reads the file. `skybridge
schema` prints the same as a JSON Schema for editors, `skybridge init` writes a commented file, and
`skybridge check FILE` reports mistakes with their lines.

The configuration is one YAML file. `${env:NAME}` and `${file:/path}` insert a value anywhere in a
string; `$$` is a dollar sign. An environment variable overrides a setting: `SKYBRIDGE_SERVER__EVENTS__PORT`
sets `server.events.port`. Durations are seconds or text such as `100ms`, `15s`, `5m`, `2h`, `7d`. Sizes are
bytes or text such as `64KiB`, `10MiB`. Other settings are refused.
"""


def page(schema: Schema) -> str:
    """Return the whole page as Markdown."""
    definitions: Schema = schema["$defs"]
    paths: dict[str, list[str]] = {}
    for path, name in _places(schema, definitions, ""):
        known = paths.setdefault(name, [])
        if path not in known:
            known.append(path)
    sections = [_section("The file", [], schema)]
    sections += [_section(_shown(at[0]), at[1:], definitions[name]) for name, at in paths.items()]
    return "\n".join([PREFACE, *sections])


def _places(schema: Schema, definitions: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Yield every path at which a definition occurs, with the name of the definition, outermost
    paths first."""
    kind = schema.get("properties", {}).get("kind", {}).get("const")
    within = f"<{kind}>" if kind else ""
    for name, value in schema.get("properties", {}).items():
        for suffix, reference in _references(value):
            if definitions[reference] is schema:
                continue  # a filter of filters: it has its section already
            below = f"{path}{within}.{name}{suffix}".removeprefix(".")
            yield below, reference
            yield from _places(definitions[reference], definitions, below)


def _references(value: Schema, suffix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the definitions that a value may have, each after the suffix of its path: ``[]`` or
    ``.NAME``.
    """
    if "$ref" in value:
        yield suffix, value["$ref"].rpartition("/")[2]
    for choice in [*value.get("anyOf", ()), *value.get("oneOf", ())]:
        yield from _references(choice, suffix)
    if "items" in value:
        yield from _references(value["items"], f"{suffix}[]")
    for inner in _map_values(value):
        yield from _references(inner, f"{suffix}.NAME")


def _map_values(value: Schema) -> Iterator[Schema]:
    if isinstance(value.get("additionalProperties"), dict):
        yield value["additionalProperties"]
    yield from value.get("patternProperties", {}).values()


def _shown(path: str) -> str:
    """Return a path as readers see it: ``brokers.NAME<kafka>.topics`` gives its path in the file,
    and the kind.
    """
    head, _, rest = path.partition("<")
    kind, _, tail = rest.partition(">")
    return f"`{head}{tail}` (kind: {kind})" if kind else f"`{path}`"


def _section(heading: str, also: list[str], schema: Schema) -> str:
    lines = [f"## {heading}", "", _prose(schema.get("description", ""))]
    if kind := schema["properties"].get("kind", {}).get("const"):
        lines[0] += f" (kind: {kind})"
    if also:
        lines += ["", "Also at " + ", ".join(map(_shown, also)) + "."]
    lines += ["", "| setting | type | default | meaning |", "|---|---|---|---|"]
    required = schema.get("required", [])
    lines += [_row(name, value, name in required) for name, value in schema["properties"].items()]
    return "\n".join(lines) + "\n"


def _prose(description: str) -> str:
    """Return a docstring as Markdown: double back-ticks become single, and aligned columns become a
    list."""
    paragraphs = description.replace("``", "`").split("\n\n")
    return "\n\n".join(
        "\n".join(f"- {line}" for line in _joined(text)) if text.startswith("`") else text
        for text in paragraphs
    )


def _joined(text: str) -> list[str]:
    entries: list[str] = []
    for line in text.splitlines():
        if line.startswith("`"):
            entries.append(" ".join(line.split()))
        else:
            entries[-1] += " " + line.strip()
    return entries


def _row(name: str, value: Schema, required: bool) -> str:
    default = "required" if required else _default(value)
    cells = [f"`{name}`", _type(value), default, _meaning(value)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _meaning(value: Schema) -> str:
    return " ".join(value.get("description", "").replace("``", "`").split())


def _default(value: Schema) -> str:
    """Return the default of a setting as Markdown. Return nothing for a setting without a default
    and for a section, whose settings have their own defaults."""
    default = value.get("default")
    if default is None or isinstance(default, dict):
        return ""
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _type(value: Schema) -> str:
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " or ".join(f"`{choice}`" for choice in value["enum"])
    if "$ref" in value:
        return "section"
    choices = [*value.get("anyOf", ()), *value.get("oneOf", ())]
    if choices:
        names = [_type(choice) for choice in choices if choice.get("type") != "null"]
        alternatives = " or ".join(names).split(" or ")  # a choice may be several
        return " or ".join(dict.fromkeys(alternatives))
    return _plain_type(value)


def _plain_type(value: Schema) -> str:
    kind = value.get("type", "any")
    if kind == "array":
        return f"list of {_type(value['items'])}" if "items" in value else "list"
    if kind == "object":
        return "section by name" if any(_references(value)) else "map"
    return {
        "string": "text",
        "number": "number",
        "integer": "number",
        "boolean": "true or false",
        "any": "JSON",
    }[kind]


if __name__ == "__main__":
    from app.config.model.schema import schema

    print(page(schema()), end="")
