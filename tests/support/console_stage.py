"""A busy service for pictures and tests of the console.

Producers send; targets accept, refuse or are down; and operators have work: a paused subscription,
dead letters and parked keys.

    with on_stage(folder) as stage:              # events flow until the block ends
        page.goto(stage.service.url())
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from console import ConsoleService
from reload_service import Settings
from threaded_http import QuietHandler, ThreadedServer

FEW, MANY = 10, 30  # events a second of each producer
BATCHES = 5  # a second, of each producer
KEYS = {"web-shop": "key-of-the-web-shop-1", "warehouse": "key-of-the-warehouse-1"}
TYPES: Mapping[str, Sequence[str]] = {
    "web-shop": ("com.example.order.placed", "com.example.order.paid", "com.example.cart.left"),
    "warehouse": ("com.example.parcel.packed", "com.example.parcel.sent", "com.example.stock.low"),
}


PAGES: Mapping[str, str] = {
    "overview": "#/",
    "flow": "#/flow",
    "subscriptions": "#/subscriptions",
    "subscription": "#/subscriptions/billing",
    "subscription-settings": "#/subscriptions/ledger/settings",
    "subscription-attempts": "#/subscriptions/billing/attempts",
    "subscription-new": "#/subscriptions?make=1",
    "events": "#/events?broker=log&topic=orders",
    "events-live": "#/events?broker=log&topic=parcels&live=1",
    "event": "#/events/event?id=web-shop-000010",
    "dead-letters": "#/letters",
    "dead-letter": "#/letters/1",
    "parked": "#/letters/parked",
    "explain": "#/explain",
    "producers": "#/producers",
    "audit": "#/audit",
    "configuration": "#/configuration",
    "candidate": "#/configuration/candidate",
}
"""The pages that the stage fills with data, by the names of their pictures. axe-core checks each
of them too.
"""


class Targets(QuietHandler):
    """Webhook targets whose path decides the answer.

    ``/ok`` accepts every event. ``/down`` answers 503 to all, and ``/gone`` 410. ``/paid-only``
    answers 422 to carts that were left.
    """

    protocol_version = "HTTP/1.1"

    def post(self) -> None:
        self.body()
        kind = self.headers.get("ce-type", "")
        if self.path == "/gone":
            self.answer(410)
        elif self.path == "/down":
            self.answer(503, b"the ledger is closed for the night", "text/plain")
        elif self.path == "/paid-only" and kind.endswith("cart.left"):
            self.answer(422, b'{"error": "a cart is no invoice"}', "application/json")
        else:
            self.answer(204)


class Stage:
    """A running service with its producers.

    Args:
        service: The service.
        targets: The address of its webhooks.
        events: The events a second that each producer sends.
    """

    def __init__(self, service: ConsoleService, targets: str, events: int) -> None:
        self.service = service
        self.targets = targets
        self._batch = round(events / BATCHES)
        self._over = threading.Event()
        self._senders = [
            threading.Thread(target=self._send, args=(name,), daemon=True) for name in TYPES
        ]

    def begin(self) -> None:
        for each in self._senders:
            each.start()

    def end(self) -> None:
        self._over.set()
        for each in self._senders:
            each.join()

    def pause_one(self) -> None:
        """Pause one subscription by the API, so that the console shows the cause."""
        cause = {"cause": "the index is rebuilt until noon"}
        status, said = self.service.ask("POST", "/v1/subscriptions/search-index:pause", cause)
        assert status == 200, said

    def _send(self, producer: str) -> None:
        """Send batches of one producer at a nearly even pace on one connection until the stage
        ends.
        """
        dice = random.Random(producer)
        connection = http.client.HTTPConnection("127.0.0.1", self.service.events, timeout=60)
        headers = {
            "content-type": "application/cloudevents-batch+json",
            "authorization": f"Bearer {KEYS[producer]}",
        }
        number = 0
        while not self._over.wait(dice.uniform(0.6, 1.4) / BATCHES):
            batch = [event(producer, number + n, dice) for n in range(self._batch)]
            number += self._batch
            connection.request("POST", "/events", json.dumps(batch), headers)
            connection.getresponse().read()
        connection.close()


def event(producer: str, number: int, dice: random.Random) -> dict[str, Any]:
    customer = f"customer-{dice.randrange(40)}"
    return {
        "specversion": "1.0",
        "id": f"{producer}-{number:06}",
        "source": f"/{producer}",
        "type": dice.choice(TYPES[producer]),
        "subject": customer,
        "partitionkey": customer,
        "datacontenttype": "application/json",
        "data": {"customer": customer, "total": dice.randrange(500, 50_000) / 100},
    }


def settings_of(targets: str) -> Settings:
    """Return the settings that the stage adds to those of ``ConsoleService``.

    ``targets`` is the address of its webhooks.
    """
    to = {"warehouse": "parcels", "web-shop": "orders"}
    return {
        "installation": "shop",
        "producers": [
            {"name": name, "keys": [key], "may": {"routes": [to[name]]}}
            for name, key in KEYS.items()
        ],
        "routes": [
            {
                "name": to[name],
                "filters": [{"exact": {"source": f"/{name}"}}],
                "to": {"broker": "log", "topic": to[name]},
            }
            for name in to
        ],
        "subscriptions": [
            subscription("billing", "orders", f"{targets}/paid-only"),
            subscription("search-index", "orders", f"{targets}/ok"),
            subscription("mail", "orders", f"{targets}/ok", rate_limit="20/s"),
            subscription("tracking", "parcels", f"{targets}/ok"),
            subscription("ledger", "parcels", f"{targets}/down", retry=SOON_PARKED),
            subscription("stock", "parcels", {"broker": "log", "topic": "stock"}),
            subscription("reports", "stock", {"pull": {}}),
        ],
    }


SOON_PARKED = {"schedule": ["10m", "10m", "10m"], "hold": 0}  # before the endpoint is paused


def subscription(name: str, topic: str, sink: object, **others: object) -> Settings:
    return {
        "id": name,
        "source": {"broker": "log", "topics": [topic]},
        "start": "earliest",
        "sink": sink,
        **({"handshake": "off", "timeout": "60s"} if isinstance(sink, str) else {}),
        **others,
    }


def _take(settings: Settings, wanted: Settings) -> None:
    """Merge the wanted settings into the settings of the service, and lengthen the time-outs of
    webhooks for a busy machine."""
    settings.update(wanted)
    settings["timeouts"] |= {"webhook_dns": "60s", "webhook_connect": "60s"}


@contextmanager
def on_stage(
    folder: Path, change: Callable[[Settings], object] = lambda _: None, *, events: int = FEW
) -> Iterator[Stage]:
    """Run the stage until the block ends.

    Args:
        folder: The folder of the service.
        change: Edits the settings before the start.
        events: The events a second of each producer. Each is delivered three times, so many take half a core.
    """
    with ThreadedServer(Targets) as targets:

        def settle(settings: Settings) -> None:
            _take(settings, settings_of(targets.address))
            change(settings)

        service = ConsoleService(folder, settle)
        with service.running():
            stage = Stage(service, targets.address, events)
            stage.begin()
            try:
                yield stage
            finally:
                stage.end()
