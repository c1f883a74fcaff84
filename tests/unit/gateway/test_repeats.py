"""What comes again within the window is published once, and never lost."""

from __future__ import annotations

import pytest

from app.gateway.answers import ACCEPTED, Answer, busy
from app.gateway.repeats import DUPLICATE, Done, Repeats

FAILED = busy("no")
D, E = b"d" * 32, b"e" * 32


class Bench:
    """Publishes when the test says so."""

    def __init__(self, **bounds: int) -> None:
        self.now = 0.0
        self.repeats = Repeats(300, lambda: self.now, **bounds)
        self.due: list[Done] = []
        self.answers: list[Answer] = []

    def post(self, digest: bytes = D) -> Answer | None:
        return self.repeats.once(digest, self._begin, self.answers.append)

    def _begin(self, done: Done) -> Answer | None:
        self.due.append(done)
        return None

    def at_once(self, answer: Answer, digest: bytes = D) -> Answer | None:
        return self.repeats.once(digest, lambda _: answer, self.answers.append)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_repeat_of_what_was_stored_is_a_duplicate(bench: Bench) -> None:
    assert bench.post() is None
    bench.due[0](ACCEPTED)
    assert bench.answers == [ACCEPTED]
    assert bench.post() is DUPLICATE
    assert len(bench.due) == 1


@pytest.mark.parametrize("answer", [FAILED, Answer(400), Answer(429), Answer(500)])
def test_what_failed_or_is_unknown_is_not_remembered(bench: Bench, answer: Answer) -> None:
    """The sender repeats it, and it is published then."""
    assert bench.at_once(answer) is answer
    assert bench.at_once(ACCEPTED) is ACCEPTED
    assert bench.post() is DUPLICATE


def test_repeats_wait_for_the_fate_of_the_first(bench: Bench) -> None:
    assert [bench.post() for _ in range(3)] == [None] * 3
    assert (len(bench.due), bench.repeats.waiting) == (1, 2)
    bench.due[0](ACCEPTED)
    assert bench.answers == [ACCEPTED, DUPLICATE, DUPLICATE]
    assert bench.repeats.waiting == 0


def test_when_the_first_fails_the_next_is_published(bench: Bench) -> None:
    for _ in range(4):
        bench.post()
    bench.due[0](FAILED)
    assert (bench.answers, len(bench.due)) == ([FAILED], 2)
    bench.due[1](FAILED)
    assert len(bench.due) == 3
    bench.due[2](ACCEPTED)
    assert bench.answers == [FAILED, FAILED, ACCEPTED, DUPLICATE]
    assert bench.post() is DUPLICATE
    assert bench.repeats.waiting == 0


def test_when_all_fail_nothing_is_left_behind(bench: Bench) -> None:
    answers = iter([None, FAILED, FAILED])
    first: list[Done] = []

    def begin(done: Done) -> Answer | None:
        first.append(done)
        return next(answers)

    for _ in range(3):
        bench.repeats.once(D, begin, bench.answers.append)
    first[0](FAILED)
    assert bench.answers == [FAILED] * 3
    assert (bench.repeats.waiting, len(bench.repeats)) == (0, 0)
    assert bench.at_once(ACCEPTED) is ACCEPTED


def test_after_the_window_it_is_another_event(bench: Bench) -> None:
    bench.at_once(ACCEPTED)
    bench.now = 299.9
    assert bench.post() is DUPLICATE
    bench.now = 300.0
    assert bench.at_once(ACCEPTED) is ACCEPTED


def test_what_is_remembered_is_bounded() -> None:
    bench = Bench(most=3)
    for number in range(1000):
        bench.at_once(ACCEPTED, b"%032d" % number)
        assert len(bench.repeats) <= 4
    assert bench.post(b"%032d" % 999) is DUPLICATE
    assert bench.at_once(ACCEPTED, b"%032d" % 0) is ACCEPTED


def test_those_that_wait_are_bounded() -> None:
    """A bound of ours that is full is 503."""
    bench = Bench(most_waiting=2)
    for _ in range(3):
        bench.post()
    answer = bench.post()
    assert answer is not None
    assert answer.status == 503
    bench.due[0](ACCEPTED)
    assert bench.post() is DUPLICATE


def test_different_requests_are_nothing_to_each_other(bench: Bench) -> None:
    assert bench.post(D) is None
    assert bench.post(E) is None
    assert len(bench.due) == 2
