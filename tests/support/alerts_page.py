"""Make docs/reference/alerts.md from the alerts of the chart and their thresholds in its values."""

from __future__ import annotations

import re
from typing import Any

import yaml

from chart import CHART
from markdown_writing import prose, slug, table

HEAD = """# Alerts

This page lists the alerts of the Helm chart, each with its condition, its threshold and its runbook. `make docs` writes it from the
chart. With `prometheusRule.enabled: true` the chart installs them. `prometheusRule.without` lists the names of
unwanted alerts. [Metrics](metrics.md) lists the metrics of the conditions.

A condition is shown without the labels that select the series of one release.
"""
NOT_RUN = "<!-- not run: tests/helm/test_alerts.py evaluates the condition with promtool -->"
_SELECTORS = re.compile(r',?\$\(matchers\)|\{namespace="\$\(namespace\)"\}|\$\(series\)')
_THRESHOLD = re.compile(r"\$\((\w+)\)")
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_VALUE = re.compile(r"\{\{ \$value[^}]*\}\}")


def page() -> str:
    rules = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())["prometheusRule"]
    rows = [
        (
            f"[`{rule['alert']}`](#{slug(rule['alert'])})",
            rule["severity"],
            _summary(rule),
            f"[{rule['runbook']}](../runbooks/{rule['runbook']}.md)",
        )
        for rule in rules
    ]
    overview = table(("alert", "severity", "summary", "runbook"), rows)
    return "\n".join([HEAD, overview, *(_section(rule, values) for rule in rules)])


def _section(rule: dict[str, Any], values: dict[str, Any]) -> str:
    wait = _filled(str(rule.get("for", "0s")), values)
    used = _THRESHOLD.findall(_SELECTORS.sub("", rule["expr"] + str(rule.get("for", ""))))
    rows = [(f"`prometheusRule.{name}`", f"`{values[name]}`") for name in dict.fromkeys(used)]
    lines = [f"## {rule['alert']}", "", _summary(rule), ""]
    lines += [
        f"It fires after the condition has held for {wait}."
        if wait != "0s"
        else "It fires at the next evaluation of the condition."
    ]
    lines[-1] += (
        f" Severity: {rule['severity']}. Cure: [{rule['runbook']}](../runbooks/{rule['runbook']}.md)."
    )
    lines += [
        "",
        NOT_RUN,
        "```promql",
        _filled(_SELECTORS.sub("", rule["expr"]), values).strip(),
        "```",
        "",
    ]
    return "\n".join([*lines, *([table(("threshold", "default"), rows)] if rows else [])])


def _filled(text: str, values: dict[str, Any]) -> str:
    """Return the text with the default of each threshold."""
    return _THRESHOLD.sub(lambda match: str(values[match[1]]), text)


def _summary(rule: dict[str, Any]) -> str:
    text = _LABEL.sub(lambda match: match[1].upper(), rule["summary"])
    return prose(_VALUE.sub("VALUE", text))
