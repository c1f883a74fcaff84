"""Checks of the section ``operator``: each namespace once, routes that exist, and a token that may write."""

from __future__ import annotations

from app.config.lint.report import LintReport

_NEEDED = frozenset({"read", "configure"})


def check_operator(report: LintReport) -> None:
    operator = report.config.operator
    if operator is None:
        return
    names = [each.name for each in operator.namespaces]
    routes = {each.name for each in report.config.routes}
    for n, each in enumerate(operator.namespaces):
        if each.name in names[:n]:
            report.error(
                ("operator", "namespaces", n, "name"),
                f"The namespace {each.name!r} is listed already.",
                "Remove one of the entries.",
            )
        for m, route in enumerate(each.reply_routes):
            if route not in routes:
                report.error(
                    ("operator", "namespaces", n, "reply_routes", m),
                    f"The route {route!r} does not exist.",
                    "Name a route under routes.",
                )
    _token(report)


def _token(report: LintReport) -> None:
    """Report that no token may write subscriptions for objects."""
    owned = [each for each in report.config.server.admin.tokens if each.owner is not None]
    if not any({*each.scopes} >= _NEEDED for each in owned):
        report.error(
            ("operator", "admin", "token"),
            "No token of server.admin.tokens has owner: kubernetes and the scopes read and configure.",
            "Add such a token, and set its text here too.",
        )
