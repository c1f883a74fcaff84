"""How often passwords may be tried from one address."""

from __future__ import annotations

from collections import OrderedDict

from app.access.quota import Allowance, Quota

TRIES = Quota(rate=1.0, burst=10)  # wrong passwords of one address
ADDRESSES = 10_000


class Guesses:
    """Tries that may turn out wrong, by address. Each is counted before it is judged, so that many at once are no way
    around the bound, and is given back once it has turned out right."""

    def __init__(self) -> None:
        self._tries: OrderedDict[str, Allowance] = OrderedDict()

    def count(self, address: str, now: float) -> float:
        """Count one try; return the seconds until it may be judged."""
        tries = self._tries.get(address)
        if tries is None:
            if len(self._tries) >= ADDRESSES:
                self._tries.popitem(last=False)
            tries = self._tries[address] = Allowance(TRIES)
        self._tries.move_to_end(address)  # the address that is silent for longest comes first
        tries.charge(1, now)
        return tries.debt(now)

    def give_back(self, address: str, now: float) -> None:
        """Forget one try: it was right, or was not judged."""
        if (tries := self._tries.get(address)) is not None:
            tries.charge(-1, now)
