"""Whether something would keep what is published to a topic, asked before anything is (rule 10)."""

from __future__ import annotations

from uuid import uuid4

import pytest

from app.brokers import embedded
from app.errors import BrokerUnavailable
from free_ports import free_ports
from kafka_harness import open_calm_log


def fresh() -> str:
    return f"t-{uuid4().hex[:12]}"


@pytest.mark.kafka
class TestKafka:
    async def test_a_topic_that_is_missing_is_named_and_not_made(self, kafka: str) -> None:
        """A route to it is not ready; asking must not cure it by accident."""
        log = open_calm_log(name="main", bootstrap_servers=kafka)
        await log.start()
        there, missing = fresh(), fresh()
        await log.create_topic(there, 1)
        for _ in range(2):
            found = await log.check_targets([there, missing])
            assert found == {missing: "there is no such topic, and none is created"}
        await log.create_topic(missing, 1)
        assert await log.check_targets([there, missing]) == {}
        await log.stop()

    async def test_a_topic_that_would_be_made_is_good(self, kafka: str) -> None:
        """Its first event makes it."""
        log = open_calm_log(name="main", bootstrap_servers=kafka, create_topics=True)
        await log.start()
        assert await log.check_targets([fresh()]) == {}
        await log.stop()

    async def test_a_cluster_that_is_away_cannot_tell(self) -> None:
        """That is an answer of its own: whoever asks must not take it for "all good"."""
        [nobody] = free_ports(1)
        log = open_calm_log(name="main", bootstrap_servers=f"127.0.0.1:{nobody}")
        await log.start()
        with pytest.raises(BrokerUnavailable):
            await log.check_targets(["orders"])
        await log.stop()


class TestEmbedded:
    async def test_every_topic_comes_to_be_but_for_names_that_are_none(self, tmp_path) -> None:
        """The one thing that no event to it would cure."""
        log = embedded.open_log(name="log", path=tmp_path / "log")
        await log.start()
        assert await log.check_targets(["orders", "a b"]) == {
            "a b": "'a b' is not a valid topic name"
        }
        assert await log.check_targets([]) == {}
        assert (await log.metadata()).topics == ()
        await log.stop()
