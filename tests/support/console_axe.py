"""Check a page of the console with axe-core for barriers that keep people from using it."""

from __future__ import annotations

from functools import cache

from playwright.sync_api import Page

from app.console.files import WEB

_SCRIPT = WEB / "node_modules" / "axe-core" / "axe.min.js"
_GRAVE = {"serious", "critical"}
_WHERE = {"exclude": ["tbody tr:nth-child(n+6)"]}  # rows of a table are alike, and it takes long


@cache
def _axe() -> str:
    return _SCRIPT.read_text(encoding="utf-8")


def serious_faults(page: Page, *rules: str) -> list[str]:
    """Return one line for each serious fault: its rule and the first element that breaks it.

    The browser's debugger evaluates axe-core's script, so the security policy of the page cannot
    forbid it.

    Args:
        page: The page to check.
        rules: The only rules to check. By default all are checked.
    """
    page.evaluate(_axe())
    asked = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("([where, asked]) => axe.run(where, asked)", [_WHERE, asked])
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary'][:300]}"
        for each in found["violations"]
        if each["impact"] in _GRAVE
    ]
