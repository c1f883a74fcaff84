"""Prove the guarantees on clusters whose hosts and networks fail, and judge the history of each run.

::

    make proof ARGS="--list"                                 the scenarios
    make proof ARGS="--scenario kafka-leader --seed 7"       one of them
    make proof                                               all, on seed 1; takes about three minutes each
    make proof ARGS="--cluster kafka --write docs/proof.md"
    make proof ARGS="--scenario kafka-leader --keep build/history"
    make proof ARGS="--scenario kafka-random --seed 2"       a piece of half an hour, which is seeds 1 to 6

A run needs Linux and root, because hosts are network namespaces. The same scenario and seed give the same table of
steps and the same events; what happens between them is up to the machine.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from folder_in_memory import folder_in_memory
from kafka_install import Missing
from proof import page
from proof.laboratory import CLUSTERS, Laboratory
from proof.result import Result
from proof.scenario import Scenario
from proof.scenarios import SCENARIOS
from proof.trial import Trial


def chosen(asked: argparse.Namespace) -> list[Scenario]:
    """Return the scenarios to run."""
    found = [
        each for each in SCENARIOS
        if (not asked.scenario or each.name in asked.scenario)
        and asked.cluster in {None, each.cluster}
    ]  # fmt: skip
    if unknown := set(asked.scenario) - {each.name for each in SCENARIOS}:
        sys.exit(f"There is no scenario {', '.join(sorted(unknown))}. Cure: see --list.")
    return found


def describe(scenario: Scenario, seed: int) -> str:
    """Return what a scenario does on a seed, for ``--list``."""
    end = f" Must be convicted: {scenario.convicts}." if scenario.convicts else ""
    lines = [f"{scenario.name}: {scenario.attack}{end}", *map(str, scenario.table(seed))]
    return "\n    ".join(lines)


def run(scenarios: Sequence[Scenario], asked: argparse.Namespace, folder: Path) -> list[Result]:
    """Run scenarios of one cluster in one laboratory, and return the results. A run that fails has a remark."""
    results = []
    kind = scenarios[0].cluster
    with Laboratory(kind, folder / kind) as laboratory:
        say(f"cluster: {laboratory.cluster.version}")
        for number in range(asked.runs):
            for scenario in scenarios:
                seed = asked.seed + number
                say(f"{scenario.name} on seed {seed}: {scenario.attack}")
                place = (asked.keep or folder) / f"{scenario.name}-{seed}-{int(time.monotonic())}"
                results.append(attempt(Trial(laboratory, scenario, seed, place, say)))
                if asked.write:
                    page.write(asked.write, results[-1], laboratory.cluster.version)
    return results


def attempt(trial: Trial) -> Result:
    """Run a trial and print its verdict. An error of the laboratory is a remark of the result."""
    try:
        result = trial.run()
    except Exception as error:  # noqa: BLE001 - the next scenario begins with a healed cluster
        traceback.print_exc()
        trial.result.remarks.insert(0, f"did not come to its end: {error}")
        return trial.result
    say(result.text)
    for remark in (*result.remarks, *result.notes):
        say(f"remark: {remark}")
    end = "as it must be" if result.as_expected else "NOT AS IT MUST BE"
    say(f"{result.scenario.name}: {page.verdict(result)} ({end}) in {result.seconds:.0f} s")
    return result


def say(line: str) -> None:
    print(line, flush=True)


def main(words: Sequence[str]) -> int:
    asked = options(words)
    scenarios = chosen(asked)
    if asked.list:
        say("\n".join(describe(each, asked.seed) for each in scenarios))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are removed
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="proof-", dir=folder_in_memory()) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        try:
            for kind in CLUSTERS:
                if of_kind := [each for each in scenarios if each.cluster == kind]:
                    results += run(of_kind, asked, Path(folder))
        except Missing as why:
            print(f"Not run: {why}", file=sys.stderr)
            return 3
    for each in results:
        say(
            f"{'ok ' if each.as_expected else 'BAD'} {each.scenario.name} {each.seed}: {page.verdict(each)}"
        )
    return int(not all(each.as_expected for each in results))


def options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof", description=__doc__.partition("\n")[0])
    parser.add_argument("--scenario", action="append", default=[], help="its name; may be repeated")
    parser.add_argument("--cluster", choices=tuple(CLUSTERS), help="only scenarios of this cluster")
    parser.add_argument("--seed", type=int, default=1, help="seed of the tables and events")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--list", action="store_true", help="print the scenarios and their steps")
    parser.add_argument(
        "--keep", type=Path, help="keep histories, logs and settings in this folder"
    )
    parser.add_argument("--write", type=Path, help="write the results into this page")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
