"""A broker that cannot be reached says why: an operator must not look for the wrong fault."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from app.brokers.kafka import Sasl, open_log
from app.brokers.portable import PortableLog
from kafka_server import KafkaServer
from service_process import free_ports

USER = "sky"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class GuardedKafka(KafkaServer):
    """Has a listener that asks for a password beside the open one."""

    def __init__(self) -> None:
        super().__init__()
        [self.login_port] = free_ports(1)

    def _properties(self) -> dict[str, str]:
        plain = super()._properties()
        guarded = f"SASL_PLAINTEXT://127.0.0.1:{self.login_port}"
        return {
            **plain,
            "listeners": f"{plain['listeners']},{guarded}",
            "advertised.listeners": f"{plain['advertised.listeners']},{guarded}",
            "listener.security.protocol.map": (
                f"{plain['listener.security.protocol.map']},SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{LOGIN} username="{USER}" password="right" user_{USER}="right";'
            ),
        }


@pytest.fixture(scope="module")
def guarded(kafka: str) -> Iterator[GuardedKafka]:
    """``kafka`` skips or fails where there is none to be had."""
    server = GuardedKafka()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def logged_in(port: int, password: str) -> AsyncIterator[PortableLog]:
    sasl = Sasl(mechanism="PLAIN", username=USER, password=password)
    log = open_log(name="main", bootstrap_servers=f"127.0.0.1:{port}", sasl=sasl)
    await log.start()
    try:
        yield log
    finally:
        await log.stop()


@pytest.mark.kafka
@pytest.mark.fault
async def test_a_wrong_password_is_told_from_a_right_one(guarded: GuardedKafka) -> None:
    async with logged_in(guarded.login_port, "right") as log:
        assert (await log.health()).healthy
    async with logged_in(guarded.login_port, "wrong") as log:
        health = await log.health()
    assert not health.healthy
    assert "SaslAuthenticationFailed" in health.cause
    assert "wrong" not in health.cause


async def test_an_address_where_nobody_listens_is_told_as_such() -> None:
    [nobody] = free_ports(1)
    async with logged_in(nobody, "right") as log:
        health = await log.health()
    assert not health.healthy
    assert "Connect call failed" in health.cause
