"""Answers of a pure function, remembered within a bound.

Senders repeat themselves: the same header names, content types and sources, event after event. What
is long is not remembered, and a full memo is emptied, so that nobody can fill memory or keep it full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

ENTRIES = 1024
LENGTH = 256  # characters or bytes of a question that is remembered
NAMES_LENGTH = 4096  # of all names, where the question is a tuple of them
_NAME = 32  # what a name takes beside its characters

Question = TypeVar("Question", str, bytes, tuple[str, ...], tuple[bytes, ...])
Answer = TypeVar("Answer")


class Memo(dict[Question, Answer]):
    """``memo[question]`` is ``function(question)``; a dict, because a hit must cost next to nothing."""

    def __init__(self, function: Callable[[Question], Answer]) -> None:
        super().__init__()
        self._function: Callable[[Question], Answer] = function

    def __missing__(self, question: Question) -> Answer:
        answer = self._function(question)
        if _is_short(question):
            if len(self) >= ENTRIES:
                self.clear()
            self[question] = answer
        return answer


def _is_short(question: str | bytes | tuple[str, ...] | tuple[bytes, ...]) -> bool:
    if isinstance(question, tuple):
        return sum(map(len, question)) + _NAME * len(question) <= NAMES_LENGTH
    return len(question) <= LENGTH
