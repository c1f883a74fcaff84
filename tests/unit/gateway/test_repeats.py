"""What comes again within the window is published once, and never lost."""

from __future__ import annotations

import pytest

from app.gateway.answers import ACCEPTED, HttpAnswer, busy
from app.gateway.repeats import DUPLICATE, Done, IdempotencyWindow
from app.intakes.compiled import RepeatedBody

FAILED = busy("no")
D, E = b"d" * 32, b"e" * 32


class Bench:
    """Publishes when the test says so."""

    def __init__(self, **bounds: int) -> None:
        self.now = 0.0
        self.repeats = IdempotencyWindow(300, lambda: self.now, **bounds)
        self.due: list[Done] = []
        self.answers: list[HttpAnswer] = []

    def post(self, digest: bytes = D) -> HttpAnswer | None:
        return self.repeats.once(digest, self._begin, self.answers.append)

    def _begin(self, done: Done) -> HttpAnswer | None:
        self.due.append(done)
        return None

    def at_once(self, answer: HttpAnswer, digest: bytes = D) -> HttpAnswer | None:
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


@pytest.mark.parametrize("answer", [FAILED, HttpAnswer(400), HttpAnswer(429), HttpAnswer(500)])
def test_what_failed_or_is_unknown_is_not_remembered(bench: Bench, answer: HttpAnswer) -> None:
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

    def begin(done: Done) -> HttpAnswer | None:
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


def test_the_bytes_of_those_that_wait_are_bounded() -> None:
    """A thousand bodies of 25 MiB would be 25 GB. One that found no room is taken when there is room again."""
    bench = Bench(most_bytes=100)

    def post(size: int) -> HttpAnswer | None:
        return bench.repeats.once(D, bench._begin, bench.answers.append, size=lambda: size)

    assert [post(60), post(60), post(40)] == [None] * 3
    assert bench.repeats.waiting_bytes == 100
    refused = post(1)
    assert refused is not None
    assert refused.status == 503
    bench.due[0](FAILED)
    assert bench.repeats.waiting_bytes == 40
    bench.due[1](ACCEPTED)
    assert (bench.repeats.waiting, bench.repeats.waiting_bytes) == (0, 0)


def test_a_group_has_eight_identities_in_the_window() -> None:
    bench = Bench()

    def post(number: int) -> HttpAnswer | None:
        digest = b"%032d" % number
        return bench.repeats.once(digest, lambda _: ACCEPTED, bench.answers.append, group=D)

    for number in range(8):
        assert post(number) is ACCEPTED
        bench.now += 10
    with pytest.raises(RepeatedBody) as refused:
        post(8)
    assert (refused.value.status, refused.value.wait) == (429, 220)
    assert post(0) is DUPLICATE
    assert bench.at_once(ACCEPTED, E) is ACCEPTED
    bench.now = 300
    assert post(8) is ACCEPTED
    assert post(1) is DUPLICATE
    assert len(bench.repeats) == 9


def test_what_failed_takes_no_place_in_its_group() -> None:
    bench = Bench()
    for number in range(100):
        digest = b"%032d" % number
        assert bench.repeats.once(digest, lambda _: FAILED, bench.answers.append, group=D) is FAILED
    assert len(bench.repeats) == 0


def test_groups_count_by_their_identities() -> None:
    """The bound is of identities, and a whole group is forgotten at once: the one that was stored into first."""
    bench = Bench(most=10)
    for number in range(1000):
        group = b"%032d" % (number // 5)
        bench.repeats.once(b"%032d" % number, lambda _: ACCEPTED, bench.answers.append, group=group)
        assert len(bench.repeats) <= 10
    bench.now = 300
    bench.at_once(ACCEPTED)
    assert len(bench.repeats) == 1


def test_another_window_holds_for_what_is_remembered(bench: Bench) -> None:
    bench.at_once(ACCEPTED)
    bench.now = 20
    bench.repeats.change_window(10)
    assert len(bench.repeats) == 0
    bench.at_once(ACCEPTED)
    bench.repeats.change_window(0)
    assert len(bench.repeats) == 0


def test_the_first_repeat_is_told_from_later_ones(bench: Bench) -> None:
    assert not bench.repeats.is_first_repeat(D, D)
    bench.at_once(ACCEPTED)
    assert [bench.repeats.is_first_repeat(D, D) for _ in range(3)] == [True, False, False]


def test_different_requests_are_nothing_to_each_other(bench: Bench) -> None:
    assert bench.post(D) is None
    assert bench.post(E) is None
    assert len(bench.due) == 2
