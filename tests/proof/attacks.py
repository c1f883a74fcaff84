"""The attacks that any cluster meets: each method draws the steps of a scenario from dice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from proof.faults import WAYS, Step
from proof.names import MODES, NAME
from proof.scenario import NOTHING_LOST, WARM, Scenario, spans
from proof.service_hosts import GATEWAYS, SUBSCRIPTIONS, TARGET_PORT, WORKERS

Draw = Callable[[Random], list[Step]]
DRIFTS = (-3600, -60, -20, 20, 60, 3600)  # seconds by which a wall clock is ahead


def by_name(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change that gives the target a name, for which workers ask DNS."""
    changed = [
        {**each, "sink": f"http://{NAME}:{TARGET_PORT}/{each['id']}"}
        for each in settings["subscriptions"]
    ]
    return {"subscriptions": changed, "webhooks": {"allow_private": [NAME, "10.0.0.0/8"]}}


class Attacks:
    """Attacks on a cluster.

    Args:
        cluster: The kind of the cluster, with which the names of its scenarios begin.
        brokers: The hosts that gateways and workers connect to.
        pattern: What a step calls all hosts of the cluster, such as ``kafka*``.
        leader: The attack of ``leader_cut_off`` in words.
        more: Other hosts of the cluster, such as those that keep the events of the brokers.
    """

    def __init__(
        self,
        cluster: str,
        brokers: Sequence[str],
        pattern: str,
        leader: str = "The leader is cut from its followers.",
        more: Sequence[str] = (),
    ) -> None:
        self._cluster, self._brokers, self._pattern = cluster, brokers, pattern
        self._leader, self._more = leader, more

    def leader_cut_off(self, dice: Random) -> list[Step]:
        """The broker that leads does not reach the other brokers. Gateways and workers reach all of them."""
        drawn = spans(dice, 2, (12, 20), (12, 16))
        return [Step("leader", "cut from", *span, self._pattern) for span in drawn]

    def minority(self, dice: Random) -> list[Step]:
        """A broker, a gateway and a worker are on the small side of a cut. The store is on the other side."""
        steps = []
        for begin, end in spans(dice, 2, (12, 20), (12, 16)):
            side = f"{dice.choice(self._brokers)} {dice.choice(GATEWAYS)} {dice.choice(WORKERS)}"
            steps.append(Step(side, "cut from", begin, end, "rest"))
        return steps

    def one_way(self, dice: Random) -> list[Step]:
        """Packets are lost in one direction alone, at a broker, at a worker and at a gateway, and once more."""
        steps = []
        roles = [self._brokers, WORKERS, GATEWAYS]
        drawn = dice.sample([*roles, dice.choice(roles)], 4)
        for role, (begin, end) in zip(drawn, spans(dice, 4, (8, 14), (5, 8)), strict=True):
            host = dice.choice(role)
            ours = host not in self._brokers
            others = self._pattern if ours else dice.choice((self._pattern, "worker* gateway*"))
            steps.append(Step(host, dice.choice(("deaf to", "mute to")), begin, end, others))
        return steps

    def flapping(self, dice: Random) -> list[Step]:
        """The network of a broker, and then of a worker, fails and returns every two seconds."""
        steps = []
        at = WARM
        for host in (dice.choice(self._brokers), dice.choice(WORKERS)):
            for _ in range(8):
                lasts = round(dice.uniform(0.7, 1.5), 2)
                steps.append(Step(host, "cut from", at, at + lasts, "rest"))
                at += 2
            at += 8
        return steps

    def rolling_restart(self, dice: Random) -> list[Step]:
        """Each broker is stopped in order and started again, one after another, in a random order."""
        order = dice.sample(self._brokers, len(self._brokers))
        spread = spans(dice, len(order), (5, 8), (16, 20))
        return [Step(host, "restarted", *span) for host, span in zip(order, spread, strict=True)]

    def killed(self, dice: Random) -> list[Step]:
        """Brokers and workers are killed, and start again seconds later."""
        steps = []
        for begin, end in spans(dice, 3, (4, 8), (12, 16)):
            steps.append(Step(dice.choice(self._brokers), "killed", begin, end))
            steps.append(Step(dice.choice(WORKERS), "killed", begin + dice.uniform(0, 6), end + 7))
        return steps

    def one_away(self, dice: Random) -> list[Step]:
        """Each broker is away for long, killed or cut off, one after another. The others go on."""
        steps, at = [], WARM
        for host in dice.sample(self._brokers, len(self._brokers)):
            end = at + dice.uniform(24, 30)
            fault, value = dice.choice((("killed", ""), ("cut from", "rest")))
            steps.append(Step(host, fault, at, end, value))
            at = end + 20
        return steps

    def worker_cut_from_log(self, dice: Random) -> list[Step]:
        """A worker loses the brokers and still reaches the target, for longer than its lease. Keys of a subscription wait until
        the lease is over, so that the worker has something to deliver."""
        steps = []
        for begin, end in spans(dice, 3, (22, 28), (10, 14)):
            worker, way = dice.choice(WORKERS), dice.choice(WAYS)
            steps.append(Step("target", "answers", begin - 3, begin + 18, "moody refuse"))
            steps.append(Step(worker, way, begin, end, self._pattern))
        return steps

    def everything(self, minutes: float) -> Draw:
        """Return a drawer of faults at all hosts for so many minutes.

        Every fault of a deck comes once before one comes again.
        """

        def draw(dice: Random) -> list[Step]:
            steps, at, last = [], WARM, minutes * 60
            deck: list[tuple[str, str, str]] = []
            while at < last:
                deck = deck or self._deck(dice)
                host, fault, value = deck.pop()
                end = round(at + dice.uniform(3, 15), 1)
                steps.append(Step(host, fault, round(at, 1), end, value))
                at = end + dice.uniform(1, 6) if dice.random() < 0.7 else at + 2
            return _apart(steps)

        return draw

    def _deck(self, dice: Random) -> list[tuple[str, str, str]]:
        """Return faults in a random order: a host, the name of a fault and its value."""
        programs = [
            (self._brokers, ("killed", "paused", "restarted", dice.choice(WAYS))),
            (self._more, ("killed", dice.choice(WAYS))),
            (WORKERS, ("killed", "paused", dice.choice(WAYS))),
            (GATEWAYS, (dice.choice(("killed", "restarted")), dice.choice(WAYS))),
            (("store",), (dice.choice(("killed", "paused", "restarted")), dice.choice(WAYS))),
        ]
        deck = [
            (dice.choice(hosts), fault, self._others(dice, hosts) if fault in WAYS else "")
            for hosts, faults in programs
            for fault in faults
            if hosts
        ]
        deck += [*self._at_the_target(dice), *self._at_lines(dice)]
        deck += [(dice.choice(disks), "disk full", "") for disks in (self._disks,) if disks]
        dice.shuffle(deck)
        return deck

    def _others(self, dice: Random, hosts: Sequence[str]) -> str:
        """Return from whom hosts are cut. The store does not speak with the brokers."""
        return "rest" if "store" in hosts else dice.choice(("rest", self._pattern))

    def _at_the_target(self, dice: Random) -> list[tuple[str, str, str]]:
        modes = ("silent", "close", "refuse", "refuse-all")
        subscriptions = dice.sample(SUBSCRIPTIONS * 2, len(modes))
        answers = [" ".join(pair) for pair in zip(subscriptions, modes, strict=True)]
        return [
            *(("target", "answers", each) for each in answers),
            ("target", "DNS", dice.choice(MODES[1:])),
            ("target", "milliseconds late", str(dice.choice((50, 100, 500)))),
        ]

    def _at_lines(self, dice: Random) -> list[tuple[str, str, str]]:
        """Return faults of lines and clocks, and the pause of a subscription."""
        ours = (*WORKERS, *GATEWAYS)
        return [
            (dice.choice(WORKERS), "packets lost", "target 100"),
            (dice.choice(ours), "packets lost", f"{dice.choice(self._brokers)} 100"),
            (dice.choice(ours), "kilobits a second", "512"),
            (dice.choice(ours), "clock", str(dice.choice(DRIFTS))),
            (WORKERS[0], "subscription paused", dice.choice(SUBSCRIPTIONS)),
        ]

    @property
    def _disks(self) -> Sequence[str]:
        """The hosts whose disk can be full."""
        return [each for each in self._more if each.startswith("bookie")]

    def scenarios(self) -> list[Scenario]:
        """Return the scenarios of these attacks."""
        rows: Sequence[tuple[str, str, Draw]] = (
            ("leader", self._leader, self.leader_cut_off),
            ("minority", "A cut leaves a broker, a gateway and a worker alone.", self.minority),
            ("one-way", "Packets arrive in one direction alone.", self.one_way),
            ("flapping", "A network fails and returns every 2 s.", self.flapping),
            ("rolling", "All brokers restart, one after another.", self.rolling_restart),
            ("away", "Each broker is away for half a minute.", self.one_away),
            ("killed", "Brokers and workers are killed.", self.killed),
            (
                "lease",
                "A worker is cut from the brokers, not from the target.",
                self.worker_cut_from_log,
            ),
            ("random", "Faults of all kinds at random, for five minutes.", self.everything(5)),
        )
        return [
            Scenario(
                f"{self._cluster}-{name}",
                self._cluster,
                _CLAIMS.get(name, NOTHING_LOST),
                attack,
                draw,
                **_MORE.get(name, {}),
            )
            for name, attack, draw in rows
        ]


_MORE: Mapping[str, Mapping[str, Any]] = {
    "lease": {"signs": ("moved", "repeated")},
    "random": {"changes": by_name, "clocks": True},
}
_CLAIMS = {"lease": "A worker that lost the brokers does not deliver beyond its lease."}


def _apart(steps: Sequence[Step]) -> list[Step]:
    """Leave out a step that begins before the last one of its host has ended, and 2 s more."""
    kept, free = [], dict.fromkeys({step.host for step in steps}, 0.0)
    for step in steps:
        if step.begin >= free[step.host]:
            kept.append(step)
            free[step.host] = step.end + 2
    return kept
