"""The form of the log before the configuration is loaded.

A line that is printed early must have the form of the later lines, also if the file is invalid. So
the text of the file is searched for ``log.format``, without parsing it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from app.telemetry import set_up_logging

VARIABLE = "SKYBRIDGE_LOG__FORMAT"
_KEY = r"""["']?{}["']?[ \t]*:[ \t]*"""
_IS_JSON = _KEY.format("format") + r"""["']?json\b"""
_LOG = _KEY.format("log")
_FLOW = re.compile(rf"(?:^|[{{,][ \t\n]*){_LOG}\{{[^{{}}]*?{_IS_JSON}", re.MULTILINE)
_BLOCK = re.compile(
    rf"^{_LOG}(?:\#.*)?\n(?:[ \t]+.*\n|[ \t]*\n|[ \t]*\#.*\n)*?[ \t]+{_IS_JSON}", re.MULTILINE
)


def begin_log(file: Path | None, environ: Mapping[str, str]) -> None:
    """Write JSON from now on if the environment variable or the text of the file asks for it."""
    if _wants_json(file, environ):
        set_up_logging("info", as_json=True)


def _wants_json(file: Path | None, environ: Mapping[str, str]) -> bool:
    if VARIABLE in environ:
        return environ[VARIABLE] == "json"
    if file is None:
        return False
    from app.tls.regular import read_regular

    try:
        text = read_regular(file).decode(errors="replace")
    except OSError:  # reported by the load of the configuration
        return False
    return bool(_BLOCK.search(text) or _FLOW.search(text))
