"""Make docs/reference/problems.md from the catalogue of problems in the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.problems import ADMIN, EVENTS, SHARED, ProblemKind, problem_type
from markdown_writing import prose, table

HEAD = """# Problems

This page lists the problems with which Skybridge refuses requests, each with its cause and its cure. `make docs` writes it
from the code.

A problem is a JSON object in the form of RFC 9457, with the media type `application/problem+json`. Its `type` is
`urn:skybridge:problem:` and a code of this page, such as `urn:skybridge:problem:invalid-event`. A code is stable, so that programs
can compare it. The code is also the anchor on this page (`problems.md#invalid-event`), and on the page `/docs` of a running admin
listener: `http://127.0.0.1:8081/docs#invalid-event`. `title` and `detail` are for people and may change. `faults` lists every fault of
the request. [ADR 0053](../adr/0053-problem-types.md) has the reasons.
"""
_RETRIED = {408, 429, 503, 504}
_OF_EVENTS = (
    "Problems of events and of webhooks at intakes. The admin listener has those of events too, when it explains or "
    "publishes an event."
)
_PARTS: Mapping[str, tuple[str, Mapping[str, ProblemKind]]] = {
    "Both listeners": ("Problems of brokers, of the store, and of any request.", SHARED),
    "Events listener": (_OF_EVENTS, EVENTS),
    "Admin listener": ("Problems of the API, the console and the command line.", ADMIN),
}


def page() -> str:
    parts = [HEAD]
    for heading, (text, kinds) in _PARTS.items():
        rows = [
            (f"[`{code}`](#{code})", _statuses(kind), prose(kind.cause))
            for code, kind in kinds.items()
        ]
        overview = table(("code", "status", "cause"), rows)
        parts.append(f"## {heading}\n\n{text}\n\n{overview}")
        parts += _sections(kinds)
    return "\n".join(parts)


def _sections(kinds: Mapping[Any, ProblemKind]) -> Iterator[str]:
    for code, kind in kinds.items():
        rows = [
            ("status", _statuses(kind)),
            ("cause", prose(kind.cause)),
            ("cure", prose(kind.cure)),
            ("the same request again", _repeat(kind)),
        ]
        yield f"### {code}\n\n{table(('type', f'`{problem_type(code)}`'), rows)}"


def _statuses(kind: ProblemKind) -> str:
    return ", ".join(map(str, kind.statuses))


def _repeat(kind: ProblemKind) -> str:
    """Return whether the same request may succeed later."""
    later = _RETRIED.intersection(kind.statuses)
    if not later:
        return "is refused again"
    if len(later) == len(kind.statuses):
        return "may succeed later"
    return f"may succeed later after {', '.join(map(str, sorted(later)))}, otherwise it is refused again"
