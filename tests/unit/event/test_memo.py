from __future__ import annotations

from app.event.memo import ENTRIES, LENGTH, NAMES_LENGTH, Memo


def test_a_question_is_asked_once() -> None:
    """The hot path pays for one dictionary look."""
    asked: list[str] = []
    memo: Memo[str, int] = Memo(lambda text: asked.append(text) or len(text))

    assert [memo["abc"], memo["abc"]] == [3, 3]
    assert asked == ["abc"]


def test_nobody_can_fill_memory() -> None:
    """Names and content types come from strangers (rule 8: every bound is one)."""
    memo: Memo[str, int] = Memo(len)

    for number in range(3 * ENTRIES):
        memo[f"x-{number}"]
        assert len(memo) <= ENTRIES
    assert memo["x" * (LENGTH + 1)] == LENGTH + 1
    assert "x" * (LENGTH + 1) not in memo


def test_names_are_remembered_together_within_a_bound() -> None:
    """Neither one long name nor a great many short ones are kept (rule 8)."""
    memo: Memo[tuple[str, ...], int] = Memo(len)
    usual = ("host", "content-type", *(f"x-forwarded-{number:040}" for number in range(20)))

    for names in (usual, ("x" * NAMES_LENGTH,), ("x",) * (NAMES_LENGTH // 8)):
        assert memo[names] == len(names)
    assert list(memo) == [usual]
