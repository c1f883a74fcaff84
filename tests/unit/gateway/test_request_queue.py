"""The order of answers on one connection, for every order in which they can become ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.gateway.answers import HttpAnswer
from app.gateway.request_queue import RequestCycle, RequestQueue

APP: Any = object()


class Recorder:
    """A connection that remembers. ``at_once``: names of requests answered without waiting."""

    def __init__(self, in_work: int = 16, at_once: frozenset[int] = frozenset()) -> None:
        self.pipeline = RequestQueue(self, in_work)
        self.at_once = at_once
        self.receiving = False
        self.begun: dict[int, RequestCycle] = {}
        self.cycle: Any = None
        self.written: list[Any] = []
        self.lasts: list[Any] = []

    def publish(self, cycle: RequestCycle) -> HttpAnswer | None:
        name: Any = cycle.request
        self.begun[name] = cycle
        return HttpAnswer(202, (), b"%d" % name) if name in self.at_once else None

    def begin_asgi(self, cycle: Any, app: Any) -> None:
        assert self.cycle is None, "one ordinary request at a time"
        self.cycle = cycle

    def write(self, answer: HttpAnswer, *, last: bool) -> None:
        assert self.cycle is None, "nothing is written into an ordinary answer"
        self.written.append(int(answer.body))
        if last:
            self.lasts.append(int(answer.body))

    def is_receiving(self) -> bool:
        return self.receiving

    def queue_changed(self) -> None: ...

    def fast(self, name: int, *, last: bool = False) -> None:
        request: Any = name
        self.pipeline.add_fast(request, last=last)

    def ordinary(self, name: int) -> Any:
        cycle = SimpleNamespace(name=name, keep_alive=True)
        self.pipeline.add_asgi(cycle, APP)
        return cycle

    def answer(self, name: int) -> None:
        self.begun.pop(name).answered(HttpAnswer(202, (), b"%d" % name))

    def finish_ordinary(self) -> None:
        self.written.append(self.cycle.name)
        if not self.cycle.keep_alive:
            self.lasts.append(self.cycle.name)
        self.cycle = None
        self.pipeline.asgi_completed()


@given(
    kinds=st.lists(st.sampled_from(["held", "at once", "ordinary"]), max_size=25),
    in_work=st.integers(1, 5),
    chance=st.randoms(use_true_random=False),
    drains=st.booleans(),
)
def test_answers_leave_in_request_order_whatever_the_order_of_completion(
    kinds: list[str], in_work: int, chance: Any, drains: bool
) -> None:
    """Design: HTTP. Any mix, any order of completion, any width; and a drain closes at the end."""
    at_once = frozenset(n for n, kind in enumerate(kinds) if kind == "at once")
    connection = Recorder(in_work, at_once)
    for n, kind in enumerate(kinds):
        if kind == "ordinary":
            connection.ordinary(n)
        else:
            connection.fast(n)
        held = [name for name in connection.begun if name not in at_once]
        assert len(held) <= in_work
        if held and chance.random() < 0.3:
            connection.answer(chance.choice(held))
    if drains:
        connection.pipeline.drain()
    while len(connection.pipeline):
        held = [name for name in connection.begun if name not in at_once]
        if connection.cycle is not None and (not held or chance.random() < 0.5):
            connection.finish_ordinary()
        else:
            connection.answer(chance.choice(held))

    assert connection.written == list(range(len(kinds)))
    answered_after_the_drain = connection.lasts
    assert answered_after_the_drain in ([], [len(kinds) - 1] if kinds else [])


def test_the_last_answer_that_is_due_says_close_when_draining() -> None:
    """G6: not the first one, or those behind it would be cut."""
    connection = Recorder()
    connection.fast(1)
    connection.fast(2)
    connection.pipeline.drain()
    connection.answer(1)
    connection.answer(2)
    assert (connection.written, connection.lasts) == ([1, 2], [2])


def test_a_drain_closes_only_behind_the_request_that_is_still_arriving() -> None:
    connection = Recorder()
    connection.fast(1)
    connection.pipeline.drain()
    connection.receiving = True
    connection.answer(1)
    assert connection.lasts == []
    connection.receiving = False
    connection.fast(2)
    connection.answer(2)
    assert connection.lasts == [2]


def test_a_drain_tells_the_ordinary_request_at_the_end_to_close() -> None:
    connection = Recorder()
    connection.fast(1)
    cycle = connection.ordinary(2)
    connection.pipeline.drain()
    assert cycle.keep_alive
    connection.answer(1)
    assert not cycle.keep_alive


def test_an_answer_for_a_connection_that_is_gone_is_dropped() -> None:
    """And what has not begun never begins."""
    connection = Recorder(in_work=1)
    connection.fast(1)
    connection.fast(2)
    cycle = connection.ordinary(3)
    assert connection.pipeline.drop() == [cycle]
    connection.answer(1)
    assert (connection.written, list(connection.begun)) == ([], [])


def test_a_request_answered_twice_is_answered_once() -> None:
    connection = Recorder()
    connection.fast(1)
    cycle = connection.begun[1]
    connection.answer(1)
    cycle.answered(HttpAnswer(202, (), b"9"))
    assert connection.written == [1]


def test_many_waiting_requests_answered_at_once_need_no_stack() -> None:
    """A read can hold thousands of small requests: they are walked, not recursed into."""
    connection = Recorder(in_work=1, at_once=frozenset(range(1, 10_000)))
    for n in range(10_000):
        connection.fast(n)
    assert connection.written == []
    connection.answer(0)
    assert connection.written == list(range(10_000))
