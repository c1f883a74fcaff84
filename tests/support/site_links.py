"""Check a built site: its links, the files that it loads, and text that is still Markdown.

Each link leads to a file and to an anchor in it. No page loads a file of another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

_TAG = re.compile(r"<(?P<name>[a-z][a-z0-9]*)\b(?P<rest>(?:[^>\"]|\"[^\"]*\")*)>")
_ATTRIBUTE = re.compile(
    r"\s(?P<name>href|src|srcset|id|name)=(?:\"(?P<quoted>[^\"]*)\"|(?P<bare>[^\s>\"]+))"
)
_ADDRESSES = {"href", "src", "srcset"}
_ANCHORS = {"id", "name"}
_CODE = re.compile(r"<pre\b.*?</pre>|<script\b.*?</script>", re.DOTALL)
_MARKDOWN = re.compile(r"^(?:<p>|<li>)?(?:\| |[-*] |1\. |```|#+ ).*$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """An HTML file of the site."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def _attributes(self) -> list[tuple[str, str, str]]:
        """Return the tag, name and value of each attribute that is an address or an anchor."""
        return [
            (tag["name"], each["name"], unescape(each["quoted"] or each["bare"] or ""))
            for tag in _TAG.finditer(self.text)
            for each in _ATTRIBUTE.finditer(tag["rest"])
        ]

    @cached_property
    def anchors(self) -> set[str]:
        return {value for _, name, value in self._attributes if name in _ANCHORS}

    def addresses(self) -> dict[str, str]:
        """Return the address of each link, picture, script and style sheet, with its tag."""
        return {value: tag for tag, name, value in self._attributes if name in _ADDRESSES}


def faults(site: Path) -> list[str]:
    """Return one line for each fault of the site, with its page."""
    pages = {path: Page(path) for path in sorted(site.resolve().rglob("*.html"))}
    return [
        f"{page.path.relative_to(site.resolve())}: {fault}"
        for page in pages.values()
        for fault in [*_of_addresses(page, site.resolve(), pages), *_markdown(page)]
    ]


def _of_addresses(page: Page, site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    for address, tag in page.addresses().items():
        parts = urlsplit(address)
        if parts.netloc and tag != "a":
            yield f"<{tag}> loads {address} from another host. Cure: add the file to docs"
        if parts.netloc or parts.scheme:
            continue
        place, anchor = _place(page, site, unquote(parts.path)), unquote(parts.fragment)
        if not place.is_file():
            yield f"the link {address} leads to no file"
        elif anchor and place in pages and anchor not in pages[place].anchors:
            yield f"the link {address} leads to no heading"


def _place(page: Page, site: Path, path: str) -> Path:
    """Return the file that a server of the site sends for a path on a page."""
    start = site if path.startswith("/") else page.path.parent
    place = (start / path.lstrip("/")).resolve() if path else page.path
    return place / "index.html" if place.is_dir() else place


def _markdown(page: Page) -> Iterator[str]:
    """Yield the lines that begin as a table, list, fence or heading of Markdown does."""
    for match in _MARKDOWN.finditer(_CODE.sub("", page.text)):
        yield f"Markdown is left: {match[0][:80]}. Cure: put an empty line before it"
