"""Helm and promtool, for all tests of the chart."""

from __future__ import annotations

from pathlib import Path

import pytest

import helm_install
import prometheus_rules
from kafka_install import Missing
from skipping import skip_or_fail


def _or_skip(bring):
    """What is missing skips on a laptop and fails where CI=true promises that it is there."""
    try:
        return bring()
    except Missing as missing:
        skip_or_fail(missing)


@pytest.fixture(scope="session")
def helm_program() -> Path:
    return _or_skip(helm_install.install)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _or_skip(prometheus_rules.install)
