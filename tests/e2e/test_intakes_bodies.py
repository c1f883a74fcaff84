"""The bound of an intake's bodies, and Slack's requests that are no events."""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest

import publishers
from configuration import route, subscription
from intake_bench import IntakeBench
from publishers import FORM, SECRET, Sent
from raw_http import RawConnection, event, request
from service import Service
from waiting import until
from webhook_target import WebhookTarget

MIB = 1 << 20
LARGEST = 25 * MIB  # of GitHub, by default
SHOP = {"name": "shop", "preset": "shopify", "secret": SECRET, "route": "hooks"}
HUB = {"name": "hub", "preset": "github", "secret": SECRET, "route": "hooks"}
Start = Callable[[dict[str, Any]], Awaitable[Service]]


def of_size(size: int) -> bytes:
    return b'{"a":"' + b"x" * (size - 8) + b'"}'


async def status_of(house: IntakeBench, name: str, sent: Sent, *, chunked: bool = False) -> int:
    if not chunked:
        return (await house.post(name, sent)).status
    head = request(
        f"/in/{name}", headers=(*sent.headers, ("transfer-encoding", "chunked")), length=False
    )
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(sent.body), sent.body)
    async with await RawConnection.open(house.server.port) as peer:
        await peer.send(head + body)
        return (await peer.answer()).status


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("settings", "most"),
    [(SHOP, 100_000), (SHOP | {"max_body": "300kB"}, 300_000), (SHOP | {"max_body": 2_000}, 2_000)],
)
async def test_an_intake_takes_bodies_up_to_its_bound(
    settings: dict[str, Any], most: int, chunked: bool
) -> None:
    """A larger one than other requests have, or a smaller; without one, that of the listener."""
    async with IntakeBench([settings]).open(body=100_000) as house:
        for size, status in ((most, 202), (most + 1, 413)):
            sent = publishers.shopify(of_size(size), f"w-{size}")
            assert await status_of(house, "shop", sent, chunked=chunked) == status
        coded = publishers.shopify(gzip.compress(of_size(most)), "w-3")
        assert await status_of(house, "shop", coded.but("Content-Encoding", "gzip")) == 202
        bomb = publishers.shopify(gzip.compress(of_size(most + 1)), "w-4")
        assert await status_of(house, "shop", bomb.but("Content-Encoding", "gzip")) == 413
        assert len(house.log.submits) == 2


async def test_only_the_intake_has_the_bound_of_the_intake() -> None:
    """Events and the next request of the connection have the listener's; an unknown intake takes no body."""
    house = IntakeBench([SHOP | {"max_body": "300kB"}, HUB | {"name": "other"}])
    async with house.open(body=100_000), await RawConnection.open(house.server.port) as peer:
        sent = publishers.shopify(of_size(200_000))
        await peer.send(request("/in/shop?x=1", sent.body, headers=sent.headers))
        assert (await peer.answer()).status == 202
        await peer.send(event(1, of_size(200_000)))
        assert (await peer.answer()).status == 413
        for target, status in (("/in/nobody", 404), ("/events/hooks", 413)):
            async with await RawConnection.open(house.server.port) as other:
                await other.send(request(target, sent.body, headers=sent.headers))
                assert (await other.answer()).status == status


async def test_githubs_largest_payload_arrives_at_a_webhook(
    started: Start, target: WebhookTarget
) -> None:
    """25 MiB from the publisher through the embedded log; one byte more is 413. Events keep the bound of all."""
    service = await started(
        {
            "routes": [route("hooks", name="hooks")],
            "intakes": [HUB],
            "subscriptions": [subscription("s", target.url, "hooks")],
        }
    )
    for size, status in ((LARGEST, 202), (LARGEST + 1, 413)):
        sent = publishers.github(of_size(size), "ping", f"d-{size}")
        async with await RawConnection.open(service.events_port) as peer:
            await peer.send(request("/in/hub", sent.body, headers=sent.headers))
            assert (await peer.answer()).status == status
    async with await RawConnection.open(service.events_port) as peer:
        await peer.send(event(1, of_size(2 * MIB)))
        assert (await peer.answer()).status == 413
    await until(lambda: target.received)
    assert [len(each.body) for each in target.received] == [LARGEST]


async def test_the_embedded_log_stores_what_its_listener_takes(started: Start) -> None:
    """Also where limits.body is more than its default."""
    service = await started({
        "routes": [{"name": "hooks", "to": {"broker": "log", "topic": "hooks"}}],
        "limits": {"body": "20MiB"},
    })  # fmt: skip
    async with await RawConnection.open(service.events_port) as peer:
        await peer.send(event(1, of_size(20 * MIB)))
        assert (await peer.answer()).status == 202


@pytest.mark.parametrize("text", ["ssl_check=1", "ssl_check=1&token=Jhj5dZrVaK7ZwHHjRyZWjbDl", "token=x&ssl_check=1"])  # fmt: skip
async def test_slacks_check_of_the_certificate_is_answered_and_stored_nowhere(text: str) -> None:
    """It is not signed. In a form, or in the query of a POST or a GET."""
    form = Sent((("Content-Type", FORM),), text.encode())
    async with IntakeBench().open() as house:
        answers = [
            await house.post("slack", form),
            await house.post(f"slack?{text}", Sent((), b"")),
            await house.post(f"slack?{text}", Sent((), b""), method="GET"),
        ]
        assert [each.status for each in answers] == [200] * 3
        assert house.log.submits == []
        assert house.counted() == {("slack", "challenge"): 3}


async def test_a_check_of_the_certificate_proves_nothing_else() -> None:
    """No other intake answers it, a wrong signature stays wrong, and what is signed and a command is an event."""
    form = Sent((("Content-Type", FORM),), b"ssl_check=1")
    command = urlencode(
        {"command": "/x", "text": "ssl_check=1", "trigger_id": "1.2", "team_id": "T1"}
    ).encode()
    async with IntakeBench().open() as house:
        now = house.clock.now()
        others = ["github", "gitlab", "shopify", "stripe", "standard", "erp", "key"]
        assert {(await house.post(name, form)).status for name in others} == {401}
        forged = publishers.slack(b"ssl_check=1", now, secret="x")
        assert (await house.post("slack", forged)).status == 401
        assert (await house.post("slack", Sent((), b"ssl_check=1"))).status == 401
        assert (await house.post("slack", form._replace(body=b"ssl_check=10"))).status == 401
        assert (await house.post("slack", Sent((), b""), method="GET")).status == 405
        assert house.log.submits == []
        assert (await house.post("slack", publishers.slack(b"ssl_check=1", now))).status == 200
        assert house.log.submits == []
        assert (await house.post("slack", publishers.slack(command, now))).status == 202
        assert len(house.log.submits) == 1


async def test_a_cancelled_dialog_is_an_event() -> None:
    payload = {
        "type": "dialog_cancellation", "token": "t", "action_ts": "1542993577.333025",
        "team": {"id": "T123ABC456"}, "user": {"id": "U123ABC456"}, "channel": {"id": "C123ABC456"},
        "callback_id": "employee_offsite", "state": "final_round",
    }  # fmt: skip
    form = urlencode({"payload": json.dumps(payload)}).encode()
    async with IntakeBench().open() as house:
        assert (await house.post("slack", publishers.slack(form, house.clock.now()))).status == 202
        assert len(house.log.submits) == 1
