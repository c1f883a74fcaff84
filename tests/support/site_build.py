"""Build the site of the documentation with Zensical, and check its links: ``make site``.

Zensical reads pages from one folder, and writes below the folder of its configuration. So the pages,
a copy of ``docs/site/zensical.toml`` and the result are in one place. A build takes four seconds.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

from kafka_install import one_at_a_time
from pages import CHECKOUT
from site_links import faults
from site_pages import Navigation, files, navigation

PLACE = CHECKOUT / "build" / "docs"
CONFIGURATION = Path("docs/site/zensical.toml")

_CODE = re.compile(r"`([^`\n]+)`")
_HIDDEN = re.compile(r"\[([^\]\n]+)\]\((?:\.\./)*\.[a-z][^)\n]*\)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Broken(Exception):
    """The pages do not make a whole site. The text names each fault."""


def build(place: Path = PLACE, checkout: Path = CHECKOUT) -> Path:
    """Build the site of a checkout in a place of its own, and return the folder of the start page.

    Raises:
        Broken: Zensical warns of a page, or the site has a fault (``site_links``).
    """
    shutil.rmtree(place, ignore_errors=True)
    for path in files(checkout):
        copy = place / "pages" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            copy.write_text(_for_site((checkout / path).read_text("utf-8")), "utf-8")
        else:
            shutil.copy2(checkout / path, copy)
    settings = (checkout / CONFIGURATION).read_text(encoding="utf-8")
    nav = f"[project]\nnav = {_toml(navigation(checkout))}\n"
    (place / "zensical.toml").write_text(settings.replace("[project]\n", nav, 1), encoding="utf-8")
    _run_zensical(place)
    site = place / "site"
    if found := faults(site):
        raise Broken("\n".join(found))
    return site


def _for_site(page: str) -> str:
    """Return the text of a page with what other viewers of Markdown do and Zensical does not.

    In the code of a table, ``\\|`` is ``|``. A link to a file in a folder such as ``.github`` is
    only its text, because no such folder is published.
    """
    lines = (
        _CODE.sub(_bars, line) if line.startswith("|") else line
        for line in page.splitlines(keepends=True)
    )
    return _HIDDEN.sub(r"\1", "".join(lines))


def _bars(code: re.Match[str]) -> str:
    text = escape(code[1]).replace(r"\|", "&#124;")
    return f"<code>{text}</code>" if r"\|" in code[1] else code[0]


def _toml(entries: str | Navigation) -> str:
    """Write a navigation as a value of TOML. A JSON string is a string of TOML."""
    if isinstance(entries, str):
        return json.dumps(entries, ensure_ascii=False)
    rows = [
        f"{{ {_toml(title)} = {_toml(place)} }}"
        for each in entries
        for title, place in each.items()
    ]
    return f"[{', '.join(rows)}]"


def _run_zensical(place: Path) -> None:
    program = Path(sys.executable).with_name("zensical")
    command = [program, "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        warnings = _COLOUR.sub("", done.stdout + done.stderr).partition("Traceback")[0]
        raise Broken(f"Zensical does not build the pages. Cure: see each warning.\n{warnings}")


def main() -> int:
    try:
        with one_at_a_time("docs", PLACE.parent):
            site = build()
    except Broken as why:
        print(why, file=sys.stderr)
        return 1
    print(f"The site is built: {site.relative_to(CHECKOUT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
