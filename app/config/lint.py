"""What a configuration that keeps to the model may still get wrong.

An *error* refuses the start: the service would not do what was asked. A *warning* may be meant. The
checks are grouped by what they look at; each is a function from a Report to nothing.
"""

from __future__ import annotations

from app.config.finding import Finding
from app.config.lint_admin import check_admin
from app.config.lint_brokers import check_brokers
from app.config.lint_intakes import check_intakes
from app.config.lint_kafka_listeners import check_kafka_listeners
from app.config.lint_mirrors import check_mirrors
from app.config.lint_producers import check_producers
from app.config.lint_replies import check_replies
from app.config.lint_routes import check_routes
from app.config.lint_sections import (
    check_filters,
    check_operator_events,
    check_pipeline,
    check_store,
    check_traces,
)
from app.config.lint_servers import check_servers
from app.config.lint_sinks import check_sinks, check_webhooks
from app.config.lint_spools import check_spools
from app.config.lint_subscriptions import check_subscriptions
from app.config.lint_writing import check_writing
from app.config.load import Loaded
from app.config.report import Report

CHECKS = (
    check_servers,
    check_admin,
    check_producers,
    check_brokers,
    check_kafka_listeners,
    check_store,
    check_routes,
    check_spools,
    check_intakes,
    check_subscriptions,
    check_filters,
    check_sinks,
    check_webhooks,
    check_mirrors,
    check_replies,
    check_operator_events,
    check_traces,
    check_pipeline,
    check_writing,
)


def lint(loaded: Loaded) -> list[Finding]:
    """Every finding, in the order of the file. Looks at paths on this machine, never at a network."""
    report = Report(loaded)
    for check in CHECKS:
        check(report)
    return sorted(report.findings, key=lambda found: (found.line, found.place.column))
