"""Pure. The problems with which both listeners answer (RFC 9457): the code of each, its cause and its cure.

A code is stable, because programs select by it. It is the last part of the problem's ``type``. A new code needs an
entry in ``events``, ``admin`` or ``shared``, so that the reference of problems has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.problems.admin import ADMIN, AdminCode
from app.problems.events import EVENTS, EventsCode
from app.problems.kind import ProblemKind
from app.problems.shared import SHARED, SharedCode

ProblemCode = EventsCode | AdminCode | SharedCode
PROBLEMS: Mapping[str, ProblemKind] = dict([*EVENTS.items(), *ADMIN.items(), *SHARED.items()])
"""The kind of each problem, by its code."""

_TYPE = "urn:skybridge:problem:"


def problem_type(code: str) -> str:
    """Return the ``type`` of a problem document."""
    return _TYPE + code


def cure_of(type_: str) -> str:
    """Return the cure of a problem by the ``type`` of its document, or "" if the type is not of Skybridge."""
    kind = PROBLEMS.get(type_.removeprefix(_TYPE))
    return kind.cure if kind else ""


__all__ = [
    "ADMIN", "EVENTS", "PROBLEMS", "SHARED", "ProblemCode", "ProblemKind", "cure_of", "problem_type",
]  # fmt: skip
