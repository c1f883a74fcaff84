"""Pages of the console in a real Chromium, on a real service with real traffic."""

from __future__ import annotations

from collections.abc import Generator

import playwright.sync_api
import pytest

from console import FAILED, SHARED_BROWSER, WITHIN_MS, browser, console, page, pages

__all__ = ["browser", "console", "page", "pages"]


@pytest.fixture(autouse=True, scope="session")
def _patience() -> None:
    """For expectations as well."""
    playwright.sync_api.expect.set_options(timeout=WITHIN_MS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the body of a test has failed, for the pictures of its pages."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.hookimpl(trylast=True)  # behind the fixtures of the test
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the browser after the last test of the folder."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        SHARED_BROWSER.close()
