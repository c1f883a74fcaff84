"""All checks of a valid configuration for mistakes.

An *error* prevents the start, because the service would not do what the file demands. A *warning*
is about something that may be intended. Each check is a function that adds its findings to a
LintReport.
"""

from __future__ import annotations

from app.config.lint.admin import check_admin
from app.config.lint.alerts import check_alerts
from app.config.lint.brokers import check_brokers
from app.config.lint.ineffective import check_ineffective
from app.config.lint.intakes import check_intakes
from app.config.lint.kafka_listeners import check_kafka_listeners
from app.config.lint.mirrors import check_mirrors
from app.config.lint.operator import check_operator
from app.config.lint.outlets import check_outlets
from app.config.lint.producers import check_producers
from app.config.lint.replies import check_replies
from app.config.lint.report import LintReport
from app.config.lint.routes import check_routes
from app.config.lint.secret_files import check_secret_files
from app.config.lint.sections import (
    check_filters,
    check_operator_events,
    check_pipeline,
    check_store,
    check_traces,
)
from app.config.lint.servers import check_servers
from app.config.lint.sinks import check_sinks, check_webhooks
from app.config.lint.spools import check_spools
from app.config.lint.subscriptions import check_subscriptions
from app.config.lint.writing import check_writing
from app.config.load.finding import Finding
from app.config.load.loader import Loaded

CHECKS = (
    check_servers,
    check_admin,
    check_producers,
    check_secret_files,
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
    check_outlets,
    check_mirrors,
    check_replies,
    check_operator_events,
    check_operator,
    check_alerts,
    check_traces,
    check_pipeline,
    check_writing,
    check_ineffective,
)


def lint(loaded: Loaded) -> list[Finding]:
    """Return every finding, in the order of the file. The checks read files of this machine, but
    use no network.
    """
    report = LintReport(loaded)
    for check in CHECKS:
        check(report)
    return sorted(report.findings, key=lambda found: (found.line, found.place.column))
