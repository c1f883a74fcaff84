"""The verdict on the answer of each SDK to each question.

A verdict is empty if the SDK agrees, else one word:

``accepts``  The SDK accepts an invalid message.
``refuses``  The SDK does not read, or does not write, a valid event.
``differs``  The SDK reads or writes another event.
``invalid``  The SDK writes an invalid message.
``unable``   The SDK lacks the feature (batches), which is no disagreement.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from opinion_cases import CorpusQuestion, Exchange, corpus_questions, exchanges
from opinion_compare import Expected, differences
from opinion_skybridge import Skybridge

_OURS = Skybridge()


class Answerer(Protocol):
    """An SDK, or Skybridge, that answers questions."""

    name: str

    def ask(self, question: dict[str, Any]) -> dict[str, Any]: ...


class Opinion(msgspec.Struct, frozen=True):
    """The verdict on what one SDK did with one case.

    Attributes:
        sdk: The name of the SDK.
        case: The id of the case.
        rules: The specification rules that the case tests.
        valid: Whether the message of the case is valid.
        verdict: One of the words of the module, or "".
        detail: What the SDK answered, in words.
        invented: The attributes that the SDK added.
    """

    sdk: str
    case: str
    rules: tuple[str, ...]
    valid: bool
    verdict: str
    detail: str
    invented: frozenset[str] = frozenset()


def opinions_of(asking: Answerer, invented: frozenset[str]) -> list[Opinion]:
    """Return the opinions of an SDK on the corpus, on messages that Skybridge writes, and on its
    own.

    Args:
        asking: The SDK under test.
        invented: Attributes that the SDK is known to add to whatever it reads or writes.
    """
    found = [_on_corpus(asking, each, invented) for each in corpus_questions()]
    for exchange in exchanges():
        found.append(_reads_ours(asking, exchange, invented))
        if asking.name != _OURS.name:
            found.append(_writes(asking, exchange, invented))
    return found


def _on_corpus(asking: Answerer, asked: CorpusQuestion, invented: frozenset[str]) -> Opinion:
    answer = asking.ask(asked.question)
    verdict, detail, extra = judged(answer, asked.expected, invented)
    valid = asked.expected is not None
    return Opinion(asking.name, asked.id, asked.rules, valid, verdict, detail, extra)


def _reads_ours(asking: Answerer, exchange: Exchange, invented: frozenset[str]) -> Opinion:
    message = _OURS.ask(exchange.writing)["message"]
    answer = asking.ask(exchange.reading(message))
    verdict, detail, extra = judged(answer, [exchange.expected], invented)
    return Opinion(asking.name, f"reads/{exchange.id}", (), True, verdict, detail, extra)


def _writes(asking: Answerer, exchange: Exchange, invented: frozenset[str]) -> Opinion:
    answer = asking.ask(exchange.writing)
    verdict, detail, extra = _judged_message(answer, exchange, invented)
    return Opinion(asking.name, f"writes/{exchange.id}", (), True, verdict, detail, extra)


_Judgement = tuple[str, str, frozenset[str]]
_NOTHING: frozenset[str] = frozenset()


def _judged_message(
    answer: Mapping[str, Any], exchange: Exchange, invented: frozenset[str]
) -> _Judgement:
    if "message" not in answer:
        return ("unable" if "unable" in answer else "refuses"), _said(answer), _NOTHING
    message = answer["message"]
    read = _OURS.ask(exchange.reading(message))
    strict = (
        exchange.binding == "kafka"
    )  # Over HTTP an empty body means no data; a Kafka record distinguishes the two.
    verdict, detail, extra = judged(read, [exchange.expected], invented, exact_absence=strict)
    if verdict == "refuses":
        return "invalid", detail, extra
    uncoded = _uncoded(message) if exchange.binding == "http" else []
    if uncoded:
        return "invalid", f"{detail} uncoded: {', '.join(uncoded)}".strip(), extra
    return verdict, detail, extra


def _uncoded(message: Mapping[str, Any]) -> list[str]:
    """Return the names of headers with characters that must be percent-encoded (HTTP binding
    3.1.3.2)."""
    return sorted(
        name
        for name, value in message["headers"]
        if name.lower().startswith("ce-")
        and not all(0x21 <= byte <= 0x7E and byte != 0x22 for byte in b64decode(value))
    )


def judged(
    answer: Mapping[str, Any],
    expected: Sequence[Expected] | None,
    invented: frozenset[str] = _NOTHING,
    *,
    exact_absence: bool = False,
) -> _Judgement:
    """Return the verdict on an answer, its detail, and the attributes that the reader invented."""
    if "unable" in answer:
        return "unable", _said(answer), _NOTHING
    if "error" in answer:
        return ("" if expected is None else "refuses"), _said(answer), _NOTHING
    seen = answer.get("events", [])
    if expected is None:
        return "accepts", json.dumps(seen)[:200], _NOTHING
    if len(seen) != len(expected):
        return "differs", f"{len(seen)} events", _NOTHING
    found: list[str] = []
    extra: set[str] = set()
    for want, have in zip(expected, seen, strict=True):
        found += differences(want, have, invented, exact_absence=exact_absence)
        extra |= (have["attributes"].keys() - want.attributes.keys()) & invented
    return ("differs" if found else ""), " ".join(found), frozenset(extra)


def _said(answer: Mapping[str, Any]) -> str:
    return str(answer.get("error") or answer.get("unable"))
