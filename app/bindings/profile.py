"""The rules that differ between brokers when records are read: header names, leniencies, and the names of
foreign headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.bindings.forwarding import APART
from app.bindings.record import NO_NATIVES, Header, Native
from app.bindings.spellings import NamingScheme
from app.bindings.values import Text
from app.errors import Fault
from app.event.memo import Memo

Kind = TypeVar("Kind", bound="Leniency")


class Leniency(msgspec.Struct, frozen=True):
    """Deviations from the bindings that are accepted because producers in use have them. All are on by default.

    Attributes:
        any_case: Header names in any case, if the exact name is absent.
        datacontenttype: A header ``datacontenttype``, if no other content type is given. Release candidate 1
            of the Kafka binding has it, and so does the JavaScript SDK.
        repeats: A header that is repeated with the same value.
        sniff: JSON documents without a CloudEvents content type, as the Python SDK writes them.
    """

    any_case: bool = True
    datacontenttype: bool = True
    repeats: bool = True
    sniff: bool = True


def strict(kind: type[Kind]) -> Kind:
    """Return a Leniency with every deviation off: only what the binding permits is accepted."""
    return kind(**dict.fromkeys(kind.__struct_fields__, False))


class FaultTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The words and specification clauses that faults of one binding name.

    Attributes:
        place: The broker's word for a header: ``header`` or ``property``.
        prefix: The prefix of attribute headers.
        typed_at: The place of the content type.
        content_type: The clause about the content type.
        document: The clause that demands a document in structured mode.
        values: The clause about the form of header values.
        one_type: The clause that permits only one place for the content type of the data.
    """

    place: str
    prefix: str
    typed_at: str
    content_type: str
    document: str
    values: str
    one_type: str


class HeaderEscaper:
    """A converter of foreign header names for one kind of broker. It keeps foreign headers distinct from the
    headers of an event.

    A foreign header that a reader would take for an attribute is written under the prefix ``x-foreign-``. A
    foreign name that already has this prefix gets it once more. So reading restores every name exactly.
    """

    def __init__(self, passes: Callable[[str], bool]) -> None:
        """Create the escaper.

        Args:
            passes: A function that returns True if a reader would take a header name for an attribute or for
                a header of Skybridge.
        """
        self._passes = passes
        self._written = Memo(self._written_name)
        self._read = Memo(self.read_name)

    def claims(self, name: str) -> bool:
        """Return True if a reader would take a header of this name for a header of the event."""
        return self._passes(name)

    def written(self, foreign: Iterable[Header]) -> tuple[Header, ...]:
        """Return foreign headers with the names under which they are written. Repeated headers and null
        values are kept."""
        names = self._written
        return tuple([(names[name], value) for name, value in foreign])

    def typed(
        self, natives: Mapping[str, Native], headers: Iterable[Header]
    ) -> Mapping[str, Native]:
        """Return the typed values of foreign headers, under the names that are written. Values without a
        header in ``headers`` are left out.
        """
        if not natives:
            return NO_NATIVES
        there = {name for name, _ in headers}
        named = {self._written[name]: value for name, value in natives.items()}
        return {name: value for name, value in named.items() if name in there}

    def read(self, headers: Sequence[Header]) -> tuple[Header, ...]:
        """Return foreign headers under the names that they had before they were written."""
        for name, _ in headers:
            if name.startswith(APART):
                names = self._read
                return tuple([(names[name], value) for name, value in headers])
        return tuple(headers)  # the usual case, at little cost

    def _written_name(self, name: str) -> str:
        return APART + name if self._passes_below(name) else name

    def read_name(self, name: str) -> str:
        """Return the name that a foreign header had before it was written."""
        inner = name.removeprefix(APART)
        return inner if inner != name and self._passes_below(inner) else name

    def _passes_below(self, name: str) -> bool:
        while name.startswith(APART):
            name = name[len(APART) :]
        return self._passes(name)


class Profile(msgspec.Struct, frozen=True):
    """The rules by which records of one kind of broker are read, with its leniencies applied.

    Attributes:
        words: The words and clauses that faults name.
        leniency: The accepted deviations.
        spellings: The naming schemes of attributes, in the order in which they are tried.
        content_types: Functions that return True for the name of a content-type header, the preferred names
            first. The record's own property comes before all headers.
        apart: The escaper of foreign headers.
        quoted: A function that reads the values of a message whose ``specversion`` is a JSON string. None if
            quotes are part of a value.
        empty_is_none: True if an empty body is an event without data. Otherwise only a null body is.
        natives: True if typed values are accepted.
        nulls: True if a header with a null value counts as absent.
    """

    words: FaultTerms
    leniency: Leniency
    spellings: tuple[NamingScheme, ...]
    content_types: tuple[Callable[[str], bool], ...]
    apart: HeaderEscaper
    quoted: Callable[[str, str], Text | Fault] | None = None
    empty_is_none: bool = True
    natives: bool = True
    nulls: bool = True


def header_escaper(
    spellings: Sequence[NamingScheme],
    content_types: Sequence[Callable[[str], bool]],
    reserved: frozenset[str] = frozenset(),
) -> HeaderEscaper:
    """Return the converter of foreign header names for one kind of broker. The arguments describe the most
    liberal reader.

    Args:
        spellings: The naming schemes of attributes.
        content_types: Functions that return True for the name of a content-type header.
        reserved: Names that Skybridge itself uses on this broker.
    """
    claiming = [each for each in spellings if each.claims or each.nested]

    def passes(name: str) -> bool:
        claimed = any(each.attribute[name] is not None for each in claiming)
        return claimed or name in reserved or any(is_type(name) for is_type in content_types)

    return HeaderEscaper(passes)
