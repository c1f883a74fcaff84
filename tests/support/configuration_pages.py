"""Make the pages of docs/reference/configuration from the JSON Schema of the configuration.

Each setting at the top of the file has a page with its sections. Each setting has an anchor, and ``all.md`` lists all of
them by their whole path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from app.config.model.schema import REFERENCE
from configuration_sections import Schema, Section, references, sections, shown
from markdown_writing import prose, table

PREFACE = """# Configuration

This page shows how the configuration file is built, and links to the settings of each of its parts. [All
settings](all.md) lists each setting by its whole path, for a search in the page.

The configuration is one YAML file. `${env:NAME}` and `${file:/path}` insert a value anywhere in a
string; `$$` is a dollar sign. An environment variable overrides a setting: `SKYBRIDGE_SERVER__EVENTS__PORT`
sets `server.events.port`. Durations are seconds or text such as `100ms`, `15s`, `5m`, `2h`, `7d`. Sizes are
bytes or text such as `64KiB`, `10MiB`. Other settings are refused.

[`skybridge schema`](../cli/schema.md) prints the same as a JSON Schema for editors, [`skybridge
init`](../cli/init.md) writes a commented file, and [`skybridge check FILE`](../cli/check.md) reports mistakes with
their lines.

## The file
"""
ALL = """# All settings

This page lists every setting of the configuration file by its path, with its default and a link to its meaning.
`NAME` is a name that you choose, and `[]` is any item of a list. Words in brackets name the kind of the section.

"""
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
GENERATED = "`make docs` writes this page from the model that reads the file."


def pages(schema: Schema) -> Mapping[str, str]:
    """Return the pages by their file name."""
    found = sections(schema)
    tops = dict.fromkeys(section.top for section in found.values())
    made = {f"{top}.md": _page(top, found) for top in tops}
    readme = f"{PREFACE}\n{_description(schema['description'])}\n\n{_table(Section(schema, ()), found, '')}"
    all_settings = f"{ALL}\n{table(('setting', 'default'), _all(schema, found))}"
    return {"README.md": readme, "all.md": all_settings, **made}


def _page(top: str, found: Mapping[str, Section]) -> str:
    own = [section for section in found.values() if section.top == top]
    head = (
        f"# Configuration: {top}\n\nThis page lists the settings of `{top}` in the configuration file. "
        f"{GENERATED} [Configuration](README.md) shows the whole file.\n"
    )
    return "\n".join([head, *(_section(section, found) for section in own)])


def _section(section: Section, found: Mapping[str, Section]) -> str:
    lines = [f"## {section.heading}", "", _description(section.schema.get("description", ""))]
    if also := section.places[1:]:
        lines += ["", "Also at " + ", ".join(map(shown, also)) + "."]
    return "\n".join([*lines, "", _table(section, found, section.top)])


def _table(section: Section, found: Mapping[str, Section], top: str) -> str:
    types, rows = _Types(found, top), []
    required = section.schema.get("required", [])
    for name, value in section.schema["properties"].items():
        anchor = f'<a id="{section.anchor(name) if section.places else name}"></a>'
        default = "required" if name in required else _default(value)
        meaning = prose(value.get("description", ""))
        rows.append((f"{anchor}`{name}`", types.of(value), default, meaning))
    return table(("setting", "type", "default", "meaning"), rows)


def _all(schema: Schema, found: Mapping[str, Section]) -> Iterator[tuple[str, str]]:
    """Yield a row for each setting at each of its places."""
    rows = {
        (name, ""): (f"README.md#{name}", value) for name, value in schema["properties"].items()
    }
    for section in found.values():
        for place in section.places:
            words = ", ".join(filter(None, (*place.variants, section.variant)))
            for name, value in section.schema["properties"].items():
                target = f"{section.top}.md#{section.anchor(name)}"
                rows[f"{place.path}.{name}", words and f" ({words})"] = target, value
    for (path, words), (target, value) in sorted(rows.items()):
        yield f"[`{path}`]({target}){words}", _default(value)


def _description(description: str) -> str:
    """Return a docstring as Markdown: double back-ticks become single, and aligned columns become a
    list."""
    paragraphs = prose(description).split("\n\n")
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


def _default(value: Schema) -> str:
    """Return the default of a setting as Markdown. Return nothing for a setting without a default
    and for a section, whose settings have their own defaults."""
    default = value.get("default")
    if default is None or isinstance(default, dict):
        return ""
    if isinstance(default, float) and {"type": "string"} in value["anyOf"]:  # also as text
        return f"`{_duration(default)}`"
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit that leaves a whole number, as the file may have it."""
    unit, size = next((unit, size) for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{seconds / size:g}{unit}"


_UNNAMED = ({"type": "null"}, REFERENCE)
"""Choices of every setting: to leave the setting out, or to insert a value by ``${...}``."""


class _Types:
    """The types of settings as Markdown, with links to sections. ``top`` names the page of the links."""

    def __init__(self, found: Mapping[str, Section], top: str) -> None:
        self._found = found
        self._top = top

    def of(self, value: Schema) -> str:
        if "const" in value:
            return f"`{value['const']}`"
        if "enum" in value:
            return " or ".join(f"`{choice}`" for choice in value["enum"])
        if "$ref" in value:
            return self._link(value)
        choices = [*value.get("anyOf", ()), *value.get("oneOf", ())]
        if choices:
            names = [self.of(choice) for choice in choices if choice not in _UNNAMED]
            alternatives = " or ".join(names).split(" or ")  # a choice may be several
            return " or ".join(dict.fromkeys(alternatives))
        return self._plain(value)

    def _plain(self, value: Schema) -> str:
        kind = value.get("type", "any")
        if kind == "array":
            return f"list of {self.of(value['items'])}" if "items" in value else "list"
        if kind == "object":
            named = [self._link({"$ref": name}) for _, name in references(value)]
            return f"by name: {' or '.join(named)}" if named else "map"
        return {
            "string": "text",
            "number": "number",
            "integer": "number",
            "boolean": "true or false",
            "any": "JSON",
        }[kind]

    def _link(self, value: Schema) -> str:
        section = self._found[value["$ref"].rpartition("/")[2]]
        page = "" if section.top == self._top else f"{section.top}.md"
        label = section.variant.rpartition(" ")[2]
        return f"[{f'`{label}`' if label else 'section'}]({page}#{section.slug})"
