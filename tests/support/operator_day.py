"""A day of an operator: targets break, the operator sees it, repairs them, and brings every event through.

``OperatorDay.play`` does the steps by the command line, on a service in a process of its own. It asserts what
each command shows, and returns the steps with their seconds. ``e2e/test_operator_day`` plays the day as a test,
and ``bench/operator_seconds`` writes its table.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from configuration import Settings, configuration, route, subscription
from sending import event_headers
from service_process import ServiceProcess, serving
from waiting import until
from webhook_target import Received, WebhookTarget, status

Run = Callable[..., Awaitable[tuple[int, str, str]]]
"""A function that runs ``skybridge`` in a folder with words, and returns exit code, output and errors."""

OK = status(204)
CUSTOMERS = [f"customer-{number}" for number in range(8)]
KINDS = ("placed", "paid", "packed", "sent")
NEW = {("customer-1", "paid"): 422, ("customer-2", "paid"): 422, ("customer-4", "packed"): 415}
"""The orders that ``ledger`` refuses for good, with the status."""
STUCK = "customer-3"  # ledger answers 503 to the orders of this customer
PLACED, REFUSED = f"{CUSTOMERS[0]}.placed", "customer-1.paid"


class Step(NamedTuple):
    """A step of the day. ``seconds`` is the time from the command to its effect."""

    what: str
    command: str
    seconds: float


class Target(WebhookTarget):
    """A webhook that can be broken.

    Attributes:
        fault: The present fault: 500, 410, hangs or ledger; "" for none.
        will: The fault of the day.
        accepted: The ids that were answered 204, by customer and in their order.
    """

    def __init__(self, fault: str) -> None:
        self.fault = ""
        self.will = fault
        self.accepted: dict[str, list[str]] = defaultdict(list)
        super().__init__(self._judge)

    def _judge(self, request: Received) -> bytes | Awaitable[bytes | None]:
        customer, _, kind = request.id.partition(".")
        match self.fault:
            case "hangs":
                return _never()
            case "ledger" if (customer, kind) in NEW:
                return status(NEW[customer, kind])
            case "ledger" if customer == STUCK:
                return status(503)
            case "500" | "410" as code:
                return status(int(code))
        if customer in CUSTOMERS:  # and no test event
            self.accepted[customer].append(request.id)
        return OK

    def has_all(self, ids: Sequence[str]) -> bool:
        return {*ids} <= {each for found in self.accepted.values() for each in found}


async def _never() -> None:
    await asyncio.Event().wait()


class OperatorDay:
    """The service, its targets and the operator's command line.

    ``outage`` is the length of the pauses in seconds to which the outage grows before the repair. Without it, a
    repaired target may recover before the operator tries it.
    """

    def __init__(
        self,
        folder: Path,
        service: ServiceProcess,
        targets: Mapping[str, Target],
        run: Run,
        outage: float = 0.0,
    ) -> None:
        self._outage = outage
        self._folder = folder
        self._service = service
        self.targets = targets
        self._run = run
        self.steps: list[Step] = []

    async def play(self) -> list[Step]:
        """Play the day and return its steps."""
        await self._morning()
        await self._break_and_see()
        await self._investigate()
        await self._repair_and_try()
        await self._redrive()
        await self._step("Nothing needs a person any more", "status", effect=self._calm)
        self._judge_account()
        return self.steps

    async def _morning(self) -> None:
        await self._send("placed-before")
        await until(lambda: self._all_have("placed-before"), "the deliveries of the morning")
        await self._step("All is well", "status --interval 0")

    async def _break_and_see(self) -> None:
        """Break the targets. The status names each with the command that cures it."""
        begin = time.monotonic()
        for target in self.targets.values():
            target.fault = target.will
        for kind in KINDS:
            await self._send(kind)
        await until(self._shows_every_fault, "a verdict for each broken target")
        await until(self._healthy_deliver, "deliveries of the healthy targets")
        command = "status --interval 0"
        shown = await self._step("The targets break; see which", command, code=1, begin=begin)
        assert shown.startswith("NEEDS A PERSON")
        for cure in CURES.values():
            assert f"next: skybridge {cure}" in shown, shown
        ready = self._service.ask("GET", "/readyz")  # a failing target takes no pod out of service
        assert ready[0] == 200, ready

    async def _investigate(self) -> None:
        attempts = await self._step("What does it answer?", "attempts --subscription billing")
        assert " 500 " in attempts
        found = await self._step("Where is this order?", f"find {PLACED}")
        fates = dict(re.findall(r"^  ([a-z]+): ([a-z-]+)", found, re.MULTILINE))
        waits = {"waiting", "retrying", "parked"}
        assert {name for name, fate in fates.items() if fate in waits} == {
            "billing",
            "crm",
            "stock",
        }
        assert fates["audit"] == fates["ledger"] == "delivered"
        refused = await self._step("And this one?", f"find {REFUSED}")
        assert "ledger: dead-letter" in refused
        counts = await self._step("What was given up, and why?", "dead-letters count")
        assert {cause for cause in ("status-415", "status-422") if cause in counts} == {
            "status-415", "status-422"
        }  # fmt: skip

    async def _repair_and_try(self) -> None:
        """Repair the targets, and try what waits for each."""
        await until(self._long_outage, f"pauses of {self._outage} s")
        for target in self.targets.values():
            target.fault = ""
        tested = await self._step("Is it repaired?", "subscriptions test billing")
        assert "skybridge retry billing" in tested
        for name, what in (
            ("billing", "Try now, after 500"),
            ("stock", "Try now, after it hung"),
            ("crm", "Resume, after 410"),
        ):
            await self._step(what, CURES[name], effect=lambda name=name: self._has_all(name))
        stuck = [f"{STUCK}.{kind}" for kind in KINDS]
        await self._step(
            "Try the parked customer",
            CURES["ledger"],
            effect=lambda: self.targets["ledger"].has_all(stuck),
        )

    async def _redrive(self) -> None:
        """Give the dead letters back, one cause after the other."""
        for cause in (422, 415):
            letters = [".".join(each) for each, code in NEW.items() if code == cause]
            await self._step(
                f"Redrive what {cause} refused",
                f"dead-letters redrive --subscription ledger --cause status-{cause} --yes",
                effect=lambda letters=letters: self.targets["ledger"].has_all(letters),
            )

    async def _step(
        self,
        what: str,
        command: str,
        *,
        code: int = 0,
        effect: Callable[[], Any] = lambda: True,
        begin: float | None = None,
    ) -> str:
        """Run a command, wait for its effect, and return what it printed."""
        begin = time.monotonic() if begin is None else begin
        words = [*command.split(), "--server", self._service.admin_url]
        found, printed, errors = await self._run(self._folder, *words)
        assert found == code, f"{command}: exit {found}\n{printed}\n{errors}"
        await until(effect, f"the effect of skybridge {command}")
        self.steps.append(Step(what, f"skybridge {command}", time.monotonic() - begin))
        return printed

    async def _send(self, kind: str) -> None:
        """Send one order of each customer."""
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            for customer in CUSTOMERS:
                headers = event_headers(f"{customer}.{kind}", partitionkey=customer)
                answer = await client.post(f"{self._service.events_url}/events", headers=headers)
                assert answer.status_code == 202, answer.text

    def _all_have(self, *kinds: str) -> bool:
        return all(self._has_all(name, *kinds) for name in self.targets)

    def _has_all(self, name: str, *kinds: str) -> bool:
        ids = [f"{customer}.{kind}" for customer in CUSTOMERS for kind in kinds or KINDS]
        return self.targets[name].has_all(ids)

    async def _attention(self) -> list[dict[str, Any]]:
        return list((await self._get("/status"))["attention"])

    async def _get(self, path: str) -> Any:
        return await asyncio.to_thread(self._service.get, path)

    async def _shows_every_fault(self) -> bool:
        found = await self._attention()
        shown = {(each["subject"].removeprefix("subscription "), each["verdict"]) for each in found}
        count = await self._get("/v1/dead-letters/count")
        return shown >= VERDICTS and count["total"] == len(NEW)

    async def _long_outage(self) -> bool:
        """Return True if the pauses of the targets that fail are long enough."""
        found = (await self._get("/status"))["subscriptions"]
        pauses = {each["id"]: each["paused_for"] or 0.0 for each in found}
        return min(pauses["billing"], pauses["stock"]) >= self._outage

    async def _healthy_deliver(self) -> bool:
        """Return True if the healthy targets have an order, and the service knows that."""
        (found,) = (await self._get(f"/v1/events?id={PLACED}"))["events"]
        fates = {each["subscription"]: each["fate"] for each in found["subscriptions"]}
        return {fates["audit"], fates["ledger"]} == {"delivered"}

    async def _calm(self) -> bool:
        return await self._attention() == []

    def _judge_account(self) -> None:
        """Compare what each target accepted with what was promised: every order once, in order per customer.

        Dead letters come after the orders that did not wait for them. Only ``stock``, whose time-out is short, may
        get an order again, because its answer was late.
        """
        for name, target in self.targets.items():
            for customer in CUSTOMERS:
                live = [kind for kind in KINDS if name != "ledger" or (customer, kind) not in NEW]
                letters = [kind for kind in KINDS if kind not in live]
                kinds = ["placed-before", *live, *letters]
                accepted = target.accepted[customer]
                if name == "stock":
                    accepted = [*dict.fromkeys(accepted)]
                assert accepted == [f"{customer}.{kind}" for kind in kinds], name


CURES = {
    "billing": "retry billing",
    "stock": "retry stock",
    "crm": "subscriptions resume crm",
    "ledger": "retry ledger",
    "letters": "dead-letters redrive --subscription ledger",
}
"""The commands that the status prints for the broken targets."""
VERDICTS = {
    ("billing", "endpoint-fails"),
    ("stock", "endpoint-fails"),
    ("crm", "disabled"),
    ("ledger", "parked-keys"),
    ("ledger", "dead-letters"),
}
FAULTS = {"audit": "", "billing": "500", "crm": "410", "stock": "hangs", "ledger": "ledger"}


def _settings(folder: Path, targets: Mapping[str, Target]) -> Settings:
    special: dict[str, dict[str, Any]] = {
        "stock": {"timeout": "1s"},
        "ledger": {"retry": {"schedule": ["20ms", "1h"], "hold": 1}},
    }
    return configuration(
        folder,
        installation="shop",
        routes=[route("orders", key={"mapper": "partitionkey"})],
        subscriptions=[
            subscription(name, target.url, "orders", **special.get(name, {}))
            for name, target in targets.items()
        ],
    )


@asynccontextmanager
async def operator_day(
    folder: Path, run: Run, *, outage: float = 0.0
) -> AsyncIterator[OperatorDay]:
    """Start the targets and the service, and stop them when the block ends."""
    targets = {name: Target(fault) for name, fault in FAULTS.items()}
    for target in targets.values():
        await target.start()
    try:
        with serving(_settings(folder, targets), folder) as service:
            yield OperatorDay(folder, service, targets, run, outage)
    finally:
        for target in targets.values():
            await target.stop()
