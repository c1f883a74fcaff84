"""A pytest plugin that writes the result of each case of the broker contract on each log to a JSON
file.

``make contract`` loads it with ``-p contract_report --contract-report FILE``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

LOGS = {
    "Embedded": "embedded",
    "Kafka": "Kafka",
    "KafkaOnEmbedded": "embedded, by its Kafka listener",
    "RabbitStreams": "RabbitMQ, streams",
    "Rabbit": "RabbitMQ, queues",
    "Pulsar": "Pulsar",
}
"""The names of logs by the class names in tests/contract, without ``Test`` and ``ThatGoesAway``."""

HELD, FAILED = "held", "failed"


def log_of(class_name: str) -> str | None:
    """Return the log that a class of tests/contract tests, or None for classes outside the suite."""
    return LOGS.get(class_name.removeprefix("Test").removesuffix("ThatGoesAway"))


class Report:
    """Collects ``verdicts`` by log and case: ``held``, ``failed``, or the capability that is
    missing.
    """

    def __init__(self) -> None:
        self.verdicts: dict[str, dict[str, str]] = {}

    @pytest.hookimpl
    def pytest_runtest_setup(self) -> None:
        _missed().clear()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]):
        outcome = yield
        report = outcome.get_result()
        log = log_of(item.cls.__name__) if getattr(item, "cls", None) is not None else None
        if log is None or (call.when != "call" and report.outcome == "passed"):
            return
        case = item.originalname
        verdict = verdict_of(_missed()) if report.outcome == "passed" else FAILED
        known = self.verdicts.setdefault(log, {})
        if known.get(case, "").startswith("without") or case not in known or verdict == FAILED:
            known[case] = verdict


def _missed() -> dict[str, bool]:
    """Return the missing capabilities of the running case.

    The import is late, because pytest must rewrite the assertions of that module first.
    """
    import contract_tools

    return contract_tools.missed


def verdict_of(missed: dict[str, bool]) -> str:
    """Return ``held``, ``held but for A, B``, or ``without A`` if no part of the case could run.

    ``missed`` has each missing capability, and whether the case ran all the same.
    """
    not_run = [name for name, run in missed.items() if not run]
    if not_run:
        return f"without {', '.join(sorted(not_run))}"
    return f"{HELD} but for {', '.join(sorted(missed))}" if missed else HELD


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--contract-report", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--contract-report"):
        config.pluginmanager.register(Report(), "contract-verdicts")


def pytest_unconfigure(config: pytest.Config) -> None:
    report = config.pluginmanager.get_plugin("contract-verdicts")
    if report is not None:
        config.getoption("--contract-report").write_text(json.dumps(report.verdicts))
