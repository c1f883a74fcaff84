"""The pages of docs/reference are those of the code, and nothing in them is without its meaning."""

from __future__ import annotations

import re

from app.config.model.schema import schema
from reference_pages import FOLDER, pages


def test_the_reference_is_fresh():
    """Cure when it fails: make docs."""
    written = {
        file.relative_to(FOLDER).as_posix(): file.read_text(encoding="utf-8")
        for file in FOLDER.rglob("*.md")
    }
    made = pages()
    assert [path for path in {**made, **written} if made.get(path) != written.get(path)] == []


def test_every_setting_has_a_meaning():
    """A row without one teaches nothing."""
    definitions = [schema(), *schema()["$defs"].values()]
    assert [
        (each.get("title"), name)
        for each in definitions
        for name, value in each.get("properties", {}).items()
        if not value.get("description")
    ] == []


def test_every_setting_has_an_anchor_of_its_own():
    """A link to a setting leads to that setting alone."""
    for path, text in pages().items():
        anchors = re.findall(r'<a id="([^"]+)">', text)
        assert len(anchors) == len(set(anchors)), path
