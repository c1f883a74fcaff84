"""When an alert sends a message: the table problems found, message due."""

from __future__ import annotations

from itertools import count, pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.delivery.alert_plan import (
    AlertMessage,
    AlertRule,
    AlertState,
    AlertWatch,
    ProcessFindings,
    ReportedProblem,
    joined,
)
from app.model.operator_verdict import OperatorVerdict

EVERY, REMIND, LOOK = 900.0, 14_400.0, 10.0
RULE = AlertRule(frozenset({"endpoint-fails", "dead-letters", "broker-away"}), EVERY, REMIND)
BEGIN_MS = 1_700_000_000_000


def verdict(name: str = "endpoint-fails", subject: str = "subscription a", **more: str):
    given = {"severity": "error", "detail": "it fails", "cure": "mend it", "command": "do", **more}
    return OperatorVerdict(name=name, subject=subject, **given)


A, B = verdict(), verdict(subject="subscription b")
BROKER = verdict("broker-away", "broker main")
PAUSED = verdict("paused")


NEW = AlertState()


class Night:
    """An alert through time: looks every ten seconds, and messages that a channel takes."""

    def __init__(self, rule: AlertRule = RULE, state: AlertState = NEW) -> None:
        self.now = 0.0
        self.watch = AlertWatch(rule, state, self.now)
        self.messages: list[tuple[float, list[str], list[str]]] = []
        self.takes = True

    def look(self, *found: OperatorVerdict, seconds: float = LOOK) -> None:
        """Look every ten seconds for so long, and find the same at each look."""
        end = self.now + seconds
        while self.now < end:
            self.now += LOOK
            message = self.watch.look(found, self.now, self.now_ms)
            if message is not None:
                self._send(message)

    @property
    def now_ms(self) -> int:
        return BEGIN_MS + round(self.now * 1000)

    def _send(self, message: AlertMessage) -> None:
        if not self.takes:
            self.watch.failed("status 500")
            return
        self.watch.sent(message, self.now_ms)
        problems = [each.verdict.subject for each in message.problems]
        self.messages.append(
            (self.now, problems, [each.verdict.subject for each in message.recovered])
        )


def test_a_problem_is_reported_when_two_looks_have_found_it():
    night = Night()
    night.look(A)
    assert night.messages == []
    night.look(A)
    assert night.messages == [(20.0, ["subscription a"], [])]


def test_a_problem_of_one_look_is_never_reported():
    night = Night()
    night.look(A)
    night.look(seconds=120)
    assert night.messages == []


def test_a_lasting_problem_is_reported_once_and_then_reminded_of():
    night = Night()
    night.look(A, seconds=REMIND + 100)
    assert [at for at, *_ in night.messages] == [20.0, 20.0 + REMIND]


def test_without_remind_a_lasting_problem_is_reported_once():
    night = Night(AlertRule(RULE.when, EVERY, 0.0))
    night.look(A, seconds=2 * REMIND)
    assert len(night.messages) == 1


def test_what_comes_within_every_is_folded_into_the_next_message():
    night = Night()
    night.look(A, seconds=60)
    night.look(A, B, seconds=60)
    night.look(A, B, BROKER, seconds=EVERY)
    assert night.messages == [
        (20.0, ["subscription a"], []),
        (20.0 + EVERY, ["subscription a", "subscription b", "broker main"], []),
    ]


def test_one_of_two_problems_that_is_over_is_in_the_next_message():
    night = Night()
    night.look(A, B, seconds=60)
    night.look(B, seconds=EVERY)
    assert night.messages[1:] == [(20.0 + EVERY, ["subscription b"], ["subscription a"])]


def test_when_all_problems_are_over_this_is_reported_at_once():
    night = Night()
    night.look(A, B, seconds=60)
    night.look(seconds=60)
    assert night.messages[1:] == [(120.0, [], ["subscription a", "subscription b"])]


def test_a_problem_that_comes_and_goes_sends_at_most_two_messages_within_every():
    night = Night()
    for _ in range(10):
        night.look(A, seconds=40)
        night.look(seconds=80)
    assert [(at, bool(problems)) for at, problems, _ in night.messages] == [
        (20.0, True),
        (100.0, False),
        (980.0, True),
        (1060.0, False),
    ]


