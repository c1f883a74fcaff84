"""The contract of every broker as one test suite, which runs unchanged on each broker.

A broker's test module has a ``harness`` fixture and ``class TestX(BrokerContract)``. Cases read the
declared capabilities of the log to know what to expect, and never ask which broker it is.
"""

from __future__ import annotations

from contract_groups import GroupCases
from contract_positions import PlaceCases
from contract_records import RecordCases
from contract_running import RunningCases


class BrokerContract(RecordCases, GroupCases, PlaceCases, RunningCases):
    """All test cases of the contract of brokers. The name of each case is a claim about the
    broker.
    """
