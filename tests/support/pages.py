"""The pages of the documentation, with their fenced blocks and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n\n?)?"
    r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. ``reason`` is why no test executes the block, or "" if a test
    executes it."""

    page: Path
    line: int
    language: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start("text")),
            language=match["language"],
            text=match["text"],
            reason=match["reason"] or "",
        )
        for match in _BLOCK.finditer(text)
    ]


def links(page: Path) -> list[str]:
    """Return the link targets of a page that lie inside the checkout, as written."""
    found = _LINK.findall(page.read_text(encoding="utf-8"))
    return [target for target in found if "://" not in target and not target.startswith("mailto:")]