def test_a_gap_shorter_than_a_minute_is_no_recovery():
    night = Night()
    night.look(A, seconds=60)
    for _ in range(5):
        night.look(seconds=50)
        night.look(A)
    assert len(night.messages) == 1


def test_verdicts_that_the_alert_does_not_name_are_not_reported():
    night = Night()
    night.look(PAUSED, seconds=EVERY)
    assert night.messages == []


def test_a_message_that_the_channel_refuses_is_due_again_and_its_failures_are_counted():
    night = Night()
    night.takes = False
    night.look(A, seconds=60)
    assert (night.watch.state.failures, night.watch.state.error) == (5, "status 500")
    night.takes = True
    night.look(A)
    assert night.messages == [(70.0, ["subscription a"], [])]
    assert (night.watch.state.failures, night.watch.state.error) == (0, "")


def test_a_failure_is_over_when_its_message_is_no_longer_due():
    night = Night()
    night.takes = False
    night.look(A, seconds=60)
    night.look()
    assert (night.watch.state.failures, night.watch.state.error) == (0, "")


def test_the_next_sender_repeats_nothing_and_reports_the_recovery():
    first = Night()
    first.look(A, B, seconds=60)
    second = Night(state=first.watch.state)
    second.look(A, seconds=EVERY)
    second.look(seconds=60)
    assert [(problems, over) for _, problems, over in second.messages] == [
        (["subscription a"], ["subscription b"]),
        ([], ["subscription a"]),
    ]


def test_a_new_sender_takes_a_problem_that_it_does_not_see_yet_as_lasting():
    """A process that has just started has seen no failures of its own yet."""
    state = AlertState(BEGIN_MS, (ReportedProblem(A, BEGIN_MS),))
    night = Night(state=state)
    night.look(seconds=50)
    assert night.messages == []
    night.look(seconds=10)
    assert night.messages == [(60.0, [], [A.subject])]


def test_a_clock_that_is_set_back_delays_no_message():
    state = AlertState(BEGIN_MS + 3_600_000)
    night = Night(state=state)
    night.look(A, seconds=30)
    assert len(night.messages) == 1


def test_a_problem_keeps_the_time_at_which_it_was_first_found():
    night = Night()
    night.look(A, seconds=60)
    (problem,) = night.watch.state.reported
    assert problem.since_ms == BEGIN_MS + 10_000


def test_the_problems_of_several_processes_are_one_list_the_gravest_first():
    late = verdict("dead-letters", severity="warning")
    found = joined([ProcessFindings((late, A)), ProcessFindings((A, BROKER))])
    assert [(each.name, each.subject) for each in found] == [
        ("broker-away", "broker main"),
        ("endpoint-fails", "subscription a"),
        ("dead-letters", "subscription a"),
    ]


def test_letters_with_two_cures_are_one_problem_with_both_details():
    one, two = (verdict("dead-letters", detail=each) for each in ("foreign: 1", "status-415: 2"))
    (found,) = joined([ProcessFindings((one, two)), ProcessFindings((one, two))])
    assert found.detail == "foreign: 1; status-415: 2"


def test_a_producer_is_silent_only_if_no_process_hears_it():
    silent = verdict("silent-producer", "producer shop", severity="warning")
    alone = ProcessFindings((silent,))
    assert joined([alone, ProcessFindings()]) == [silent]
    assert joined([alone, ProcessFindings(active=("producer shop",))]) == []


@given(st.lists(st.sets(st.sampled_from([A, B, BROKER])), max_size=300), st.data())
def test_any_night_sends_few_messages_and_what_they_say_adds_up(nights, data):
    """Two messages within ``every`` at most; each recovery is of a problem that was reported."""
    night, numbers = Night(), count()
    for found in nights:
        night.takes = next(numbers) % 7 != 0 or data.draw(st.booleans())
        night.look(*found)
    reported: set[str] = set()
    told = [at for at, problems, _ in night.messages if problems]
    assert all(later - earlier >= EVERY for earlier, later in pairwise(told))
    for _, problems, over in night.messages:
        assert reported >= set(over)
        reported = (reported | set(problems)) - set(over)
    assert {each.verdict.subject for each in night.watch.state.reported} == reported
