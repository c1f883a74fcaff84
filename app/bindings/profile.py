"""What the brokers differ in when their messages are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from app.bindings.foreign import Apart
from app.bindings.spellings import Spelling
from app.bindings.values import Text
from app.errors import Fault


class Clauses(msgspec.Struct, frozen=True):
    """Where a binding says what a fault breaks: its content type, its document that must be there, the
    form of its values, and that the type of the data has one place.
    """

    content_type: str
    document: str
    values: str
    one_type: str


class Profile(msgspec.Struct, frozen=True):
    """How the messages of one kind of broker are read, its leniencies decided.

    ``place``          what a header is called there, in faults: ``header``, ``property``.
    ``prefix``         of the binding's own names, in faults.
    ``spellings``      in the order in which they are tried.
    ``content_types``  whether a header gives the content type, the better names first. The record's
                       own property comes before all of them.
    ``typed_at``       where the content type belongs, in faults.
    ``apart``          how foreign headers are told from the event's own.
    ``quoted``         reads the values of a message whose ``specversion`` is a JSON string; None where
                       quotes are part of a value.
    ``empty_is_none``  an empty body is an event without data; else only a null one is.
    ``second_type``    ``datacontenttype`` under its own name is read where no content type is given.
    ``natives``        values that are no strings are read.
    ``repeats``        repeated headers that agree are one; ``nulls``: a header without value is unset.
    ``sniff``          JSON documents that no content type declares as events are recognised.
    """

    place: str
    prefix: str
    spellings: tuple[Spelling, ...]
    content_types: tuple[Callable[[str], bool], ...]
    typed_at: str
    clauses: Clauses
    apart: Apart
    quoted: Callable[[str, str], Text | Fault] | None = None
    empty_is_none: bool = True
    second_type: bool = True
    natives: bool = True
    repeats: bool = True
    nulls: bool = True
    sniff: bool = True


def apart_from(
    spellings: Sequence[Spelling],
    content_types: Sequence[Callable[[str], bool]],
    ours: frozenset[str] = frozenset(),
) -> Apart:
    """Foreign headers where the most liberal reader has these spellings and names of content types.

    ``ours``  names that the bridge itself uses there.
    """
    claiming = [each for each in spellings if each.claims or each.nested]

    def passes(name: str) -> bool:
        claimed = any(each.attribute[name] is not None for each in claiming)
        return claimed or name in ours or any(is_type(name) for is_type in content_types)

    return Apart(passes)
