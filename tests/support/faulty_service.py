"""A service in which a test makes all faults that its alerts report, and the metrics that it
exposes meanwhile.

The faults are real: a silent broker, a webhook that refuses, a locked store, a certificate that is
about to expire, and an invalid configuration.
"""

from __future__ import annotations

import datetime as dt
import json
import socket
import sqlite3
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import trustme
from prometheus_client.parser import text_string_to_metric_families

from reload_service import ReloadService
from status_endpoint import posting_endpoint
from waiting import wait_until

WITHIN = 120.0
KEY = "the-key-of-the-producer-shop"
LOCKED = 2.0  # seconds: longer than prometheusRule.storeSeconds
Series = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
"""The values of the metrics in one scrape, by the name and the labels of a metric."""


def series_of(text: str) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def values(series: Series, name: str) -> list[float]:
    return [value for (metric, _), value in series.items() if metric == f"skybridge_{name}"]


class Relay:
    """A TCP relay between the service and a broker. After ``silent`` it holds back what either
    side sends.
    """

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = host, int(port)
        self._heard = threading.Event()
        self._heard.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = [self._server]
        threading.Thread(target=self._serve, daemon=True).start()

    def silent(self) -> None:
        self._heard.clear()

    def close(self) -> None:
        self._heard.set()
        for each in self._open:
            each.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            broker = socket.create_connection(self._upstream)
            self._open += (client, broker)
            for pair in ((client, broker), (broker, client)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self._heard.wait()
                target.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            target.close()


@contextmanager
def webhooks() -> Iterator[tuple[str, dict[str, int], list[str]]]:
    """Give the address of a webhook server, its statuses, and the list of requested paths.

    A status can be set for a path, or for a path followed by the source of the event.
    """
    statuses: dict[str, int] = {}
    asked: list[str] = []

    def status(path: str, headers: Message) -> int:
        asked.append(path)
        return statuses.get(path + headers["ce-source"]) or statuses.get(path, 204)

    with posting_endpoint(status) as address:
        yield address, statuses, asked


class FaultyService:
    """A service that is healthy at first, with methods that cause faults. ``broker`` is the
    address of a RabbitMQ.
    """

    def __init__(self, folder: Path, broker: str, hooks: str) -> None:
        self.relay = Relay(broker)
        self._folder = folder
        self._authority = trustme.CA()
        self._sent = 0
        self._topic = f"alerts-{uuid4().hex[:8]}"
        self.certificate(days=90)
        self.house = ReloadService(folder)
        self._configure(hooks)

    def _configure(self, hooks: str) -> None:
        settings = self.house.settings
        tls = {"cert": str(self._folder / "cert.pem"), "key": str(self._folder / "key.pem")}
        settings["server"]["events"]["tls"] = tls
        settings["brokers"]["rabbit"] = {
            "kind": "rabbitmq", "addresses": self.relay.address,
            "topics": {"create": True, "partitions": 1},
        }  # fmt: skip
        settings["routes"] = [
            {
                "name": "far", "filters": [{"exact": {"type": "far"}}],
                "to": {"broker": "rabbit", "topic": self._topic},
            },
            {
                "name": "large", "filters": [{"sql": "source LIKE '/k%' AND total > 100"}],
                "to": {"broker": "log", "topic": "large"},
            },
            {
                "name": "near", "to": {"broker": "log", "topic": "events"},
                "key": {"mapper": "attribute", "attribute": "source"},
            },
        ]  # fmt: skip
        settings["subscriptions"] = [
            _subscription("away", hooks, {"schedule": ["1s"] * 300, "hold": 300}),
            _subscription("parking", hooks, {"schedule": ["10ms", *["1s"] * 300], "hold": 1}),
            _subscription("letters", hooks, {"schedule": ["10ms"], "hold": 1}),
            _subscription("gone", hooks, {}),
        ]
        settings["producers"] = [
            {"name": "shop", "keys": [KEY], "may": {"sources": ["/shop/*"]}},
        ]
        settings["timeouts"] |= {"publish": "2s", "store": "60s"}
        self.house.write()

    def certificate(self, days: int) -> None:
        """Replace the certificate by a new one that is valid for ``days`` days."""
        end = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
        issued = self._authority.issue_cert("localhost", not_after=end)
        issued.private_key_pem.write_to_path(self._folder / "key.pem")
        issued.cert_chain_pems[0].write_to_path(self._folder / "cert.pem")

    def send(self, kind: str, source: str = "/s", key: str = "") -> int:
        """Send an event to the gateway and return the status. ``key`` is the credential of a
        producer.
        """
        self._sent += 1
        headers = {
            "ce-specversion": "1.0", "ce-id": str(self._sent), "ce-source": source, "ce-type": kind,
            **({"authorization": f"Bearer {key}"} if key else {}),
        }  # fmt: skip
        request = urllib.request.Request(
            f"https://localhost:{self.house.events}/events", b"{}", headers
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(context)
        try:
            with urllib.request.urlopen(request, timeout=WITHIN, context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def store(self, kind: str, source: str = "/s") -> None:
        """Send an event until the gateway accepts it. The publish time-out is too short for a busy
        machine.
        """
        wait_until(lambda: self.send(kind, source) == HTTPStatus.ACCEPTED, f"{kind} taken", WITHIN)

    def scrape(self) -> Series:
        url = f"http://127.0.0.1:{self.house.admin}/metrics"
        with urllib.request.urlopen(url, timeout=WITHIN) as answer:
            return series_of(answer.read().decode())

    def scrape_until(self, is_it: Callable[[Series], Mapping[str, bool]]) -> Series:
        """Scrape the metrics until all conditions hold, and return this scrape.

        ``is_it`` returns for a scrape whether each condition holds, by a description. Raises
        TimeoutError with the conditions that do not hold.
        """
        found: Series = {}

        def is_so() -> bool:
            nonlocal found
            found = self.scrape()
            return all(is_it(found).values())

        try:
            wait_until(is_so, "the metrics", WITHIN, turn=0.3)
        except TimeoutError as error:
            missing = [what for what, so in is_it(found).items() if not so]
            raise TimeoutError(f"{error}: {missing}") from None
        return found

    def lock_store(self) -> None:
        """Lock the store for two seconds, as a backup on a slow volume does."""
        with closing(sqlite3.connect(self._folder / "store.db", timeout=WITHIN)) as other:
            other.isolation_level = None
            other.execute("BEGIN IMMEDIATE")
            time.sleep(LOCKED)  # the fault itself: no other connection can write
            other.execute("ROLLBACK")

    def reassign_partitions(self, times: int) -> None:
        """Change a subscription several times, so that its partitions are assigned again each
        time.
        """
        for number in range(times):
            self._reload(lambda s, n=number: s["subscriptions"][2].update(concurrency=9 + n), 200)

    def subscribe_to_broker(self) -> None:
        """Add a subscription on the broker, which cannot start while the broker is silent."""
        far = {"source": {"broker": "rabbit", "topics": [self._topic]}}
        self._reload(
            lambda s: s["subscriptions"].append(s["subscriptions"][0] | {"id": "far"} | far), 200
        )

    def reload_invalid(self) -> None:
        """Reload an invalid configuration, which the service refuses with 422."""
        self._reload(lambda s: s["routes"].append({"name": "no place"}), 422)

    def _reload(self, change: Callable[[dict[str, Any]], object], status: int) -> None:
        self.house.change(change)
        found, said = self.house.reload()
        assert found == status, json.dumps(said)


def _subscription(name: str, hooks: str, retry: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": name, "source": {"broker": "log", "topics": ["events"]}, "start": "earliest",
        "handshake": "off", "sink": f"{hooks}/{name}", "retry": retry,
    }  # fmt: skip
