"""Import every command of ``skybridge``, and sort them for ``skybridge --help``."""

from __future__ import annotations

from app.cli import (  # noqa: F401 - each registers its verbs
    audit,
    check,
    dead_letters,
    deliveries,
    demo,
    documents,
    explain,
    find,
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
    subscriptions,
    tail,
    test,
    topics,
    verbs,
    verify,
)

app = verbs.root
_ORDER = (
    *(
        "serve",
        "status",
        "send",
        "receive",
        "pull",
        "tail",
        "explain",
        "find",
        "attempts",
        "parked",
        "retry",
        "audit",
    ),
    *("demo", "init", "check", "test", "plan", "schema", "openapi", "asyncapi", "secret", "verify"),
)
app.registered_commands.sort(key=lambda each: _ORDER.index(each.name or ""))
for _group in (producers, topics, subscriptions, dead_letters, store, pipeline):
    app.add_typer(_group.app)
