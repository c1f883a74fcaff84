"""A kind of problem."""

from __future__ import annotations

from typing import NamedTuple


class ProblemKind(NamedTuple):
    """A kind of problem.

    Attributes:
        statuses: The HTTP statuses of answers with this problem.
        cause: What happened, as a sentence.
        cure: What the caller or the operator must do, as a sentence.
    """

    statuses: tuple[int, ...]
    cause: str
    cure: str
