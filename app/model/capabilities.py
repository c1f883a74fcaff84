"""The capabilities of a broker, declared as data. The code and the contract suite read this data to decide what a
broker can do."""

from __future__ import annotations

import msgspec

EMBEDDED_RECORD = 64 << 20
"""The most bytes of one record of the embedded log. A body of 25 MiB fits, in base64 too."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a log. A missing one is declared here, and no test is skipped by hand.

    Attributes:
        replayable: A position can be read again after it was committed.
        partitions: A topic has numbered partitions, with one owner each within a group.
        seek_by_time: A subscription can start at a time.
        null_body: The log distinguishes no value from an empty value.
        binary_keys: A key may be any bytes.
        null_headers: A header may have no value.
        binary_headers: A header value may be any bytes. Otherwise it is UTF-8 text.
        repeated_headers: A header name may occur more than once. Otherwise the first of each is kept, and the
            order may be lost.
        positions: A receipt has the position that a reader will see. Otherwise a position belongs to a
            consumer, and changes with a redelivery.
        time_grain: A start at a time may begin with messages stored up to this many ms earlier, never later.
        own_groups: Each group receives every message and starts where it asks to. Otherwise groups share the
            stored messages, and each message goes to one of them.
        generations: A new owner of a partition has a greater epoch than the previous one. Otherwise the
            epochs only differ.
        remembers: The log stores an event with an identity once, even across a restart. Otherwise the process
            remembers identities in memory.
        max_batch: The most records of one wire batch. 0 means that only bytes limit it.
        max_record: The most bytes of one record, with key and headers. 0 means unknown.
    """

    replayable: bool
    partitions: bool
    seek_by_time: bool
    null_body: bool
    binary_keys: bool
    null_headers: bool = True
    binary_headers: bool = True
    repeated_headers: bool = True
    positions: bool = True
    time_grain: int = 1
    own_groups: bool = True
    generations: bool = False
    remembers: bool = False
    max_batch: int = 0
    max_record: int = 0
