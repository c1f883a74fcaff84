"""The index of types finds whom an event may concern, and nobody else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.event.memo import LENGTH
from app.filters.index import Types
from app.filters.type_index import REMEMBERED, TypeIndex

texts = st.text("ab.", max_size=4)
types = st.none() | st.builds(Types, st.frozensets(texts), st.frozensets(texts))


@given(st.lists(types, max_size=8), st.data(), st.lists(texts, max_size=4))
def test_it_finds_the_same_as_asking_each(
    of_members: list[Types | None], data: st.DataObject, kinds: list[str]
) -> None:
    """Whoever it left out would lose events (core of "filters are found through an index")."""
    index: TypeIndex[int] = TypeIndex()
    there = dict(enumerate(of_members))
    for member, wanted in there.items():
        index.add(member, wanted)
    gone = data.draw(st.sets(st.sampled_from(sorted(there)))) if there else set()
    for kind in kinds:  # answers are remembered: they must not outlive who leaves
        index.of(kind)
    for member in gone:
        index.remove(member, there.pop(member))
    assert list(index.anything) == [m for m, wanted in there.items() if wanted is None]
    for kind in kinds:
        found = index.of(kind)
        assert sorted(found) == [m for m, wanted in there.items() if wanted and wanted.holds(kind)]
        assert len(found) == len(set(found)), "each once, however many of its texts match"


def test_types_without_end_take_no_memory_without_end() -> None:
    """Senders choose the types: what is remembered of them is bounded (rule 8)."""
    index: TypeIndex[int] = TypeIndex()
    index.add(1, Types(prefixes=frozenset(["t"])))
    for number in range(3 * REMEMBERED):
        assert index.of(f"t{number}") == (1,)
        assert len(index._known) <= REMEMBERED


def test_long_types_are_found_and_not_remembered() -> None:
    """A type may be as long as a body: 1,024 of them would fill the memory (rule 8)."""
    index: TypeIndex[int] = TypeIndex()
    index.add(1, Types(prefixes=frozenset(["t"])))
    long = "t" * (LENGTH + 1)
    assert index.of(long) == (1,)
    assert long not in index._known
