"""Test the console in a real Chromium against a real service, for the journeys under
``tests/console``.

    def test_a_page(console, page): ...          # both fixtures come with tests/console/conftest.py
        page.goto(console.url("#/subscriptions"))

The browser lives for the tests of the folder, and no longer: Playwright's event loop cannot run
while tests that are coroutines run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

import chromium
import console_build
from kafka_install import Missing
from reload_service import ReloadService, Settings
from skipping import skip_or_fail

WITHIN_MS = 60_000.0  # an expectation waits this long: on a busy machine a browser is slow
TOKEN = "the-token-of-the-console-tests"
READER = "the-token-that-may-only-read"
FAILED = pytest.StashKey[bool]()
"""The key by which ``tests/console/conftest.py`` notes whether the body of a test has failed."""


class ConsoleService(ReloadService):
    """A ``ReloadService`` with the console.

    ``change`` edits its settings before ``running``; ``ask`` calls its API, ``post`` sends events,
    and ``reload`` reloads the configuration.
    """

    def __init__(self, folder: Path, change: Callable[[Settings], object] = lambda _: None) -> None:
        super().__init__(folder)
        self.change(change)
        self._first = self.settings

    def url(self, fragment: str = "") -> str:
        """Return the address of a page of the console, such as ``#/subscriptions``."""
        return f"http://127.0.0.1:{self.admin}/console/{fragment}"


def with_tokens(settings: Settings) -> None:
    """Add two tokens to the settings of a ``ConsoleService``: one for everything and one for
    reading only.
    """
    reader = {"name": "reader", "token": READER, "scopes": ["read"]}
    settings["server"]["admin"] |= {"token": TOKEN, "tokens": [reader]}


def demand_console() -> None:
    """Skip the test if the console is not built from the present sources. With CI=true, the test fails instead."""
    if not console_build.built():
        why = "" if not console_build.REASON.is_file() else console_build.REASON.read_text()
        skip_or_fail(f"the console is not built as its sources are. {why or console_build.CURE}")


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """Give a running Chromium without a window. Without Chromium the test is skipped, or fails if
    CI=true.
    """
    try:
        program = chromium.find()
    except Missing as missing:
        skip_or_fail(missing)
    words = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=program, args=words, env={**os.environ, "HOME": str(folder)}
        )
        try:
            yield found
        finally:
            found.close()


class PageWatch:
    """Records what a page must not do: raise errors, break its security policy, or request other
    hosts.
    """

    def __init__(self, page: Page, home: str) -> None:
        self.faults: list[str] = []
        self._home = home
        page.on("pageerror", lambda error: self.faults.append(f"raised: {error}"))
        page.on("console", lambda message: self._hear(message.text))
        page.on("request", self._see)

    def _hear(self, text: str) -> None:
        if "Content Security Policy" in text:
            self.faults.append(text)

    def _see(self, request: Request) -> None:
        if not request.url.startswith((self._home, "blob:")):
            self.faults.append(f"asked {request.url}")


class Pages:
    """Opens the pages of one test, each in a browser context of its own, as if for two people."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder
        self._stack = ExitStack()
        self._open: list[tuple[Page, PageWatch]] = []

    def open(
        self, service: ConsoleService, fragment: str = "", *, token: str = "", **context: Any
    ) -> Page:
        """Open a page of the console.

        Args:
            service: The service whose console is opened.
            fragment: The page, such as ``#/subscriptions``.
            token: The token to log in with; none by default.
            context: Arguments of Playwright's ``new_context``, such as color_scheme and locale.
        """
        made = self._browser.new_context(**context)
        self._stack.callback(made.close)
        made.set_default_timeout(WITHIN_MS)
        if token:
            log_in(made, service, token)
        page = made.new_page()
        self._open.append((page, PageWatch(page, f"http://127.0.0.1:{service.admin}/")))
        page.goto(service.url(fragment))
        return page

    def end(self, *, name: str, failed: bool) -> None:
        """Assert that no page did wrong, and close all.

        After a failure, save a picture of each open page as ``<tmp>/<name>-<n>.png``. A picture
        takes longer than many tests.
        """
        try:
            for number, (page, watch) in enumerate(self._open):
                if (failed or watch.faults) and not page.is_closed():
                    page.screenshot(path=self._folder / f"{name}-{number}.png")
                assert watch.faults == []
        finally:
            self._stack.close()


def log_in(context: BrowserContext, service: ConsoleService, token: str) -> None:
    """Log the browser context in with a token by the API, without the login page."""
    answer = context.request.post(
        f"http://127.0.0.1:{service.admin}/v1/session", data={"token": token}
    )
    assert answer.ok, answer.text()


class SharedBrowser:
    """A browser for tests that follow each other: it takes longer to start than most of them."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._browser: Browser | None = None

    def open(self, folder: Path) -> Browser:
        """Return the browser, and start it if it does not run. ``folder`` is its home."""
        if self._browser is None or not self._browser.is_connected():
            self.close()
            self._browser = self._stack.enter_context(browsing(folder))
        return self._browser

    def close(self) -> None:
        self._browser = None
        self._stack.close()


SHARED_BROWSER = SharedBrowser()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """Return the browser that ``tests/console/conftest.py`` closes after the last test of the folder."""
    demand_console()
    return SHARED_BROWSER.open(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleService]:
    """Run a service without tokens for the whole module, on which every caller on loopback may do
    everything.
    """
    demand_console()
    with ConsoleService(tmp_path_factory.mktemp("console")).running() as service:
        yield service


@pytest.fixture
def pages(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pages]:
    """Open pages for one test. At the end of the test, the rules of ``PageWatch`` are checked for each page."""
    found = Pages(browser, tmp_path)
    yield found
    failed = request.node.stash.get(FAILED, True)
    found.end(name=re.sub(r"\W+", "-", request.node.name), failed=failed)


@pytest.fixture
def page(pages: Pages, console: ConsoleService) -> Page:
    """Open the first page of the console, on the service of the module."""
    return pages.open(console)
