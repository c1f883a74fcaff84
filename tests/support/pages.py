"""The pages of the documentation, with their fenced blocks and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?:not run: (?P<reason>[^\n]+?)|keeps running on (?P<port>\d+)) -->\n\n?)?"
    r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        reason: Why no test executes the block, or "" if a test executes it.
        port: The port on which the program of the block listens while it keeps running, or "" if the block ends.
    """

    page: Path
    line: int
    language: str
    text: str
    reason: str
    port: str = ""

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
            port=match["port"] or "",
        )
        for match in _BLOCK.finditer(text)
    ]


def section(page: Path, heading: str) -> list[Block]:
    """Return the blocks below a heading of the second level, as far as tests execute them."""
    lines = page.read_text(encoding="utf-8").splitlines()
    begin = lines.index(f"## {heading}") + 1
    later = (
        number for number, line in enumerate(lines, 1) if line.startswith("## ") and number > begin
    )
    end = next(later, len(lines))
    return [each for each in blocks(page) if begin < each.line < end and not each.reason]


def links(page: Path) -> list[str]:
    """Return the link targets of a page that are inside the checkout, as written. Blocks have none."""
    found = _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return [target for target in found if "://" not in target and not target.startswith("mailto:")]
