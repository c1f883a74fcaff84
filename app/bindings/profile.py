"""What the brokers differ in when their messages are read: spellings, leniencies, and how metadata beside the event (I3)
is told apart from the event's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.bindings.forwarding import APART
from app.bindings.record import NO_NATIVES, Header, Native
from app.bindings.spellings import Spelling
from app.bindings.values import Text
from app.errors import Fault
from app.event.memo import Memo

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


class Apart:
    """Keeps foreign headers apart from the event's own on one kind of broker.

    A foreign header whose name the reader would take for one of the event's own is written under the
    prefix ``x-foreign-``, and so is one that carries the prefix before such a name already: what was
    written is what is read, whatever the name.
    """

    def __init__(self, passes: Callable[[str], bool]) -> None:
        """``passes``  whether a name would be taken for the event's own, or for ours."""
        self._passes = passes
        self._written = Memo(self._written_name)
        self._read = Memo(self.read_name)

    def claims(self, name: str) -> bool:
        """Whether a reader would take a header of this name for one of the event's own."""
        return self._passes(name)

    def written(self, foreign: Iterable[Header]) -> tuple[Header, ...]:
        """Foreign headers as they are written after the event's own: repeats and nulls are kept."""
        names = self._written
        return tuple([(names[name], value) for name, value in foreign])

    def typed(
        self, natives: Mapping[str, Native], headers: Iterable[Header]
    ) -> Mapping[str, Native]:
        """The typed values of foreign headers, by the names under which ``headers`` has them."""
        if not natives:
            return NO_NATIVES
        there = {name for name, _ in headers}
        named = {self._written[name]: value for name, value in natives.items()}
        return {name: value for name, value in named.items() if name in there}

    def read(self, headers: Sequence[Header]) -> tuple[Header, ...]:
        """Headers that are none of the event's, by the names that they came with."""
        for name, _ in headers:
            if name.startswith(APART):
                names = self._read
                return tuple([(names[name], value) for name, value in headers])
        return tuple(headers)  # the usual case, at little cost

    def _written_name(self, name: str) -> str:
        return APART + name if self._passes_below(name) else name

    def read_name(self, name: str) -> str:
        """One name, as it was before it was written."""
        inner = name.removeprefix(APART)
        return inner if inner != name and self._passes_below(inner) else name

    def _passes_below(self, name: str) -> bool:
        while name.startswith(APART):
            name = name[len(APART) :]
        return self._passes(name)


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
