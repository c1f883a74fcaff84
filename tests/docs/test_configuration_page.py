"""docs/configuration.md says what the model says."""

from __future__ import annotations

from app.config.model.schema import schema
from configuration_page import page
from pages import CHECKOUT


def test_the_configuration_page_is_fresh():
    """Cure when it fails: make docs."""
    assert (CHECKOUT / "docs" / "configuration.md").read_text() == page(schema())


def test_every_setting_has_a_meaning():
    """A row without one teaches nothing."""
    definitions = [schema(), *schema()["$defs"].values()]
    assert [
        (each.get("title"), name)
        for each in definitions
        for name, value in each.get("properties", {}).items()
        if not value.get("description")
    ] == []
