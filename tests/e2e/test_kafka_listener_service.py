"""``skybridge serve`` with a Kafka listener: what the file says is what clients meet, and when they do."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.kafka_listener.wire import ErrorCode
from app.worker.dispatch import Dispatcher
from authority import Authority
from configuration import configuration, route, subscription, written
from free_ports import free_ports
from kafka_listening import RawClient
from service import Service, kafka_waits_for_subscriptions
from service_process import ServiceProcess
from versioned_client import VersionedClient, part

EVENT = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]


def send(producer: Producer, headers: list[tuple[str, bytes]]) -> str:
    """The error's name, or empty."""
    told: list[str] = []
    producer.produce(
        "orders", b"{}", headers=headers,
        on_delivery=lambda error, _: told.append(error.name() if error else ""),
    )  # fmt: skip
    producer.flush(60)
    return told[0]


def send_nonsense(port: int, ca: str) -> None:
    """A frame of 2 GiB, which nobody is given; returns when the connection is closed."""
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(b"\x7f\xff\xff\xff")
        assert wrapped.recv(1) == b""


def test_logins_tls_validation_and_metrics_come_from_the_file(tmp_path: Path) -> None:
    """A user who is named comes in, over TLS; a topic of CloudEvents takes nothing else; metrics tell."""
    (kafka,) = free_ports(1)
    authority = Authority(tmp_path)
    certificate, key = authority.server("localhost", "127.0.0.1")
    listener = {
        "listen": f"127.0.0.1:{kafka}",
        "tls": {"cert": str(certificate), "key": str(key)},
        "sasl": {"users": {"ann": "${env:ANN}"}},
    }
    log = {"topics": {"orders": {"validate": "cloudevents"}}, "kafka_listener": listener}
    settings = configuration(tmp_path, brokers={"log": log}, routes=[route("orders")])
    service = ServiceProcess(settings, tmp_path)
    service.start({"ANN": "very secret"})
    try:
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{kafka}",
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": authority.ca,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ann",
                "sasl.password": "very secret",
            }
        )
        assert send(producer, EVENT) == ""
        assert send(producer, EVENT[:2]) == "INVALID_RECORD"
        send_nonsense(kafka, authority.ca)
        status = service.get("/status")
        counters = status["counters"]
        (listener,) = status["kafka_listeners"]
        assert listener["connections"] >= 1
        assert {name: listener[name] for name in listener if name != "connections"} == {
            "broker": "log",
            "address": f"127.0.0.1:{kafka}",
            "held_bytes": 0,
            "refused_connections": 0,
            "refused_frames": 1,
        }
        assert counters["kafka_records"]["produced"] == 1
        assert counters["kafka_refused_batches"] == {"invalid_record": 1}
        assert counters["kafka_logins"]["accepted"] >= 1
    finally:
        service.stop()
    assert "very secret" not in service.log.read_text()


class Starting:
    """A service whose one subscription waits, on its way into its group, until ``go_on`` is set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (self.port,) = free_ports(1)
        settings = configuration(
            folder,
            brokers={"log": {"kafka_listener": f"127.0.0.1:{self.port}"}},
            subscriptions=[subscription("bill", "http://127.0.0.1:9/")],
            timeouts={"drain": "1s"},
        )
        self.service = Service(written(settings, folder))
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        halt_if_asked = Dispatcher._halt_if_asked

        async def held(dispatcher: Dispatcher) -> None:
            self.reached.set()
            await self.go_on.wait()
            await halt_if_asked(dispatcher)

        monkeypatch.setattr(Dispatcher, "_halt_if_asked", held)

    async def reset(self) -> ErrorCode:
        """As a tool does it, which is no member of the group."""
        client = VersionedClient(RawClient(*await asyncio.open_connection("127.0.0.1", self.port)))
        place = part(
            "OffsetCommitRequestPartition",
            partition_index=0,
            committed_offset=0,
            committed_metadata="",
        )
        topic = part("OffsetCommitRequestTopic", name="events", partitions=(place,))
        group = "skybridge.skybridge.bill"
        try:
            answer = await client.ask(
                8,
                2,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=(topic,),
            )
        finally:
            await client.close()
        return ErrorCode(answer.topics[0].partitions[0].error_code)


@asynccontextmanager
async def beginning(starting: Starting) -> AsyncIterator[asyncio.Task[None]]:
    """It is on its way, and the subscription has come as far as it may."""
    task = asyncio.create_task(starting.service.start())
    try:
        await asyncio.wait_for(starting.reached.wait(), 60)
        yield task
    finally:
        starting.go_on.set()
        await task
        await starting.service.stop()


async def test_nobody_sets_the_positions_of_a_subscription_that_is_about_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients may come once it has its group; nobody but the service is ever in it."""
    starting = Starting(tmp_path, monkeypatch)
    async with beginning(starting) as begun:
        with pytest.raises(ConnectionRefusedError):
            await starting.reset()
        starting.go_on.set()
        await begun
        assert await starting.reset() is ErrorCode.group_authorization_failed


async def test_a_subscription_that_cannot_begin_keeps_clients_out_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that does not answer is no reason to take nothing in."""
    kafka_waits_for_subscriptions(0.1, monkeypatch)
    starting = Starting(tmp_path, monkeypatch)
    with caplog.at_level(logging.WARNING):
        async with beginning(starting) as begun:
            await asyncio.wait_for(begun, 60)
            assert starting.service.events_url
            (listener,) = (await starting.service.get("/status"))["kafka_listeners"]
            assert listener["address"] == f"127.0.0.1:{starting.port}"
    assert "the Kafka listener" in caplog.text
