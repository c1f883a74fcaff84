"""The text of the first configuration file."""

from __future__ import annotations

import re
from importlib import resources
from textwrap import indent

from app.config.starter import sections
from app.config.starter.choices import StarterChoices
from app.config.starter.fragments import NAMES

_SLOT = re.compile(r"^( *)<(\w+)>\n", re.MULTILINE)
_SECTIONS = {
    "access": sections.access,
    "brokers": sections.brokers,
    "intakes": sections.intakes,
    "producers": sections.producers,
    "subscriptions": sections.subscriptions,
}


def starter_text(choices: StarterChoices) -> str:
    """Return the commented configuration file for these choices."""
    template = resources.files(__package__).joinpath("skybridge.yaml").read_text("utf-8")
    text = _SLOT.sub(
        lambda slot: indent(_SECTIONS[slot[2]](choices).rstrip(), slot[1]) + "\n", template
    )
    inline = {
        "file": choices.file,
        "broker": NAMES[choices.broker],
        "allowed": sections.allowed(choices),
    }
    for name, value in inline.items():
        text = text.replace(f"<{name}>", value)
    return text
