"""Validate positions as text, by the kind of broker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.model.metadata import TopicMetadata

LEDGER_ENTRY = re.compile(r"(\d{1,18}):(\d{1,18})(?::(\d{1,9}))?", re.ASCII)
"""The form of Pulsar's positions: ledger, entry, and the index in a batch."""

LARGEST_PARTITION = (1 << 31) - 1

_OFFSET = re.compile(r"\d{1,19}", re.ASCII)
_LARGEST = (1 << 63) - 1


def is_offset(text: str) -> bool:
    """Return True for the number of a record in a partition: 0 to 2**63 - 1."""
    return _OFFSET.fullmatch(text) is not None and int(text) <= _LARGEST


def is_before(position: str, other: str) -> bool:
    """Return True if a position is before another one of the same partition. Return False if one of them is no position."""
    places = [_place(text) for text in (position, other)]
    return all(places) and places[0] < places[1]


def _place(text: str) -> tuple[int, ...]:
    """Return the numbers of a position in the order in which they count, or () if the text is no position."""
    found = LEDGER_ENTRY.fullmatch(text)
    if found is not None:
        return tuple(int(number or 0) for number in found.groups())
    return (int(text),) if is_offset(text) else ()


def why_impossible(kind: str, number: int, text: str) -> str:
    """Return why no log of this kind has this position in partition ``number``, or "" if the position is possible."""
    if not 0 <= number <= LARGEST_PARTITION:
        return (
            f"The key {number} is not the number of a partition, which is 0 to {LARGEST_PARTITION}."
        )
    if kind == "pulsar":
        return (
            ""
            if LEDGER_ENTRY.fullmatch(text)
            else f"The position {_shown(text)} is not of the form LEDGER:ENTRY."
        )
    return (
        ""
        if is_offset(text)
        else f"The position {_shown(text)} is not an offset, which is 0 to {_LARGEST}."
    )


def positions_not_held(
    kind: str, positions: Mapping[int, str], topic: TopicMetadata
) -> Iterator[tuple[int, str]]:
    """Yield partition and reason of each position that the topic does not hold now.

    If the partitions of the topic are unknown, any position may exist. Positions of Pulsar are not compared
    here, because only Pulsar can order them.
    """
    held = {each.number: each for each in topic.partitions}
    for number, text in positions.items() if held else ():
        found = held.get(number)
        if found is None:
            yield (
                number,
                f"The topic {topic.name} has {len(held)} partitions, and no partition {number}.",
            )
        elif kind != "pulsar" and not _between(found.earliest, text, found.latest):
            ends = f"{found.earliest} to {found.latest}"
            yield (
                number,
                f"The partition {topic.name}/{number} has positions {ends}, and not {_shown(text)}.",
            )


def _between(earliest: str, text: str, latest: str) -> bool:
    if not all(map(is_offset, (earliest, text, latest))):
        return True
    return int(earliest) <= int(text) <= int(latest)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")  # noqa: PLR2004 - twice the longest offset
