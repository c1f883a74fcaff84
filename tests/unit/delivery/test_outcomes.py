from __future__ import annotations

import pytest

from app.delivery.outcomes import Fate, judge
from app.model.subscription import Retry

RETRIED = frozenset(Retry().statuses)

TABLE = [
    (200, Fate.DELIVERED, False),
    (201, Fate.DELIVERED, False),
    (202, Fate.DELIVERED, False),
    (204, Fate.DELIVERED, False),
    (299, Fate.DELIVERED, False),
    (300, Fate.DEAD_LETTER, False),
    (301, Fate.DEAD_LETTER, False),
    (304, Fate.DEAD_LETTER, False),
    (307, Fate.DEAD_LETTER, False),
    (400, Fate.DEAD_LETTER, False),
    (401, Fate.DEAD_LETTER, False),
    (403, Fate.DEAD_LETTER, False),
    (404, Fate.RETRY, True),
    (405, Fate.DEAD_LETTER, False),
    (408, Fate.RETRY, True),
    (409, Fate.RETRY, False),
    (410, Fate.DISABLE, False),
    (413, Fate.DEAD_LETTER, False),
    (415, Fate.DEAD_LETTER, False),
    (422, Fate.DEAD_LETTER, False),
    (425, Fate.RETRY, False),
    (429, Fate.RETRY, True),
    (499, Fate.DEAD_LETTER, False),
    (500, Fate.RETRY, True),
    (501, Fate.RETRY, True),
    (503, Fate.RETRY, True),
    (599, Fate.RETRY, True),
    (101, Fate.RETRY, True),
    (700, Fate.RETRY, True),
    (999, Fate.RETRY, True),
]


@pytest.mark.parametrize(("status", "fate", "endpoint_fault"), TABLE)
def test_a_status_has_its_row(status, fate, endpoint_fault):
    """Rule 7 of delivery and W3 to W7, line by line."""
    outcome = judge(status, "", RETRIED)
    assert (outcome.fate, outcome.endpoint_fault) == (fate, endpoint_fault)
    assert outcome.code == f"status-{status}"
    assert outcome.label == f"{status // 100}xx"
    assert outcome.reached


@pytest.mark.parametrize(
    "fault", ["timeout", "dns", "connect", "tls", "reset", "blocked-address", "something-new"]
)
def test_a_fault_of_the_way_is_tried_again_and_held_against_the_endpoint(fault):
    """Rule 7: time-outs and network faults always are."""
    outcome = judge(None, fault, frozenset())
    assert (outcome.fate, outcome.code, outcome.endpoint_fault) == (Fate.RETRY, fault, True)


def test_a_reply_that_was_not_stored_is_tried_again_and_held_against_nobody():
    """Rule 2: the webhook did its part; the event is finished when the reply is stored."""
    outcome = judge(None, "reply", frozenset())
    assert (outcome.fate, outcome.code, outcome.endpoint_fault) == (Fate.RETRY, "reply", False)
    assert outcome.reached


def test_a_request_that_cannot_be_sent_is_never_tried_again():
    """Reliability 4.6: else a header with a line break is a retry storm."""
    outcome = judge(None, "bad-request", RETRIED)
    assert (outcome.fate, outcome.reached) == (Fate.DEAD_LETTER, False)


@pytest.mark.parametrize("status", [400, 410, 415])
def test_a_subscription_may_list_more_statuses(status):
    assert judge(status, "", RETRIED | {status}).fate is Fate.RETRY


@pytest.mark.parametrize(("status", "fate"), [(429, Fate.DEAD_LETTER), (503, Fate.RETRY)])
def test_a_subscription_may_list_fewer_but_5xx_stays(status, fate):
    assert judge(status, "", frozenset()).fate is fate
