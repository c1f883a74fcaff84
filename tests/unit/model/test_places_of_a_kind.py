"""Values of one kind are found wherever the type of a field allows one, and nothing else is searched."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.model.places import paths_of


class Marked:
    """The kind that is looked for."""


class Leaf(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    mark: Marked | None = None
    text: str = ""


class Tree(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    leaves: tuple[Leaf, ...] = ()
    named: dict[str, Annotated[Marked, Field(description="x")]] = {}
    anything: Any = None
    bare: dict = {}  # type: ignore[type-arg]
    inner: Tree | None = None
    words: list[str] = Field([], alias="the-words")


def test_values_are_found_in_every_form_of_field() -> None:
    tree = Tree(
        leaves=(Leaf(), Leaf(mark=Marked())),
        named={"a": Marked()},
        anything=[{"b": Marked()}],
        bare={"c": Marked()},
        inner=Tree(leaves=(Leaf(mark=Marked()),)),
    )
    assert list(paths_of(Marked, tree)) == [
        ("leaves", 1, "mark"),
        ("named", "a"),
        ("anything", 0, "b"),
        ("bare", "c"),
        ("inner", "leaves", 0, "mark"),
    ]


def test_fields_that_cannot_hold_one_are_not_searched() -> None:
    """1,500 filters of a subscription took 150,000 calls."""

    class Counting(str):
        __slots__ = ()
        looked = 0

        @property
        def __class__(self) -> type:  # what isinstance asks
            Counting.looked += 1
            return str

    tree = Tree.model_construct(words=[Counting("w")] * 10, leaves=(), named={}, inner=None)
    assert list(paths_of(Marked, tree)) == []
    assert Counting.looked == 0
