"""The checker convicts a history of the fault that was planted in it, and of no other one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from example_counts import examples
from proof import checker
from proof.checker_verdicts import VERDICTS
from proof.clean_history import BREACHES, TERMS, CleanHistory
from proof.history import (
    BadHistory,
    Delivery,
    Fault,
    HistoryWriter,
    Record,
    Request,
    Terms,
    as_line,
    from_line,
)
from proof.small_history import BILLING, delivery, event, faults, judged, request

HERE = Path(__file__).parent
OWN = {
    "history", "checker", "checker_tables", "checker_faults", "checker_flight", "checker_order", "checker_owners",
    "checker_repeats", "checker_rewinds", "checker_verdicts",
}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    return tmp_path / "history.jsonl"


def written(file: Path, *records: Record) -> Path:
    writer = HistoryWriter(file)
    for record in (*records, BILLING):
        writer.write(record)
    writer.close()
    return file


histories = st.randoms(use_true_random=False).map(lambda random: CleanHistory(random).make())


few = examples(8)


@few
@given(histories)
def test_a_history_that_keeps_every_promise_is_clean(history):
    """The convictions below mean something only if this one is silent."""
    judgement = judged(*history.records, terms=TERMS)
    assert judgement.faults == {}
    assert judgement.code == checker.CLEAN


@pytest.mark.parametrize("name", VERDICTS)
@few
@given(history=histories)
def test_one_breach_is_convicted_as_what_it_is_and_nothing_else(name, history):
    """Each verdict of issue 45 has a breach of its own."""
    assume(BREACHES[name](history))
    judgement = judged(*history.records, terms=TERMS)
    assert set(judgement.faults) == {name}
    assert judgement.code == checker.CONVICTED


def test_a_witness_has_the_lines_that_prove_it(file):
    lines = (request(1, 0), request(2, 1), delivery(2, at=2), delivery(1, at=3))
    judgement = checker.judge([written(file, *lines)])
    assert judgement.witnesses == {"out of order": [(1, 2, 3, 4)]}
    shown = checker.report(judgement, [file])
    assert all(line in shown for line in file.read_text().splitlines()[:4])


def test_an_event_waits_also_for_one_that_was_attempted_and_failed():
    """Later events of the key wait (guarantees, Order per key)."""
    lines = (request(1, 0), request(2, 1), delivery(1, at=2, status=500))
    assert faults(*lines, delivery(2, at=3), delivery(1, at=4)) == {"out of order": 1}


def test_events_of_one_delivery_are_in_order_of_the_batch():
    lines = (request(1, 0), request(2, 1))
    assert faults(*lines, delivery(1, 2, at=2)) == {}
    assert faults(*lines, delivery(2, 1, at=2)) == {"out of order": 1}


def test_an_earlier_event_of_another_delivery_is_not_hidden_by_the_batch():
    lines = (request(1, 0), request(2, 1), request(3, 2))
    arrived = (delivery(2, 3, at=5), delivery(1, at=4.95))
    assert faults(*lines, *arrived) == {"out of order": 2, "two at once": 1}


def test_events_that_were_sent_at_once_have_no_order():
    assert faults(request(1, 0), request(2, 0.05), delivery(2, at=1), delivery(1, at=2)) == {}


def test_a_spool_orders_the_events_of_one_gateway_alone():
    other = Request("gateway-2", 1, 1.1, 202, (event(2),))
    lines = (request(1, 0), other, delivery(2, at=2), delivery(1, at=3))
    assert faults(*lines) == {"out of order": 1}
    assert faults(*lines, terms=Terms({"billing": "events"}, per_gateway=True)) == {}


@pytest.mark.parametrize(("status", "fault"), [(422, {"invented": 1}), (503, {}), (None, {})])
def test_only_what_was_refused_for_good_must_not_arrive(status, fault):
    """422 promises that no target ever stores the event; 503 leaves it open (guarantees)."""
    clean = (request(1, 0), delivery(1, at=1))
    assert faults(*clean, request(2, 2, status), delivery(2, at=3)) == fault


def test_an_event_that_arrives_before_it_was_sent_is_invented():
    assert faults(request(1, 1), delivery(1, at=0)) == {"invented": 1}


def test_an_event_of_another_topic_is_invented():
    elsewhere = request(2, 0, topic="other")
    assert faults(request(1, 0), elsewhere, delivery(1, at=1), delivery(2, at=2)) == {"invented": 1}


def test_a_partial_answer_acknowledges_what_it_states_as_stored():
    events = (event(1, stored=True), event(2, stored=False))
    assert faults(Request("gateway-1", 0, 1, 503, events)) == {"lost": 1}


def test_a_token_of_a_queue_acknowledges_once():
    handed = Delivery("billing", "consumer", 1, 2, 204, (event(1, receipt="token"),))
    again = Delivery("billing", "consumer", 3, 4, 204, (event(1, receipt="token"),))
    terms = Terms({"billing": "events"}, timeout=0.5)
    assert faults(request(1, 0), handed, again, terms=terms) == {"one receipt": 1}


REPEATED = (request(1, 0), delivery(1, at=1), delivery(1, at=4))


@pytest.mark.parametrize(
    ("more", "terms", "cause"),
    [
        ((Fault("kill", "worker-1", 1.5, 1.5),), {}, "fault"),
        ((Fault("kill", "worker-1", 2.5, 2.5),), {}, None),  # long after the commit
        ((Fault("kill", "worker-1", 4.5, 4.5),), {}, None),  # after the repeat
        ((request(1, 0.2, None),), {}, "sender"),
        ((request(1, 0.2, 422),), {}, None),
        ((), {"timeout": 0.05}, "timeout"),
        ((Fault("kill", "kafka-1", 0, 0.01),), {"settle": 0, "spool": True}, "spool"),
        ((), {}, None),
    ],
)
def test_a_repeat_needs_a_cause(more, terms, cause):
    """May come twice (guarantees): a fault within the time of a commit, a sender that repeats, a spool."""
    judgement = judged(*REPEATED, *more, terms=Terms({"billing": "events"}, **terms))
    assert judgement.faults == ({} if cause else {"repeated": 1})
    assert judgement.repeats == ({cause: 1} if cause else {})


def test_an_isolated_worker_begins_no_attempt_after_the_lease():
    cut = Fault("cut from the broker", "worker-1", 2, 60, isolates=True)
    lines = (request(1, 0), cut, delivery(1, at=10, status=500, worker="worker-2"))
    done = delivery(1, at=30, worker="worker-2")
    assert faults(*lines, delivery(1, at=7.5, status=500), done) == {}
    for at in (10.5, 14, 29, 34.9):
        assert faults(*lines, done, delivery(1, at=at, status=500)) == {"two owners": 1}
    assert faults(*lines, done, delivery(1, at=61, status=500)) == {}


def test_a_history_without_an_event_that_must_be_delivered_proves_nothing():
    assert judged(request(1, 0, 503)).code == checker.NOT_JUDGED
    elsewhere = Terms({"billing": "a topic without events"})
    assert judged(request(1, 0), terms=elsewhere).code == checker.NOT_JUDGED


def test_a_history_needs_its_terms(file):
    file.write_text("")
    with pytest.raises(BadHistory, match="terms"):
        checker.judge([file])


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"request"}',
        '{"kind":"request","gateway":"g","start":0,"end":1,"events":[{"id":"1","key":"k","hash":"h"}]}',
        '{"kind":"request","gateway":"g","start":0,"end":1,"events":["idk"]}',
    ],
)
def test_a_line_that_is_no_record_is_named(file, line):
    file.write_text(f"{line}\n")
    with pytest.raises(BadHistory, match="line 1"):
        checker.judge([file])


def test_a_last_line_that_was_cut_off_is_left_out(file):
    with written(file, request(1, 0), delivery(1, at=1)).open("a") as more:
        more.write('{"kind":"del')
    assert checker.judge([file]).code == checker.CLEAN


def test_the_program_shares_no_code_with_the_service(file):
    """It imports the standard library and its own modules alone."""
    for name in OWN:
        tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
        nodes = [each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom)]
        modules = {
            (each.module if isinstance(each, ast.ImportFrom) else each.names[0].name) or ""
            for each in nodes
        }
        foreign = {each for each in modules if each.removeprefix("proof.") not in OWN}
        assert {each.partition(".")[0] for each in foreign} <= sys.stdlib_module_names
    written(file, request(1, 0))
    ended = subprocess.run(
        [sys.executable, "-m", "proof.checker", str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent,
    )
    assert ended.returncode == checker.CONVICTED
    assert "CONVICTED: lost: 1" in ended.stdout


@few
@given(histories)
def test_a_record_is_read_as_it_was_written(history):
    for record in history.records:
        assert from_line(as_line(record)) == record
