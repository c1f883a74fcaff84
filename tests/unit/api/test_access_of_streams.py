"""An answer that goes on, while the tokens of the listener change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from app.api.access.callers import AccessToken, AdminAccess
from app.api.access.guard import TokenGuard, cookie_of
from app.model.scopes import Scope

READ, DATA = frozenset[Scope]({"read"}), frozenset[Scope]({"read", "data"})
ANN = AccessToken("ann", ["a", "before"], READ)
BOB = AccessToken("bob", ["b"], DATA)
MASKED = ("/card",)


async def told(
    access: AdminAccess, header: bytes | None, change: Callable[[TokenGuard], None]
) -> Any:
    """What a stream of two lines tells, of which the second comes behind ``change``. ``header``: of authorization;
    empty for a session of token ``a``."""
    sent: list[Any] = []

    async def stream(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        change(guard)
        await send({"type": "http.response.body", "body": b"2", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    guard = TokenGuard(stream, access, lambda: 0.0)
    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": "/t", "headers": [(b"host", b"127.0.0.1")],
    }  # fmt: skip
    if header == b"":
        found = guard.log_in({**scope}, "a")
        assert isinstance(found, tuple)
        scope["headers"].append((b"cookie", f"{cookie_of(scope)}={found[1].id}".encode()))
    elif header is not None:
        scope["headers"].append((b"authorization", header))
    await guard(scope, receive, send)
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    return b"".join(each.get("body", b"") for each in sent)


@pytest.mark.parametrize(
    ("after", "goes_on"),
    [
        (AdminAccess([ANN], MASKED), True),
        (AdminAccess([AccessToken("ann", ["a"], DATA), BOB], MASKED), True),
        (AdminAccess([AccessToken("ann", ["new", "a"], READ)], MASKED), True),
        (AdminAccess([], MASKED), True),
        (AdminAccess([BOB], MASKED), False),
        (AdminAccess([AccessToken("ann", ["new"], READ)], MASKED), False),
        (AdminAccess([AccessToken("ann", ["a"], frozenset({"pull"}))], MASKED), False),
        (AdminAccess([ANN]), False),
        (AdminAccess([ANN], ("/card", "/name")), False),
    ],
)
@pytest.mark.parametrize("header", [b"Bearer a", b""], ids=["token", "session"])
async def test_a_stream_ends_when_its_token_goes_or_may_do_less(
    header: bytes, after: AdminAccess, goes_on: bool
) -> None:
    """Whoever takes a token back must not go on showing event data to the one that has it (reliability S14)."""
    text = await told(AdminAccess([ANN, BOB], MASKED), header, lambda guard: guard.apply(after))
    keeps_its_session = header or after.tokens
    assert text == (b"12" if goes_on and keeps_its_session else b"1")


async def test_a_stream_of_a_token_for_data_does_not_care_for_masks() -> None:
    text = await told(
        AdminAccess([BOB], MASKED),
        b"Bearer b",
        lambda guard: guard.apply(AdminAccess([BOB], ("/x",))),
    )
    assert text == b"12"


@pytest.mark.parametrize(("after", "goes_on"), [(AdminAccess(), True), (AdminAccess([ANN]), False)])
async def test_a_stream_without_a_token_ends_when_one_is_needed(
    after: AdminAccess, goes_on: bool
) -> None:
    text = await told(AdminAccess(), None, lambda guard: guard.apply(after))
    assert text == (b"12" if goes_on else b"1")


@pytest.mark.parametrize("tokens", [[], [ANN]], ids=["open", "with a token"])
async def test_a_caller_that_leaves_before_its_body_has_arrived_is_no_error(
    tokens: list[AccessToken],
) -> None:
    """A peer must not be able to fill the log with errors (reliability S1)."""

    async def reads(scope: Any, receive: Any, _send: Any) -> None:
        await Request(scope, receive).body()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    guard = TokenGuard(reads, AdminAccess(tokens), lambda: 0.0)
    headers = [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer a")]
    scope = {"type": "http", "method": "POST", "path": "/t", "headers": headers}
    await guard(scope, receive, send)
