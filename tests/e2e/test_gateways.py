"""Several gateways of one installation on one port (``server.events.reuse_port``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from configuration import Settings, configuration, route
from free_ports import free_ports
from service_process import ServiceProcess
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.skipif("sys.platform != 'linux'")]

WITHIN = 120.0


class Gateway(ServiceProcess):
    def __init__(self, folder: Path, settings: Settings) -> None:
        folder.mkdir()
        super().__init__(settings, folder, "--role", "gateway")

    @property
    def received(self) -> float:
        text = self.ask("GET", "/metrics")[1]
        counts = re.findall(r"^skybridge_events_received_total\{.*\} (.+)$", text, re.MULTILINE)
        return sum(map(float, counts))


def settings_for(
    folder: Path, broker: str, port: int, topic: str, installation: str = "shop"
) -> Settings:
    main = {"kind": "kafka", "bootstrap_servers": broker, "topics": {"create": True}}
    return configuration(
        folder,
        installation=installation,
        server={"events": {"port": port, "reuse_port": True}},
        brokers={"log": None, "main": main},
        routes=[route(topic, broker="main")],
    )


@pytest.fixture
def gateways(tmp_path: Path, kafka: str) -> Iterator[tuple[int, list[Gateway]]]:
    (port,) = free_ports(1)
    folders = [tmp_path / name for name in ("one", "two")]
    found = [Gateway(each, settings_for(each, kafka, port, f"gateways-{port}")) for each in folders]
    try:
        for each in found:
            each.start()
        yield port, found
    finally:
        for each in found:
            if each.running:
                each.stop()


def test_connections_are_spread_and_one_that_dies_takes_nothing_from_the_other(
    gateways: tuple[int, list[Gateway]],
) -> None:
    """Each event comes on a connection of its own: the system chooses the gateway."""
    _, (one, two) = gateways
    assert {two.send(str(number))[0] for number in range(100)} == {202}
    wait_until(lambda: one.received + two.received == 100, "all counted", WITHIN)
    assert min(one.received, two.received) > 10
    one.kill()
    assert {two.send(str(number))[0] for number in range(20)} == {202}
    one.start()
    before = one.received
    wait_until(lambda: two.send("1")[0] == 202 and one.received > before, "its share again", WITHIN)


def test_a_port_that_another_installation_has_is_refused(
    gateways: tuple[int, list[Gateway]], tmp_path: Path, kafka: str
) -> None:
    """Each would get a part of the other's events, and nobody would notice."""
    port, _ = gateways
    folder = tmp_path / "other"
    other = Gateway(folder, settings_for(folder, kafka, port, "other", installation="bank"))
    other.begin()
    wait_until(lambda: not other.running, "its end", WITHIN)
    assert other.stop() == 2
    said = other.log.read_text()
    assert f"server.events.port: installation shop listens on port {port}" in said
