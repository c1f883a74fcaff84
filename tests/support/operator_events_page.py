"""Make docs/reference/operator-events.md from the kinds of operator events in the code."""

from __future__ import annotations

from app.delivery.operator_event import KINDS, OperatorEventKind
from markdown_writing import prose, table

HEAD = """# Operator events

This page lists the CloudEvents that Skybridge publishes about itself. `make docs` writes it from the code. The setting
[`operator_events`](configuration/README.md#operator_events) names their topic, and [dead
letters](../guides/dead-letters.md#operator-events) shows how to use them.

The attribute `subject` and the record key are the subscription, the route or the operation. The attribute `source` is
`/skybridge/INSTALLATION`. The data is a JSON object. The metric `skybridge_operator_events_total` counts
these events by their kind.
"""


def page() -> str:
    rows = [
        (f"[`{each.type}`](#{_anchor(each)})", each.about, prose(each.when))
        for each in KINDS.values()
    ]
    overview = table(("type", "subject", "when"), rows)
    return "\n".join([HEAD, overview, *(_section(name, each) for name, each in KINDS.items())])


def _section(name: str, kind: OperatorEventKind) -> str:
    about = [] if kind.about == "operation" else [(f"`{kind.about}`", f"name of the {kind.about}")]
    members = [*about, *((f"`{member}`", prose(meaning)) for member, meaning in kind.data.items())]
    return "\n".join(
        [
            f'<a id="{_anchor(kind)}"></a>\n',
            f"## {kind.type}\n",
            f"{prose(kind.when)} Its kind is `{name}`.\n",
            table(("member of the data", "meaning"), members),
        ]
    )


def _anchor(kind: OperatorEventKind) -> str:
    return kind.type.removeprefix("dev.skybridge.").replace(".", "-").replace("_", "-")
