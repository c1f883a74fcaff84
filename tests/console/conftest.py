"""Pages of the console in a real Chromium, on a real service with real traffic."""

from __future__ import annotations

import playwright.sync_api
import pytest

from console import WITHIN_MS, browser, console, page, pages

__all__ = ["browser", "console", "page", "pages"]


@pytest.fixture(autouse=True, scope="session")
def _patience() -> None:
    """For expectations as well."""
    playwright.sync_api.expect.set_options(timeout=WITHIN_MS)
