"""One run of a scenario: the service starts, the senders send, the steps happen, and the checker judges the history."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from proof.checker import judge, report
from proof.fault_log import FaultLog
from proof.faults import FAULTS, REPEAT_NOTHING, Step, isolates, named
from proof.history import Call, Fault, HistoryWriter, Terms
from proof.hosts import Host
from proof.laboratory import LOAD, TARGET, Laboratory
from proof.leftovers import left, not_running
from proof.processes import HostProcess
from proof.programs import Program
from proof.progress import Progress
from proof.result import Result
from proof.scenario import WARM, Scenario
from proof.scenario_signs import Pauses, note_signs
from proof.service_hosts import (
    ATTEMPT,
    EVENTS_PORT,
    GATEWAYS,
    SUBSCRIPTIONS,
    TARGET_PORT,
    WORKERS,
    Service,
    configuration_of,
    services,
)
from waiting import wait_until

TOPIC = "events"
STALLED = 90.0  # seconds without a delivery after which the rest counts as lost
CALM = 20.0  # seconds of load in the end, outside of the window of every fault
QUIET = 3.0  # seconds in the end, for attempts that come late
Report = Callable[[str], None]


class Trial:
    """A run of a scenario in a laboratory. It is what the steps act on (``proof.faults.Lab``)."""

    def __init__(
        self, laboratory: Laboratory, scenario: Scenario, seed: int, folder: Path, report: Report
    ) -> None:
        """Prepare a run without starting it.

        Args:
            laboratory: The hosts, with a cluster that is whole.
            scenario: What happens.
            seed: The seed of its table, and of the events.
            folder: The new folder of its files: configurations, logs and the history.
            report: Print a line of progress.
        """
        self._laboratory, self._report = laboratory, report
        self._folder, self._seed = folder, seed
        self._history: HistoryWriter | None = None
        self._pauses = Pauses()
        self._services: Mapping[str, Service] = {}
        self._target: Program | None = None
        self._load: Program | None = None
        self.scenario = scenario
        self.result = Result(scenario, seed)

    @property
    def histories(self) -> list[Path]:
        return [self._folder / f"{name}.jsonl" for name in ("runner", "load", "target")]

    def run(self) -> Result:
        """Run from the start of the service to its end, and return the verdict."""
        begun = time.monotonic()
        history = self._begin_history()
        name = f"proof{int(time.time())}"  # noqa: TID251 - a name, not a time
        settings = self._settings(name)
        scenario = self.scenario
        self._services = services(
            self._laboratory.network,
            self._folder,
            settings,
            scenario.changes(settings),
            scenario.gives_up,
        )
        with ExitStack() as ended:
            ended.callback(self._end_all)
            self._start()
            self._attack()
            self._heal()
            self._report("whole again; the senders go on")
            time.sleep(self._laboratory.cluster.settle + CALM)
            self._finish()
        history.close()
        self._judge()
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _begin_history(self) -> HistoryWriter:
        """Make the folder of this run and its history, and write the terms."""
        self._folder.mkdir(parents=True)
        cluster = self._laboratory.cluster
        history = HistoryWriter(self._folder / "runner.jsonl")
        history.write(
            Terms(
                dict.fromkeys(SUBSCRIPTIONS, TOPIC),
                commit=cluster.commit,
                settle=cluster.settle,
                lease=cluster.lease,
                timeout=ATTEMPT,
                **self.scenario.terms,
            )
        )
        self._history = history
        self._faults = FaultLog(history, cluster.commit, cluster.settle)
        return history

    def _settings(self, name: str) -> dict[str, Any]:
        return configuration_of(
            installation=name,
            topic=name,
            broker=self._laboratory.cluster.settings(name),
            dsn=self._laboratory.fresh_database(name),
            target=self.host(TARGET).address,
        )

    def _start(self) -> None:
        load, target = (self._folder / f"{name}.jsonl" for name in (LOAD, TARGET))
        workers = json.dumps({self.host(name).address: name for name in WORKERS})
        words = ("--history", str(target), "--port", str(TARGET_PORT), "--workers", workers)
        words += ("--address", self.host(TARGET).address, "--other", self.host(LOAD).address)
        self._target = Program(self.host(TARGET), self._folder, *words)
        self._target.start()
        first, *others = self._services.values()
        for each in self._services.values():
            if self.scenario.clocks:
                each.use_clock()
        first.start()  # it makes the tables of the store
        for each in others:
            each.begin()
        for each in others:
            each.wait_until_answering()
        gateways = [(name, self.host(name).address, EVENTS_PORT) for name in GATEWAYS]
        asked = ("--gateways", json.dumps(gateways), "--seed", str(self._seed))
        self._load = Program(self.host(LOAD), self._folder, "--history", str(load), *asked)
        self._load.start()
        self._progress = Progress(load, target, SUBSCRIPTIONS)
        self._report(f"service started; senders send to {' and '.join(GATEWAYS)}")

    def _attack(self) -> None:
        """Let the steps of the table happen at their times."""
        zero = time.monotonic()
        steps = self.scenario.table(self._seed)
        moments = sorted(
            [(step.begin, 1, number) for number, step in enumerate(steps)]
            + [(step.end, 0, number) for number, step in enumerate(steps)]
        )
        placed: dict[int, Step] = {}  # the steps that have begun, with the hosts of their roles
        hosts: dict[int, list[str]] = {}
        since: dict[int, float] = {}
        for at, begins, number in moments:
            time.sleep(max(0.0, zero + at - time.monotonic()))
            if begins:
                placed[number] = self._placed(steps[number])
            step, fault = placed[number], FAULTS[steps[number].fault]
            if begins:
                hosts[number], since[number] = named(step.host, self.names()), time.monotonic()
                fault.begin(self, hosts[number], step.value)
                self._report(f"{at:5.1f} s  {' '.join(hosts[number])}: {step.fault} {step.value}")
            else:
                fault.end(self, hosts[number], step.value)
                self._note(step, hosts[number], since[number])
        time.sleep(WARM)

    def _placed(self, step: Step) -> Step:
        """Return a step with the hosts that have its roles at this moment."""
        cluster, store = self._laboratory.cluster, self._laboratory.store
        host, value = (
            " ".join(store.place(cluster.place(word)) for word in words.split())
            for words in (step.host, step.value)
        )
        return step._replace(host=host, value=value)

    def _note(self, step: Step, hosts: Sequence[str], since: float) -> None:
        alone = isolates(step, hosts, self.names(), self._laboratory.cluster.brokers)
        repeats = step.fault not in REPEAT_NOTHING
        for host in hosts:
            self._faults.add(Fault(step.fault, host, since, time.monotonic(), alone, repeats))

    def _heal(self) -> None:
        """Return when everything runs again."""
        self._laboratory.store.heal()
        for name, since in self._laboratory.cluster.heal().items():
            self._faults.add(Fault("killed", name, since, time.monotonic()))
            self._report(f"{name} did not find back to its cluster, and was restarted")
            self._keep_logs(name)
        for process in self._services.values():
            if not process.running:
                if not process.lacked_store:
                    self.result.remarks.append(f"{process.name} had ended by itself")
                process.begin()
            process.resume()
        for process in self._services.values():
            process.wait_until_answering()
        wait_until(self._resume_all, "a 2xx answer to each resume", turn=0.5)

    def _resume_all(self) -> bool:
        """Resume the subscriptions that may be paused, and return True if none is left."""
        for subscription in sorted(self._pauses.waiting):
            self.call("resume", subscription)
        return not self._pauses.waiting

    def _keep_logs(self, name: str) -> None:
        """Copy the logs of a program of the cluster into the folder of this run."""
        (self._folder / name).mkdir(exist_ok=True)
        for log in self.process(name).folder.rglob("*.log"):
            shutil.copy(log, self._folder / name)

    def _finish(self) -> None:
        """End the senders, wait until everything is delivered, and stop the service in order."""
        assert self._load is not None
        self._load.end_input()
        self._load.wait_for_end()
        self._progress.read()
        self._report(f"acknowledged {len(self._progress.acknowledged)}; waiting for the deliveries")
        with suppress(TimeoutError):
            wait_until(
                lambda: not self._progress.missing(),
                "all deliveries",
                STALLED,
                turn=0.5,
                moved=self._progress.delivered,
            )
        time.sleep(QUIET)
        self._note_what_is_left()
        self._note_what_does_not_run()
        for each in self._services.values():
            each.ask_to_end()
        for name, each in self._services.items():
            if code := each.wait_for_end():
                self.result.remarks.append(f"{name} ended with {code}")
        assert self._target is not None
        self._target.end_input()
        self._target.wait_for_end()
        self.result.gap = self._progress.longest_gap
        self.result.unanswered = self._progress.unanswered
        self.result.calm = self._faults.calm(*self._progress.span)
        self._report(f"outside of the window of every fault: {self.result.calm:.0f} s")
        longest = ", ".join(f"{name} {gap:.1f} s" for name, gap in self._progress.silence.items())
        self._report(f"longest time without a delivery: {longest}")
        most = self.scenario.resumes
        if most and max(self._progress.silence.values()) > most:
            self.result.remarks.append(f"a subscription received nothing for more than {most:g} s")

    def _note_what_is_left(self) -> None:
        """Write the dead letters and the parked events into the history."""
        assert self._history is not None
        if missing := self._progress.missing():
            self.result.remarks.append(f"{missing} deliveries did not come")
            self._keep_witnesses()
        for each in left(self._services[WORKERS[0]].ask):
            self._history.write(each)

    def _keep_witnesses(self) -> None:
        """Keep the logs of the cluster and what each worker says of its subscriptions, because deliveries are
        missing."""
        for name in self._laboratory.cluster.processes:
            self._keep_logs(name)
        for name in WORKERS:
            with suppress(OSError):
                said = self._services[name].ask("GET", "/v1/subscriptions")[1]
                (self._folder / name / "subscriptions.json").write_text(json.dumps(said, indent=1))

    def _note_what_does_not_run(self) -> None:
        """Remark each subscription that does not run in a worker, although all hosts are whole again."""
        for name in WORKERS:
            for fault in not_running(self._services[name].ask, SUBSCRIPTIONS):
                self.result.remarks.append(f"{name}: {fault}")

    def _end_all(self) -> None:
        """End what still runs, after a failure too. The laboratory keeps the cluster and the store."""
        for each in (*self._services.values(), self._target, self._load):
            if each is not None:
                each.kill_if_running()
        for host in self._laboratory.network:
            host.mend()

    def _judge(self) -> None:
        judgement = judge(self.histories)
        self.result.text = report(judgement, self.histories)
        self.result.counts, self.result.verdicts = judgement.counts, judgement.faults
        self.result.repeats = judgement.repeats
        note_signs(self.result, self._progress, self._pauses)

    # What the steps act on:

    def host(self, name: str) -> Host:
        return self._laboratory.network[name]

    def names(self) -> Sequence[str]:
        return [host.name for host in self._laboratory.network]

    def process(self, name: str) -> HostProcess:
        laboratory = self._laboratory
        return {**laboratory.cluster.processes, **laboratory.store.members, **self._services}[name]

    def promote(self) -> None:
        self._laboratory.store.promote()

    def tell_target(self, **told: Any) -> None:
        assert self._target is not None
        self._target.tell(json.dumps(told))

    def call(self, verb: str, subscription: str) -> None:
        """Call a verb of a subscription at the first worker, and write the call into the history."""
        assert self._history is not None
        start, status = time.monotonic(), None
        with suppress(OSError):
            path = f"/v1/subscriptions/{subscription}:{verb}"
            status = self._services[WORKERS[0]].ask("POST", path)[0]
        self._history.write(Call(verb, subscription, start, time.monotonic(), status))
        self._history.flush()
        self._pauses.note(verb, subscription, status)
