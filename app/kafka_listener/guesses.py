"""Limit how often passwords may be tried from one address."""

from __future__ import annotations

from collections import OrderedDict

from app.access.quota import Allowance, Quota

ATTEMPT_QUOTA = Quota(rate=1.0, burst=10)  # wrong passwords of one address
MAX_ADDRESSES = 10_000


class LoginAttempts:
    """Counts the login attempts of each address.

    An attempt is counted before the password is checked, so that concurrent attempts cannot exceed
    the limit. It is given back if the password was right.
    """

    def __init__(self) -> None:
        self._allowances: OrderedDict[str, Allowance] = OrderedDict()

    def count(self, address: str, now: float) -> float:
        """Count one attempt. Return the seconds until its password may be checked."""
        allowance = self._allowances.get(address)
        if allowance is None:
            if len(self._allowances) >= MAX_ADDRESSES:
                self._allowances.popitem(last=False)
            allowance = self._allowances[address] = Allowance(ATTEMPT_QUOTA)
        self._allowances.move_to_end(address)  # the address that was idle for longest comes first
        allowance.charge(1, now)
        return allowance.debt(now)

    def give_back(self, address: str, now: float) -> None:
        """Remove one attempt, because its password was right or was not checked."""
        if (allowance := self._allowances.get(address)) is not None:
            allowance.charge(-1, now)
