"""Metadata beside the event (I3): passed along, and told apart from the event's own by a prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from app.bindings.forwarding import APART
from app.bindings.record import NO_NATIVES, Header, Native
from app.event.memo import Memo


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
