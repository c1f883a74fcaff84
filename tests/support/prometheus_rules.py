"""Check alert rules, and which alerts fire on given series, with the ``promtool`` of Prometheus."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka_install import Missing

EVERY = 30  # seconds between scrapes, and between evaluations


def install() -> Path:
    """Return the path of ``promtool``. Raise ``Missing`` if it is not installed."""
    found = shutil.which("promtool")
    if found is None:
        raise Missing("promtool is not on the path (on Debian: apt-get install prometheus)")
    return Path(found)


def check_rules(rules: Path) -> str:
    """Return what promtool reports about a file of rules. Raise AssertionError if promtool rejects
    it."""
    return _said("check", "rules", "--lint=all", "--lint-fatal", str(rules))


def assert_fires(
    rules: Path, series: Sequence[Mapping[str, str]], at: Mapping[str, Sequence[str]]
) -> str:
    """Assert that exactly these alerts fire on the series, and return the output of promtool.

    Args:
        rules: The file of rules.
        series: ``series`` and ``values`` as promtool writes them, one value every ``EVERY`` seconds.
        at: The alerts that must fire, and no others, at each moment (``20m``).
    """
    tests = {
        "rule_files": [str(rules)],
        "evaluation_interval": f"{EVERY}s",
        "tests": [
            {
                "interval": f"{EVERY}s",
                "input_series": list(series),
                "promql_expr_test": [_firing(moment, names) for moment, names in at.items()],
            }
        ],
    }
    file = rules.with_name("fires.json")  # JSON is valid YAML
    file.write_text(json.dumps(tests))
    return _said("test", "rules", str(file))


def assert_evaluates(
    folder: Path, expression: str, series: Sequence[Mapping[str, str]], value: float | None
) -> None:
    """Assert that an expression has this value at the first scrape, or no value if it is None."""
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    question = {"expr": expression, "eval_time": "0s", "exp_samples": samples}
    tests = {"tests": [{"input_series": list(series), "promql_expr_test": [question]}]}
    file = folder / "evaluates.json"  # JSON is valid YAML
    file.write_text(json.dumps(tests))
    _said("test", "rules", str(file))


def _firing(moment: str, names: Sequence[str]) -> dict[str, Any]:
    return {
        "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": moment,
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names],
    }


def _said(*words: str) -> str:
    done = subprocess.run(
        [install(), *words], capture_output=True, text=True, check=False, timeout=240
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


if __name__ == "__main__":
    print(install())
