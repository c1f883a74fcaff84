"""Import every command of ``skybridge``, and sort them for ``skybridge --help``."""

from __future__ import annotations

from app.cli import (  # noqa: F401 - each registers its verbs
    alerts,
    audit,
    check,
    dead_letters,
    deliveries,
    demo,
    documents,
    explain,
    find,
    init,
    operator,
    pipeline,
    plan,
    producers,
    pull,
    receive,
    replaying,
    retry,
    secret,
    send,
    serve,
    status,
    store,
    subscription_changes,
    subscriptions,
    tail,
    test,
    topics,
    verbs,
    verify,
)

app = verbs.root
verbs.SectionedGroup.sections = {
    "Run": ("serve", "status", "demo", "operator"),
    "Send and receive": ("send", "receive", "tail", "pull", "topics", "verify"),
    "Subscriptions": ("subscriptions", "retry", "dead-letters", "parked"),
    "Investigate": ("find", "explain", "attempts", "alerts", "audit"),
    "Configure": (
        "init", "check", "test", "plan", "producers", "secret", "schema", "openapi", "asyncapi",
    ),
    "Lake": ("pipeline",),
    "Store": ("store",),
}  # fmt: skip
for _group in (alerts, producers, topics, subscriptions, dead_letters, store, pipeline):
    app.add_typer(_group.app)
