"""What an answer of Pulsar's administration means: a moment's lack is no refusal."""

from __future__ import annotations

import pytest
from pulsar import Result

from app.brokers.pulsar import admin
from app.brokers.pulsar.admin import ask_until
from app.brokers.pulsar.errors import AdminError, ClientError, translate
from app.errors import BrokerRefused, BrokerUnavailable

_NOT_MOVED = (
    "Unable to find position for position specified: unable to persist readPosition for cursor"
    " reset 16:-1"
)
_LACKING = [
    (412, _NOT_MOVED),
    (412, "Failed for Subscription Busy: Failed to fence subscription"),
    (412, "Failed to find ownership for topic:persistent://public/default/orders-partition-0"),
    (500, "org.apache.bookkeeper.mledger.ManagedLedgerException: Not enough non-faulty bookies"),
    (503, "try again"),
]
_REFUSED = [(412, "Topic name is not valid"), (401, "who?"), (404, "no topic"), (405, "no")]


@pytest.mark.parametrize(("status", "words"), _LACKING)
async def test_what_the_broker_lacks_for_a_moment_is_asked_for_again(
    status: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who is told of it may repeat what he asked for (reliability R20)."""
    monkeypatch.setattr(admin, "ASK_AGAIN", 0.0)
    error, asked = AdminError(status, words), 0

    async def question() -> str:
        nonlocal asked
        asked += 1
        if asked <= 3:
            raise error
        return "answer"

    assert await ask_until(question, 60.0) == "answer"
    asked = 0
    with pytest.raises(AdminError, match=str(status)):
        await ask_until(question, -1.0)
    assert isinstance(translate(error, "main"), BrokerUnavailable)


@pytest.mark.parametrize(("status", "words"), _REFUSED)
async def test_a_refusal_is_told_at_once(status: int, words: str) -> None:
    asked = []

    async def question() -> None:
        asked.append(status)
        raise AdminError(status, words)

    with pytest.raises(AdminError) as refused:
        await ask_until(question, 60.0)
    assert len(asked) == 1
    assert isinstance(translate(refused.value, "main"), BrokerRefused)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (Result.MessageTooBig, "record-too-large"),
        (Result.InvalidMessage, "rejected"),
        (Result.TopicTerminated, "other"),
        (Result.IncompatibleSchema, "other"),
        (Result.AuthorizationError, "not-authorised"),
        (Result.TopicNotFound, "unknown-topic"),
    ],
)
def test_a_refusal_is_of_the_record_or_of_its_topic(result: Result, kind: str) -> None:
    """The first is a dead letter of a mirror at once, the second waits for an operator."""
    refused = translate(ClientError(result, "persistent://public/default/orders"), "main")
    assert isinstance(refused, BrokerRefused)
    assert refused.kind == kind
    assert "orders" in str(refused)
