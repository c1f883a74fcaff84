"""Check an answer before the file exists: the same checks as those of the whole file."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from app.config.check.source import ConfigSource
from app.config.load.finding import Finding
from app.config.starter.choices import LOCAL, StarterChoices
from app.config.starter.text import starter_text


def first_error(
    choices: StarterChoices, section: str, environ: Mapping[str, str]
) -> Finding | None:
    """Return the first error of a section of the file that these choices make, or None. Secret files do not exist
    yet, so the file is tried without them.
    """
    tried = structs.replace(choices, senders=(LOCAL,), signed=False)
    _, findings = ConfigSource(None, environ).findings(starter_text(tried).encode())
    errors = (each for each in findings if each.level == "error")
    return next((each for each in errors if each.setting.startswith(section)), None)
