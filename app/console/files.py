"""Serve ``/console/`` on the admin listener: the built page, from memory.

The page contains nothing secret, so it needs no token. It requests all data from the API. The files are read
again after each build. If the page was not built, a small page shows the reason and the cure.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import html
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

WEB = Path(__file__).parent / "web"
BARE, PREFIX, INDEX, ASSETS = "/console", "/console/", "index.html", "assets/"
CURE = "make console"

_REASON = "not-built.txt"  # a failed build writes it next to the page
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
_SAFE: Headers = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_FOR_EVER = b"public, max-age=31536000, immutable"  # for files with a digest in their name
_ASK_AGAIN = b"no-cache"
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".json": b"application/json",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".woff2": b"font/woff2",
}
_OTHER_TYPE = b"application/octet-stream"
_NOT_BUILT = 503
_AGAIN = b"5"  # seconds until a browser reloads the page, as a build may be running
_LEAST_SAVED = 0.9  # a file is compressed only if that makes it smaller than this share


class CodedBody(NamedTuple):
    """The content of a file with one content coding, such as gzip."""

    content: bytes
    etag: bytes
    coding: bytes = b""


class ConsoleFile(NamedTuple):
    """A file of the console, plain and compressed."""

    plain: CodedBody
    zipped: CodedBody
    type: bytes
    caching: bytes

    def fit(self, accepted: bytes) -> CodedBody:
        """Return the body in a content coding that an Accept-Encoding header allows."""
        return self.zipped if takes_gzip(accepted) else self.plain


class Console:
    """A plain ASGI layer in front of the admin API that serves the console. ``shown`` is the setting
    server.admin.console."""

    def __init__(self, app: Asgi, *, shown: bool = True, web: Path = WEB) -> None:
        self.shown = shown
        self._app = app
        self._web = web
        self._built = 0  # modification time of the index file in ns, or 0 without one
        self._files: Mapping[str, ConsoleFile] = {}
        self._reading = asyncio.Lock()

    @property
    def missing(self) -> str:
        """Return why the console cannot be shown, or "" if it is built."""
        return "" if (self._web / "dist" / INDEX).is_file() else self._reason()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if not self.shown or not (path == BARE or path.startswith(PREFIX)):
            await self._app(scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await _answer(send, 405, [(b"allow", b"GET, HEAD")])
        elif path == BARE:
            await _answer(
                send, 308, [(b"location", _location(scope)), (b"cache-control", _ASK_AGAIN)]
            )
        else:
            await self._send_name(path.removeprefix(PREFIX) or INDEX, scope, send)

    async def _send_name(self, name: str, scope: Scope, send: Any) -> None:
        """Send the file of the console with this name."""
        await self._read()
        file, is_head = self._files.get(name), scope["method"] == "HEAD"
        if file is not None:
            await _send_file(file, scope, send)
        elif self._files:
            await _page(send, 404, "Not found", "The console has no such page.", is_head)
        else:
            await _page(send, _NOT_BUILT, "The console is not built", self._reason(), is_head)

    async def _read(self) -> None:
        """Read all files again if the index file has changed. A build writes the index file last."""
        async with self._reading:
            built = await asyncio.to_thread(self._built_at)
            if built != self._built:
                self._files = await asyncio.to_thread(read, self._web / "dist") if built else {}
                self._built = built

    def _built_at(self) -> int:
        """Return the modification time of the index file in ns, or 0 if there is none."""
        try:
            return (self._web / "dist" / INDEX).stat().st_mtime_ns
        except OSError:
            return 0

    def _reason(self) -> str:
        """Return why the console is not built."""
        try:
            return (self._web / _REASON).read_text(encoding="utf-8").strip()
        except OSError:
            return f"The console was not built with this installation. Cure, in a checkout: {CURE}"


def read(folder: Path) -> dict[str, ConsoleFile]:
    """Return every file below a folder, by its path in the URL."""
    return {
        path.relative_to(folder).as_posix(): _file(path, path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _file(path: Path, name: str) -> ConsoleFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]
    plain = CodedBody(content, f'"{digest}"'.encode())
    smaller = gzip.compress(content, mtime=0)
    gains = len(smaller) < _LEAST_SAVED * len(content)
    zipped = CodedBody(smaller, f'"{digest}-gzip"'.encode(), b"gzip") if gains else plain
    caching = _FOR_EVER if name.startswith(ASSETS) else _ASK_AGAIN
    return ConsoleFile(plain, zipped, _TYPES.get(path.suffix, _OTHER_TYPE), caching)


async def _send_file(file: ConsoleFile, scope: Scope, send: Any) -> None:
    body = file.fit(_header(scope, b"accept-encoding"))
    headers: Headers = [
        (b"etag", body.etag),
        (b"cache-control", file.caching),
        (b"vary", b"accept-encoding"),
    ]
    if _has_etag(_header(scope, b"if-none-match"), body.etag):
        await _answer(send, 304, headers)
        return
    headers.append((b"content-type", file.type))
    if body.coding:
        headers.append((b"content-encoding", body.coding))
    await _answer(send, 200, headers, body.content, is_head=scope["method"] == "HEAD")


async def _page(send: Any, status: int, title: str, text: str, is_head: bool) -> None:
    content = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>"
        '<p>The API works without the console: <a href="../docs">its description</a>.</p></html>'
    )
    headers = [(b"content-type", _TYPES[".html"]), (b"cache-control", b"no-store")]
    if status == _NOT_BUILT:
        headers.append((b"refresh", _AGAIN))
    await _answer(send, status, headers, content.encode(), is_head=is_head)


async def _answer(
    send: Any, status: int, headers: Headers, content: bytes = b"", *, is_head: bool = False
) -> None:
    length = [] if status == 304 else [(b"content-length", str(len(content)).encode())]  # noqa: PLR2004
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [*_SAFE, *headers, *length]})
    await send({"type": "http.response.body", "body": b"" if is_head else content})


def _location(scope: Scope) -> bytes:
    """Return the URL to which a request without the final slash is redirected. The URL is relative, so that a
    path that a proxy adds is kept."""
    query = scope.get("query_string", b"")
    return PREFIX[1:].encode() + (b"?" + query if query else b"")


def _header(scope: Scope, wanted: bytes) -> bytes:
    return b",".join(value for name, value in scope["headers"] if name == wanted)


def takes_gzip(accepted: bytes) -> bool:
    """Return True if an Accept-Encoding header allows gzip (RFC 9110 12.5.3)."""
    return any(coding in {b"gzip", b"*"} and wanted for coding, wanted in _codings(accepted))


def _codings(accepted: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield each content coding of the header, and True if it is allowed."""
    for each in accepted.lower().split(b","):
        coding, _, weight = each.replace(b" ", b"").partition(b";")
        yield coding, weight.rstrip(b"0") not in {b"q=", b"q=0."}


def _has_etag(given: bytes, etag: bytes) -> bool:
    """Return True if an If-None-Match header has the ETag. It compares weakly (RFC 9110 13.1.2)."""
    known = {each.strip().removeprefix(b"W/") for each in given.split(b",")}
    return etag in known or b"*" in known
