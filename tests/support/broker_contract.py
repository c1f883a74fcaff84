"""What every broker must do, as one suite that runs unchanged on each of them.

A broker's test module gives a ``harness`` fixture and ``class TestX(BrokerContract)``. Cases ask the
log's declared capabilities what to expect; none of them knows which broker it runs on.
"""

from __future__ import annotations

from contract_groups import GroupCases
from contract_places import PlaceCases
from contract_records import RecordCases
from contract_running import RunningCases


class BrokerContract(RecordCases, GroupCases, PlaceCases, RunningCases):
    """All cases. Each name is a claim."""
