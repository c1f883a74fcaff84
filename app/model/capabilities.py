"""What a broker can do, declared as data: it steers both the code and the contract suite."""

from __future__ import annotations

import msgspec

EMBEDDED_RECORD = 64 << 20
"""Most bytes of one record of the embedded log: more than bodies of 25 MiB become, in base64 too."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a log lacks is declared here, never skipped by hand.

    ``replayable``    a position can be read again after it was settled.
    ``partitions``    a topic has numbered partitions, one owner each within a group.
    ``seek_by_time``  a subscription can start at a time. ``time_grain``: it may begin with what was
                      stored so many milliseconds before; never later.
    ``null_body``     "no value" and "empty value" are told apart.
    ``binary_keys``   a key may be any bytes.
    ``null_headers``  a header may have no value.
    ``binary_headers``  the value of a header may be any bytes; otherwise it is text in UTF-8.
    ``repeated_headers``  a header name may stand more than once; else the first of each is kept,
                          and the order of names may be lost.
    ``positions``     a receipt names the position that a reader will see; else a position is the
                      consumer's own, and another one when a message is delivered again.
    ``own_groups``    each group sees everything and begins where it says; else groups share what is
                      there, and each message goes to one of them.
    ``generations``   a new owner of a partition has a greater epoch than the one before; else only another one.
    ``remembers``     what has an identity is stored once through a restart, too; else the memory does that.
    ``max_batch``     most records of one wire batch; 0: bounded by bytes only.
    ``max_record``    most bytes of one record, key and headers included; 0: not known here.
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
