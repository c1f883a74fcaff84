"""The console comes up in a browser: from files with strict headers, whoever asks."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_the_page_comes_up_and_asks_nobody_else(page: Page) -> None:
    """A page whose script the policy forbids, or that does not start, stays empty."""
    expect(page.locator("body")).to_contain_text("Skybridge")
    expect(page.get_by_role("navigation").first).to_be_visible()
