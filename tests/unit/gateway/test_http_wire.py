"""The bytes of answers."""

from __future__ import annotations

import json

from app.errors import Fault
from app.gateway.answers import ACCEPTED, problem, unavailable
from app.gateway.http_wire import Renderer


def test_a_plain_202_is_empty_and_says_so() -> None:
    assert Renderer().render(ACCEPTED, [], last=False) == (
        b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    )


def test_the_last_answer_says_close() -> None:
    """RFC 9112 9.6."""
    assert b"connection: close\r\n" in Renderer().render(ACCEPTED, [], last=True)


def test_shared_headers_are_renewed_when_their_list_is_another() -> None:
    """The date changes each second; a stale one would be served for ever."""
    renderer = Renderer()
    first = renderer.render(ACCEPTED, [(b"date", b"one")], last=False)
    second = renderer.render(ACCEPTED, [(b"date", b"two")], last=False)
    assert b"date: one\r\n" in first
    assert b"date: two\r\n" in second


def test_the_answer_that_comes_again_is_written_again_with_the_headers_of_now() -> None:
    renderer, answer = Renderer(), unavailable("x", "X", 1)
    one, two = [(b"date", b"one")], [(b"date", b"two")]
    first = renderer.render(answer, one, last=False)
    assert renderer.render(answer, one, last=False) == first
    assert b"connection: close\r\n" in renderer.render(answer, one, last=True)
    assert renderer.render(answer, two, last=False) == first.replace(b"one", b"two")
    assert renderer.render(ACCEPTED, two, last=False).startswith(b"HTTP/1.1 202 ")


def test_a_problem_lists_every_fault() -> None:
    """RFC 9457, design: HTTP."""
    faults = [Fault("a", "First.", "header x", "H1"), Fault("b", "Second.", index=2)]
    document = json.loads(problem(400, "invalid-event", "Bad", faults=faults).body)
    assert document == {
        "type": "urn:skybridge:problem:invalid-event",
        "title": "Bad",
        "status": 400,
        "detail": "First. Second.",
        "faults": [
            {"code": "a", "detail": "First.", "at": "header x", "rule": "H1"},
            {"code": "b", "detail": "Second.", "index": 2},
        ],
    }


def test_retry_after_is_whole_seconds_and_never_zero() -> None:
    """W6: delta-seconds; zero would invite a storm."""
    for given, told in ((0, b"1"), (0.2, b"1"), (1.01, b"2"), (30, b"30")):
        assert dict(unavailable("x", "X", given).headers)[b"retry-after"] == told
