"""Share a bound of the process fairly between its subscriptions: attempts in flight, or held bytes.

Half of the bound is divided evenly. This *own* part of each subscription is always available to it. The other
half, and unused units, go to the first subscription that asks. So a slow target can take at most half of the
bound from the other subscriptions, and the bound holds at any moment::

    taken by one beyond its own part   ≤   bound - taken by all - own parts not used by the others

A subscription that holds nothing may always take one unit, because an event that is larger than the own part
must be delivered too. All steps are O(1), except ``join`` and ``leave``, whose time grows with the members that
hold units."""

from __future__ import annotations

from collections.abc import Hashable


class FairShares:
    """Units of one bound, shared fairly between members. ``bound`` is the number of units of all members together."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._taken: dict[Hashable, int] = {}
        self._holding: set[Hashable] = set()  # members that have taken units
        self._total = 0
        self._unused = 0  # units of the own parts of all members
        self.own = bound  # units of the own part of each member

    @property
    def total(self) -> int:
        """Return the units that all members have taken."""
        return self._total

    def rebound(self, bound: int) -> None:
        """Set a new bound. If more units are taken than the new bound permits, they stay taken until the
        members give them back."""
        self._bound = bound
        self._share_out()

    def join(self, member: Hashable) -> None:
        """Add a member, which makes the own part of each member smaller."""
        self._taken.setdefault(member, 0)
        self._share_out()

    def leave(self, member: Hashable) -> None:
        """Remove a member and give back its units."""
        self._total -= self._taken.pop(member, 0)
        self._holding.discard(member)
        self._share_out()

    def may(self, member: Hashable, units: int = 1) -> bool:
        """Return True if the member may take this number of units now."""
        taken = self._taken.get(member)
        if taken is None:
            return False
        own = self.own
        if not taken or taken + units <= own:
            return True
        others = self._unused - (own - taken if taken < own else 0)
        return self._total + units + others <= self._bound

    def take(self, member: Hashable, units: int = 1) -> None:
        """Count units that the member takes. A negative number counts units that it gives back."""
        taken = self._taken.get(member)
        if taken is None:  # the member has left
            return
        own, after = self.own, taken + units
        self._taken[member] = after
        self._total += units
        if not taken:
            self._holding.add(member)
        elif not after:
            self._holding.discard(member)
        if taken < own and after < own:  # the usual case
            self._unused -= units
        else:
            self._unused += max(0, own - after) - max(0, own - taken)

    def _share_out(self) -> None:
        members = len(self._taken)
        self.own = max(1, self._bound // (2 * members)) if members else self._bound
        held = sum(min(self.own, self._taken[member]) for member in self._holding)
        self._unused = self.own * members - held
