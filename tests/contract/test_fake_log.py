"""The log double of the worker's tests keeps the contract where the worker leans on it.

It has no bounds, no wall clock and no members that share partitions; those cases are taken out by
name, so that a new case of the suite is met by default.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from broker_contract import BrokerContract
from contract_tools import NumberedPlaces
from fake_log import CAPABILITIES, FakeLog


class FakeHarness(NumberedPlaces):
    capabilities = CAPABILITIES
    can_go_away = False

    def __init__(self) -> None:
        self._log = FakeLog()

    async def make_log(self, *, bounds: object = None) -> Any:
        return self._log

    async def fresh_topic(self, log: Any, partitions: int = 4) -> str:
        topic = f"t-{uuid4().hex[:12]}"
        await log.create_topic(topic, partitions)
        return topic

    async def take_away(self) -> None:
        raise AssertionError("there is no server to take away")

    async def bring_back(self) -> None:
        raise AssertionError("there is no server to bring back")

    async def close(self) -> None:
        return


@pytest.fixture
def harness() -> FakeHarness:
    return FakeHarness()


class TestFakeLog(BrokerContract):
    test_start_at_a_time_sees_what_was_stored_from_then_on = None
    test_a_position_is_found_by_time = None
    test_a_full_bound_is_answered_with_when_to_come_back = None
    test_a_record_above_the_bound_is_refused_and_harms_no_neighbour = None
    test_closing_and_cancelling_leave_no_task_behind = None
    test_members_share_partitions_and_a_third_moves_some = None
    test_closing_ends_a_poll_that_waits = None
    test_a_leaving_member_gives_its_partitions_back = None
    test_health_is_true_while_running_and_false_after_stop = None
    test_reading_outside_the_log_is_out_of_range = None
