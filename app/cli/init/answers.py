"""Read the answers of a user, or give the reason for a refusal. Options and questions have the same answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

from app.config.load.finding import did_you_mean
from app.config.starter.choices import KEY, LOCAL, PULL, SENDERS, BrokerKind

NOWHERE = "nowhere"
_WORDS: Mapping[str, bool] = {"y": True, "yes": True, "n": False, "no": False}


class BadAnswer(Exception):
    """An answer is refused. ``args`` are the problem and its cure."""


def broker(text: str) -> BrokerKind:
    """Return the kind of a broker."""
    kinds: tuple[BrokerKind, ...] = get_args(BrokerKind)
    for kind in kinds:
        if kind == text.lower():
            return kind
    raise _unknown("broker", text, kinds)


def senders(text: str) -> tuple[str, ...]:
    """Return senders that are joined by commas, each once."""
    names = dict.fromkeys(each.strip().lower() for each in text.split(",") if each.strip())
    for each in names:
        if each not in SENDERS:
            raise _unknown("sender", each, SENDERS)
    if not names:
        raise BadAnswer("No sender is named.", f"Name one of: {', '.join(SENDERS)}.")
    if {LOCAL, KEY} <= names.keys():
        raise BadAnswer(
            "The senders local and key exclude each other: local lets every program on this machine send without a key.",
            "Remove one of the two.",
        )
    return tuple(names)


def sink(text: str) -> str:
    """Return the URL of a webhook, ``pull``, or empty text for nowhere."""
    if text.lower() in {PULL, NOWHERE}:
        return "" if text.lower() == NOWHERE else PULL
    if "://" not in text:
        raise BadAnswer(
            f"The target {text} is not a URL.",
            f"Write a URL such as https://billing.example/hook, or {PULL}, or {NOWHERE}.",
        )
    return text


def truth(text: str) -> bool:
    """Return True for yes."""
    if text.lower() not in _WORDS:
        raise BadAnswer(f"The answer {text} is neither yes nor no.", "Write yes or no.")
    return _WORDS[text.lower()]


def _unknown(what: str, text: str, known: Collection[str]) -> BadAnswer:
    return BadAnswer(f"The {what} {text} is not known.", did_you_mean(text.lower(), known))
