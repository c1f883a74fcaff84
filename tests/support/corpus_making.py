"""Write cases of one document each, and files of cases, for the generators in
``tests/corpus/make``.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent / "corpus"

GOOD = {"specversion": "1.0", "id": "k-5", "source": "/loom/2", "type": "org.example.cloth.woven"}


class Writer:
    """Collects the cases of one folder of the corpus, file by file."""

    def __init__(self, folder: str, media_type: str) -> None:
        self.folder = folder
        self.media_type = media_type
        self.files: dict[str, list[dict[str, Any]]] = {}

    def file(self, stem: str) -> None:
        """Begin a new file, to which all further cases are added."""
        self.files[stem] = []

    def events(
        self,
        name: str,
        rules: str,
        shows: str,
        document: bytes,
        *events: dict[str, Any],
        again: dict[str, str] | str = "",
        media_type: str = "",
    ) -> None:
        """Add a case with a valid document.

        Args:
            name: The name of the case.
            rules: Clauses of the specification, separated by ", ".
            shows: A sentence about what the case shows.
            document: The bytes of the document.
            events: The expected events.
            again: What differs if the event is written and read once more, or "refused".
            media_type: The media type, if it is not that of the folder.
        """
        expect = {"events": list(events)} | ({"again": again} if again else {})
        self._add(name, rules, shows, document, expect, media_type)

    def faults(
        self,
        name: str,
        rules: str,
        shows: str,
        document: bytes,
        *faults: str,
        media_type: str = "",
    ) -> None:
        """Add a case with an invalid document. Each fault is ``code`` or ``code@place``."""
        found = [dict(zip(("code", "at"), fault.split("@", 1), strict=False)) for fault in faults]
        self._add(name, rules, shows, document, {"faults": found}, media_type)

    def any_source(self, document: Callable[..., bytes]) -> None:
        for name, source in (("fragment", "#loom"), ("relative", "../loom"), ("urn", "urn:loom:2")):
            shows = "Any URI reference is a source."
            expected = event(source=source)
            self.events(f"source-{name}", "core 1.1", shows, document(source=source), expected)

    def lacking(self, name: str, document: Callable[..., bytes]) -> None:
        fault = f"missing-attribute@/{name}"
        self.faults(
            f"without-{name}", "core 1.1", f"{name} is required.", document(drop=name), fault
        )

    def other_version(self, version: str, document: Callable[..., bytes]) -> None:
        self.faults(
            f"version-{version.replace('.', '-')}",
            "core 1.1",
            "This format has 1.0 only.",
            document(specversion=version),
            "unsupported-specversion@/specversion",
        )

    def bad_source(self, document: Callable[..., bytes]) -> None:
        found = document(source="/a b")
        fault = "bad-uri-reference@/source"
        self.faults("bad-source", "core 1.1", "No URI reference.", found, fault)

    def _add(
        self, name: str, rules: str, shows: str, document: bytes, expect: Any, media_type: str
    ) -> None:
        case = {
            "name": name,
            "rules": rules.split(", "),
            "shows": shows,
            "message": {
                "media_type": media_type or self.media_type,
                "document": {"base64": b64encode(document).decode()},
            },
            "expect": expect,
        }
        next(reversed(self.files.values())).append(case)

    def texts(self) -> dict[Path, str]:
        """Return the content of each file by path."""
        return {
            ROOT / self.folder / f"{stem}.json": _text(cases) for stem, cases in self.files.items()
        }

    def write(self) -> None:
        for path, text in self.texts().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)


def event(
    data: dict[str, str] | None = None, types: dict[str, str] | None = None, **attributes: str
) -> dict[str, Any]:
    """Return an expected event: the valid sample event with these attributes added or replaced."""
    found: dict[str, Any] = {"attributes": GOOD | attributes}
    if types:
        found["types"] = types
    if data is not None:
        found["data"] = data
    return found


def base64_of(data: bytes) -> dict[str, str]:
    return {"base64": b64encode(data).decode()}


def _text(cases: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(map(_case, cases)) + "\n]\n"


def _case(case: dict[str, Any]) -> str:
    lines = (f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items())
    return "  {\n" + ",\n".join(lines) + "\n  }"
