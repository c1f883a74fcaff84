"""A bounded cache for the results of pure functions.

Senders repeat the same header names, content types and sources in event after event. Long arguments are not
cached, and a full cache is emptied, so that no sender can fill memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

ENTRIES = 1024
LENGTH = 256  # the most characters or bytes of a cached argument
NAMES_LENGTH = 4096  # the most characters of all names, if the argument is a tuple of names
_NAME = 32  # the overhead that is counted for each name

Question = TypeVar("Question", str, bytes, tuple[str, ...], tuple[bytes, ...])
Answer = TypeVar("Answer")


class Memo(dict[Question, Answer]):
    """A cache in which ``memo[question]`` is ``function(question)``. It is a subclass of dict, so that
    reading a cached result costs little."""

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
