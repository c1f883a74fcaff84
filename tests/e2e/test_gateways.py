"""Several gateways of one installation on one port (``server.events.reuse_port``)."""

from __future__ import annotations

import http.client
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from service_process import ServiceProcess, free_ports
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.skipif("sys.platform != 'linux'")]

WITHIN = 120.0

CONFIG = """
version: 1
installation: {installation}
server: {{events: {{port: {port}, reuse_port: true}}}}
store: {{kind: sqlite, path: store.db}}
brokers: {{main: {{kind: kafka, bootstrap_servers: "{broker}", topics: {{create: true}}}}}}
routes: [{{name: all, to: {{broker: main, topic: {topic}}}}}]
timeouts: {{not_ready: 0s}}
"""


class Gateway:
    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir()
        (folder / "skybridge.yaml").write_text(text)
        (self.admin,) = free_ports(1)
        self.process = ServiceProcess(folder / "skybridge.yaml", folder, self.admin)
        self.process.arguments += ["--role", "gateway"]
        self.environ = {"SKYBRIDGE_SERVER__ADMIN__PORT": str(self.admin)}

    def start(self) -> None:
        self.process.start(self.environ)

    @property
    def received(self) -> float:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.admin}/metrics", timeout=WITHIN
        ) as found:
            counts = re.findall(
                r"^skybridge_events_received_total\{.*\} (.+)$", found.read().decode(), re.MULTILINE
            )
        return sum(map(float, counts))


def text_for(broker: str, port: int, topic: str, installation: str = "shop") -> str:
    return CONFIG.format(broker=broker, port=port, topic=topic, installation=installation)


@pytest.fixture
def gateways(tmp_path: Path, kafka: str) -> Iterator[tuple[int, list[Gateway]]]:
    (port,) = free_ports(1)
    text = text_for(kafka, port, f"gateways-{port}")
    found = [Gateway(tmp_path / name, text) for name in ("one", "two")]
    try:
        for each in found:
            each.start()
        yield port, found
    finally:
        for each in found:
            if each.process.running:
                each.process.stop()


def post(port: int, number: int) -> int:
    """On a connection of its own: the system chooses the gateway."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN)
    headers = {
        "ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/s", "ce-type": "t",
    }  # fmt: skip
    try:
        connection.request("POST", "/events", b"{}", headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_connections_are_spread_and_one_that_dies_takes_nothing_from_the_other(
    gateways: tuple[int, list[Gateway]],
) -> None:
    port, (one, two) = gateways
    assert {post(port, number) for number in range(100)} == {202}
    wait_until(lambda: one.received + two.received == 100, "all counted", WITHIN)
    assert min(one.received, two.received) > 10
    one.process.kill()
    assert {post(port, number) for number in range(20)} == {202}
    one.start()
    before = one.received
    wait_until(lambda: post(port, 1) == 202 and one.received > before, "its share again", WITHIN)


def test_a_port_that_another_installation_has_is_refused(
    gateways: tuple[int, list[Gateway]], tmp_path: Path, kafka: str
) -> None:
    """Each would get a part of the other's events, and nobody would notice."""
    port, _ = gateways
    other = Gateway(tmp_path / "other", text_for(kafka, port, "other", installation="bank"))
    other.process.begin(other.environ)
    wait_until(lambda: not other.process.running, "its end", WITHIN)
    assert other.process.stop() == 2
    said = other.process.log.read_text()
    assert f"server.events.port: installation shop listens on port {port}" in said
