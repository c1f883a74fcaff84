"""Measure pages in a real browser without a window: Debian's ``chromium``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kafka_install import Missing

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str:
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise Missing("a Chromium is needed to look at pages: apt install chromium")


def measured(browser: str, page: str, folder: Path, width: int) -> tuple[int, int]:
    """Load a page with every fold open, and return its width in pixels and the number of resources
    it requested.

    A frame sets the width, because windows without a screen have a minimum width.

    Args:
        browser: The path of Chromium.
        page: The HTML text.
        folder: The folder for the page and for the profile of the browser.
        width: The width of the frame in pixels.
    """
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    probe = """<script>
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    parent.document.title = [document.documentElement.scrollWidth,
      performance.getEntriesByType("resource").length].join(" ");
    </script>"""
    (folder / "page.html").write_text(bare.replace("</body>", f"{probe}</body>"), encoding="utf-8")
    frame = folder / "frame.html"
    frame.write_text(
        f'<!doctype html><title></title><iframe src="page.html" width="{width}" height="800" frameborder="0"></iframe>'
    )
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *(
            "--no-first-run",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
            "--virtual-time-budget=5000",
        ),
        *(f"--user-data-dir={folder / 'profile'}", "--dump-dom", frame.as_uri()),
    ]
    environ = {**os.environ, "HOME": str(folder)}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=True, env=environ
    )
    found = re.search(r"<title>(\d+) (\d+)</title>", result.stdout)
    assert found, result.stdout[:500] + result.stderr[-2000:]
    return int(found[1]), int(found[2])
