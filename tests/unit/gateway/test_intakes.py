"""An intake that is open follows its secrets, its quota and its memory."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import publishers
from app.access.caller import QuotaExceeded
from app.gateway.intakes import ActiveIntake
from app.gateway.repeats import DUPLICATE
from app.intakes.arrival import IntakeRequest
from app.intakes.verification import Unverified
from app.model.intake import Intake
from publishers import KEY, SECRET, SignedRequest
from virtual_clock import VirtualClock


def opened(secrets: list[str], before: ActiveIntake | None = None, **settings: Any) -> ActiveIntake:
    """``secrets`` may be changed afterwards. ``before``: the intake that a reload replaces by this one."""
    intake = Intake.model_validate({"name": "in", "secret": secrets[0], **settings})
    memory = None if before is None else before.memory
    return ActiveIntake(intake, [lambda: secrets[0]], VirtualClock(), memory)


def is_verified(intake: ActiveIntake, sent: SignedRequest) -> bool:
    try:
        intake.demand_verified_request(IntakeRequest(sent.pairs, sent.body))
    except Unverified:
        return False
    return True


def test_a_secret_that_changes_is_taken_up_at_once() -> None:
    """``${file:...}`` is read again while the service runs."""
    secrets = [SECRET]
    intake = opened(secrets, preset="github")
    old, new = publishers.github({}), publishers.github({}, secret="new")
    assert (is_verified(intake, old), is_verified(intake, new)) == (True, False)
    secrets[0] = "new"
    assert (is_verified(intake, old), is_verified(intake, new)) == (False, True)


def test_a_secret_that_is_no_key_leaves_the_old_one(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is locked out by a torn file, and it is said once, without the text."""
    secrets = [KEY]
    intake = opened(secrets, preset="standard_webhooks")
    sent = publishers.standard({}, VirtualClock().now())
    secrets[0] = "torn-in-two"
    with caplog.at_level(logging.ERROR):
        assert is_verified(intake, sent)
        assert is_verified(intake, sent)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "intake in keeps its old secrets"
    ]
    assert "torn-in-two" not in caplog.text


def test_a_reload_that_lengthens_the_window_keeps_what_was_seen() -> None:
    before = opened([SECRET], preset="github")
    answer = DUPLICATE
    before.repeats.once(b"d", lambda _: answer, lambda _: None)
    after = opened([SECRET], before, preset="github", max_age="1h")
    assert after.repeats.window == 300, "nothing changes before it is in force"
    after.memory.apply(after.settings)
    assert len(after.repeats) == 1
    assert after.repeats.window == 3600


def test_a_reload_gives_nobody_the_burst_again() -> None:
    quota = {"quota": {"events": "1/s", "burst": 2}}
    before = opened([SECRET], preset="github", **quota)
    before.take_quota()
    before.take_quota()
    after = opened([SECRET], before, preset="github", **quota)
    after.memory.apply(after.settings)
    with pytest.raises(QuotaExceeded):
        after.take_quota()
