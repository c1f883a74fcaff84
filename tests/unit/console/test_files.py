"""The built page as a browser gets it: strict headers, digests, codings, and a word where it is not built."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.console.files import CURE, Console

INDEX = b'<!doctype html><script type="module" src="./assets/index-1.js"></script>'
SCRIPT = b"export const same = 'words';\n" * 200
SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """A page that was built."""
    assets = tmp_path / "dist" / "assets"
    assets.mkdir(parents=True)
    (assets / "index-1.js").write_bytes(SCRIPT)
    (tmp_path / "secret.txt").write_text("beside the page, and no part of it")
    (tmp_path / "dist" / "index.html").write_bytes(INDEX)
    return tmp_path


async def _api(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the API"})


@pytest.fixture
def console(web: Path) -> Console:
    return Console(_api, web=web)


@pytest.fixture
async def client(console: Console) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=console)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def test_the_index_is_asked_for_again_each_time(client: httpx.AsyncClient) -> None:
    """A new version is seen at the next visit, and costs nothing while it is the same."""
    answer = await client.get("/console/")
    assert (answer.status_code, answer.content) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    etag = answer.headers["etag"]
    for given in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await client.get("/console/", headers={"if-none-match": given})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    other = await client.get("/console/", headers={"if-none-match": '"other"'})
    assert other.status_code == 200


async def test_assets_are_kept_for_ever_and_zipped(client: httpx.AsyncClient) -> None:
    """Their names have a digest."""
    path = "/console/assets/index-1.js"
    plain = await client.get(path, headers={"accept-encoding": "br, gzip;q=0"})
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "content-encoding" not in plain.headers
    assert int(plain.headers["content-length"]) == len(SCRIPT)
    zipped = await client.get(path, headers={"accept-encoding": "br, GZIP;q=0.5"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert zipped.content == plain.content == SCRIPT
    assert int(zipped.headers["content-length"]) == len(gzip.compress(SCRIPT, mtime=0))
    assert zipped.headers["etag"] != plain.headers["etag"]
    assert {plain.headers["vary"], zipped.headers["vary"]} == {"accept-encoding"}


@pytest.mark.parametrize(
    "path",
    [
        "/console",
        "/console/",
        "/console/assets/index-1.js",
        "/console/none.js",
    ],
)
async def test_every_answer_has_the_strict_headers(client: httpx.AsyncClient, path: str) -> None:
    """Nothing inline, no frame, no guessed type, nothing from elsewhere."""
    answer = await client.get(path)
    policy = dict(
        each.strip().split(" ", 1)
        for each in answer.headers["content-security-policy"].split(";")
    )  # fmt: skip
    assert policy["default-src"] == "'self'"
    assert {policy[each] for each in ("frame-ancestors", "base-uri", "object-src")} == {"'none'"}
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert dict(answer.headers).items() >= SAFE.items()


async def test_head_is_get_without_a_body(client: httpx.AsyncClient) -> None:
    for path in ("/console/", "/console/assets/index-1.js", "/console/none.js"):
        got, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers == got.headers


async def test_the_bare_path_leads_on_relatively(client: httpx.AsyncClient) -> None:
    """So that a proxy may have put a path in front."""
    answer = await client.get("/console?x=1")
    assert (answer.status_code, answer.headers["location"]) == (308, "console/?x=1")


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "..%2fsecret.txt", "assets/../../secret.txt", "assets", "/etc/hosts", "\0"],
)
async def test_nothing_beside_the_page_is_served(console: Console, path: str) -> None:
    """As a socket hands it over: clients of good manners send no such paths."""
    said: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    scope = {"type": "http", "method": "GET", "path": f"/console/{path}", "headers": []}
    await console(scope, None, send)
    assert said[0]["status"] == 404
    assert b"no part of it" not in said[1]["body"]


async def test_it_is_only_read(client: httpx.AsyncClient) -> None:
    answer = await client.post("/console/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/status", "/consoles", "/v1/session"])
async def test_everything_else_is_the_api(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).content == b"the API"


async def test_where_it_is_not_wanted_the_api_answers(
    client: httpx.AsyncClient, console: Console
) -> None:
    console.shown = False
    assert (await client.get("/console/")).content == b"the API"


async def test_a_page_that_is_built_anew_is_found(client: httpx.AsyncClient, web: Path) -> None:
    """The service does not start again for it."""
    await client.get("/console/")
    (web / "dist" / "assets" / "index-2.js").write_bytes(b"2")
    (web / "dist" / "index.html").write_bytes(b"new")
    assert (await client.get("/console/")).content == b"new"
    assert (await client.get("/console/assets/index-2.js")).content == b"2"


async def test_where_nothing_is_built_a_page_says_why_and_the_cure(
    client: httpx.AsyncClient, console: Console, web: Path
) -> None:
    """As whoever could not build it wrote down; nothing of it is markup."""
    assert console.missing == ""
    (web / "dist" / "index.html").unlink()
    answer = await client.get("/console/")
    assert (answer.status_code, answer.headers["cache-control"]) == (503, "no-store")
    assert CURE in answer.text
    assert CURE in console.missing
    (web / "not-built.txt").write_text("npm said <script>")
    answer = await client.get("/console/anything")
    assert "npm said &lt;script&gt;" in answer.text
    assert console.missing == "npm said <script>"


async def test_a_page_that_is_being_built_appears_by_itself(
    client: httpx.AsyncClient, web: Path
) -> None:
    """The browser asks again, and no script is needed for it."""
    (web / "dist" / "index.html").unlink()
    assert (await client.get("/console/")).headers["refresh"] == "5"
    (web / "dist" / "index.html").write_bytes(INDEX)
    assert "refresh" not in (await client.get("/console/")).headers
