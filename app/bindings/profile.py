"""What the brokers differ in when their messages are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from app.bindings.foreign import Apart
from app.bindings.spellings import Spelling
from app.bindings.values import Text
from app.errors import Fault

Kind = TypeVar("Kind", bound="Leniency")


class Leniency(msgspec.Struct, frozen=True):
    """What is read although no binding says so. All on: brokers carry what is in use.

    ``any_case``         names of headers in any case, where the exact one is absent.
    ``datacontenttype``  that attribute as a header, where no content type is given otherwise, as release
                         candidate 1 had it in Kafka and JavaScript's SDK writes it.
    ``repeats``          a header that is repeated with the same value.
    ``sniff``            JSON documents that no content type declares as events, as Python's SDK
                         writes them.
    """

    any_case: bool = True
    datacontenttype: bool = True
    repeats: bool = True
    sniff: bool = True


def strict(kind: type[Kind]) -> Kind:
    """Nothing but what the binding says."""
    return kind(**dict.fromkeys(kind.__struct_fields__, False))


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """How faults name things.

    ``place``     what a header is called there: ``header``, ``property``.
    ``prefix``    of the binding's own names.
    ``typed_at``  where the content type belongs.

    The others are clauses of the binding that a fault breaks: its content type, its document that must be
    there, the form of its values, and that the type of the data has one place.
    """

    place: str
    prefix: str
    typed_at: str
    content_type: str
    document: str
    values: str
    one_type: str


class Profile(msgspec.Struct, frozen=True):
    """How the messages of one kind of broker are read, its leniencies decided.

    ``spellings``      in the order in which they are tried.
    ``content_types``  whether a header gives the content type, the better names first. The record's
                       own property comes before all of them.
    ``apart``          how foreign headers are told from the event's own.
    ``quoted``         reads the values of a message whose ``specversion`` is a JSON string; None where
                       quotes are part of a value.
    ``empty_is_none``  an empty body is an event without data; else only a null one is.
    ``natives``        values that are no strings are read; ``nulls``: a header without value is unset.
    """

    words: Words
    leniency: Leniency
    spellings: tuple[Spelling, ...]
    content_types: tuple[Callable[[str], bool], ...]
    apart: Apart
    quoted: Callable[[str, str], Text | Fault] | None = None
    empty_is_none: bool = True
    natives: bool = True
    nulls: bool = True


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
