"""A bound of the process, shared fairly between its subscriptions: attempts in flight, bytes held.

Half of it is divided evenly: that is each one's *own* part, always there for it, whatever the others
do. The other half, and what nobody uses of the own parts beyond that, is lent to the first that asks.
So one target that hangs takes at most half of all from the others, and the bound holds at any
moment::

    taken by one beyond its own part   ≤   bound - taken by all - own parts not used by the others

One unit is always granted where none is held: an event larger than a part must be delivered too.
All steps are O(1) but for ``join`` and ``leave``, which are O(members).
"""

from __future__ import annotations

from collections.abc import Hashable


class FairShares:
    """``bound``: units for all together."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._taken: dict[Hashable, int] = {}
        self._total = 0
        self._unused = 0  # of the own parts, over all members
        self.own = bound  # the part of each member

    @property
    def total(self) -> int:
        return self._total

    def rebound(self, bound: int) -> None:
        """What is taken beyond it is given back in its own time."""
        self._bound = bound
        self._share_out()

    def join(self, member: Hashable) -> None:
        self._taken.setdefault(member, 0)
        self._share_out()

    def leave(self, member: Hashable) -> None:
        self._total -= self._taken.pop(member, 0)
        self._share_out()

    def may(self, member: Hashable, units: int = 1) -> bool:
        """Whether ``member`` may take so many now."""
        taken = self._taken.get(member)
        if taken is None:
            return False
        own = self.own
        if not taken or taken + units <= own:
            return True
        others = self._unused - (own - taken if taken < own else 0)
        return self._total + units + others <= self._bound

    def take(self, member: Hashable, units: int = 1) -> None:
        taken = self._taken.get(member)
        if taken is None:  # it left already
            return
        own, after = self.own, taken + units
        self._taken[member] = after
        self._total += units
        if taken < own and after < own:  # as nearly always
            self._unused -= units
        else:
            self._unused += max(0, own - after) - max(0, own - taken)

    def _share_out(self) -> None:
        members = len(self._taken)
        self.own = max(1, self._bound // (2 * members)) if members else self._bound
        self._unused = sum(max(0, self.own - taken) for taken in self._taken.values())
