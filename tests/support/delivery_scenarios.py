"""Scenarios from HTTP over a broker to a webhook, which are the same for every broker.

A test module subclasses ``DeliveryScenarios`` and provides the fixtures ``target``, ``ledger`` and
``house``, an ``Installation``. The fixture ``apart`` is an installation whose subscriptions have
queues of their own.
"""

from __future__ import annotations

import json
import random

import pytest

from delivery_installation import Installation, Ledger, numbered
from waiting import until
from webhook_target import WebhookTarget

COUNT, FEW, KEYS = 1_000, 600, 40


class DeliveryScenarios:
    async def test_an_event_crosses_and_arrives_in_either_mode(
        self, apart: Installation, target: WebhookTarget
    ) -> None:
        """Events in binary and structured mode arrive unchanged at webhooks of both modes."""
        service = await apart.service(
            plain={"sink": f"{target.url}/binary", "content_mode": "binary"},
            whole={"sink": f"{target.url}/structured", "content_mode": "structured"},
        )
        attributes = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/a", "ce-type": "t"}
        odd = {"ce-subject": "50%25 caf%C3%A9", "ce-partitionkey": "k"}
        binary = {**attributes, **odd, "content-type": "application/octet-stream"}
        assert await service.post(b"\x00\xff\n", binary) == 202
        event = {**numbered(2, 1, 1)[0], "subject": "50% café", "partitionkey": "k"}
        structured = {"content-type": "application/cloudevents+json"}
        assert await service.post(json.dumps(event).encode(), structured) == 202
        await until(lambda: len(target.received) >= 4, "four deliveries")
        first, second = (r for r in target.received if r.path.endswith("/binary"))
        assert first.body == b"\x00\xff\n"
        assert first.header("content-type") == "application/octet-stream"
        assert json.loads(second.body) == {"n": 2}
        assert [first.header("ce-subject"), second.header("ce-subject")] == [
            "50%25%20caf%C3%A9"
        ] * 2
        raw, same = (json.loads(r.body) for r in target.received if r.path.endswith("/structured"))
        assert (raw["data_base64"], raw["subject"]) == ("AP8K", "50% café")
        assert same == event
        await service.stop()

    @pytest.mark.nightly
    async def test_a_kill_in_the_middle_of_a_failing_endpoint_loses_nothing_and_keeps_the_order(
        self, house: Installation, ledger: Ledger
    ) -> None:
        """A killed process repeats only what was in flight or finished since its last commit."""
        dice = random.Random(7)
        ledger.busy = lambda _: dice.random() < 0.2
        ledger.takes = 0.02
        service = await house.service()
        await service.publish(numbered(0, COUNT, KEYS))
        await until(lambda: len(ledger.numbers) >= COUNT // 2, "half of it delivered")
        at_stake = ledger.possible_repeats()
        assert at_stake < COUNT, "the bound is below the count of events"
        await service.kill()
        await service.start()
        await until(lambda: len(ledger.numbers) == COUNT, "everything delivered")
        assert ledger.out_of_order() == {}
        assert ledger.repeats <= at_stake
        await service.stop()

    @pytest.mark.nightly
    async def test_an_orderly_restart_in_the_middle_loses_and_repeats_nothing(
        self, house: Installation, ledger: Ledger
    ) -> None:
        """A process that stops in order finishes and settles its deliveries. All other events wait
        in the broker."""
        service = await house.service()
        await service.publish(numbered(0, FEW, KEYS))
        await until(lambda: len(ledger.numbers) >= FEW // 4, "a part of it delivered")
        ledger.takes = 1.0  # a handful a second until it has left, however long that takes
        await service.stop()
        assert len(ledger.numbers) < FEW, "the restart came in the middle"
        ledger.takes = 0.0
        await service.start()
        await until(lambda: len(ledger.numbers) == FEW, "everything delivered")
        assert ledger.out_of_order() == {}
        assert ledger.repeats == 0
        await service.stop()
