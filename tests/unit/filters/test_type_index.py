"""The index of types finds whom an event may concern, and nobody else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.event.memo import LENGTH
from app.filters.index import Types
from app.filters.type_index import REMEMBERED, FilterIndex, TypeIndex

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


names = st.sampled_from(["tenant", "subject"])
exact = st.dictionaries(names, st.frozensets(st.text("ab", min_size=1, max_size=2), max_size=2))


@given(st.lists(st.tuples(types, exact), max_size=8), st.data())
def test_an_event_finds_every_member_that_may_want_it(
    of_members: list[tuple[Types | None, dict[str, frozenset[str]]]], data: st.DataObject
) -> None:
    """A member whose type and values match is found once, whichever attribute the index chose for it. This also holds
    after other members have left."""
    index: FilterIndex[int] = FilterIndex()
    there = dict(enumerate(of_members))
    for member, wanted in there.items():
        index.add(member, *wanted)
    for member in data.draw(st.sets(st.sampled_from(sorted(there)))) if there else ():
        index.remove(member, *there.pop(member))
    event = data.draw(
        st.fixed_dictionaries({"type": texts, "tenant": texts}, optional={"subject": texts})
    )
    found = index.of(event)
    assert len(found) == len(set(found))
    for member, (kinds, values) in there.items():
        if (kinds is None or kinds.holds(event["type"])) and all(
            event.get(name) in some for name, some in values.items()
        ):
            assert member in found
    for member, wanted in there.items():
        index.remove(member, *wanted)
    assert index.of(event) == []
    assert index.knows_types_only


def test_members_are_found_by_the_attribute_that_tells_them_apart() -> None:
    """A thousand members want the same type, each of another tenant. An event finds one or two of them, not all."""
    index: FilterIndex[int] = FilterIndex()
    kind = Types(frozenset(["order"]))
    for number in range(1_000):
        index.add(number, kind, {"tenant": frozenset([str(number)])})
    assert index.of({"type": "order", "tenant": "7"}) == [0, 7]
    assert index.of({"type": "invoice", "tenant": "7"}) == [7]
