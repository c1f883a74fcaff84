"""What is on the wire meets its fate once: confirmed, returned, refused, or nobody knows."""

from __future__ import annotations

import asyncio

import pytest
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.bindings.record import Record
from app.brokers.driver import unanswered
from app.brokers.portable import Submission
from app.brokers.rabbitmq.targets import TargetPartitions
from app.brokers.rabbitmq.topology import RabbitTarget
from app.brokers.rabbitmq.unconfirmed import UnconfirmedRecords
from app.errors import BrokerRefused, BrokerUnavailable
from app.model.receipt import Receipt


class Ledger:
    def release(self, submission: Submission) -> None:
        if not submission.done():
            submission.set_result(submission.results)


@pytest.fixture
async def submission() -> Submission:
    made = Submission(loop=asyncio.get_running_loop())
    made.owner, made.topic, made.size = Ledger(), "orders", 0
    made.records = [Record(None, (), b"%d" % n, message_id=str(n)) for n in range(6)]
    made.results, made.open = [None] * 6, 6
    return made


def boarded(submission: Submission) -> UnconfirmedRecords:
    batchers = TargetPartitions("rabbit", RabbitTarget("orders", "orders", ("0", "1")), found_on=1)
    unconfirmed = UnconfirmedRecords("rabbit")
    for index, record in enumerate(submission.records):
        unconfirmed.add((submission, index, record, batchers, index % 2), 10)
    return unconfirmed


def back(body: bytes, routing_key: str) -> DeliveredMessage:
    frame = Basic.Return(312, "NO_ROUTE", "orders", routing_key)
    properties = Basic.Properties(message_id=body.decode())
    header = ContentHeader(body_size=len(body), properties=properties)
    return DeliveredMessage(delivery=frame, header=header, body=body, channel=None)


async def test_one_confirm_may_cover_many(submission: Submission) -> None:
    unconfirmed = boarded(submission)
    unconfirmed.confirmed(2, multiple=False, stored=True)
    unconfirmed.confirmed(4, multiple=True, stored=True)
    assert (len(unconfirmed), unconfirmed.bytes) == (2, 20)
    unconfirmed.confirmed(4, multiple=True, stored=True)
    unconfirmed.confirmed(6, multiple=True, stored=True)
    assert await submission == [Receipt("rabbit", "orders", n % 2, "") for n in range(6)]


async def test_a_return_is_a_refusal_though_it_is_confirmed(submission: Submission) -> None:
    """Reliability 5.2: unroutable is confirmed like anything else."""
    unconfirmed = boarded(submission)
    unconfirmed.returned(back(b"3", "1"))
    unconfirmed.confirmed(6, multiple=True, stored=True)
    results = await submission
    assert [type(result) for result in results].count(Receipt) == 5
    assert isinstance(results[3], BrokerRefused)
    assert results[3].kind == "unroutable"


async def test_a_return_that_is_not_ours_changes_nothing(submission: Submission) -> None:
    unconfirmed = boarded(submission)
    unconfirmed.returned(back(b"3", "0"))  # another routing key
    unconfirmed.returned(back(b"nothing like it", "1"))
    unconfirmed.confirmed(6, multiple=True, stored=True)
    assert all(isinstance(result, Receipt) for result in await submission)


async def test_a_negative_confirm_is_for_now(submission: Submission) -> None:
    """A full queue, or one without a majority: 503, the sender keeps it."""
    unconfirmed = boarded(submission)
    unconfirmed.confirmed(6, multiple=True, stored=False)
    assert {type(result) for result in await submission} == {BrokerUnavailable}


async def test_what_somebody_waits_for_goes_out_again_in_its_order(submission: Submission) -> None:
    unconfirmed = boarded(submission)
    unconfirmed.confirmed(1, multiple=False, stored=True)
    entries = unanswered(unconfirmed.remove_all())
    assert [entry[1] for entry in entries] == [1, 2, 3, 4, 5]
    assert (len(unconfirmed), unconfirmed.bytes) == (0, 0)


async def test_what_was_answered_is_never_sent_again(submission: Submission) -> None:
    """Rule 9: the caller has had his 503."""
    unconfirmed = boarded(submission)
    submission.cancel()
    assert unanswered(unconfirmed.remove_all()) == []
    assert submission.open == 0, "and it is out of the bounds"
