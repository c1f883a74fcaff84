"""The sections of the first configuration file that depend on a choice.

A section that was not chosen is written as a comment, with example values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from app.config.starter.choices import (
    KEY,
    LOCAL,
    PRODUCER,
    PULL,
    SIGNING,
    BrokerKind,
    StarterChoices,
)
from app.config.starter.fragments import (
    BROKERS,
    ELSEWHERE,
    INTAKE,
    MOST_BODY,
    NAMES,
    SUBSCRIPTION,
    WEBHOOK,
)
from app.config.starter.fragments import PRODUCER as PRODUCERS
from app.delivery.address_guard import may_reach
from app.delivery.target_url import read_url

ALLOWED = ("127.0.0.0/8", "localhost")


def access(choices: StarterChoices) -> str:
    """Return the setting ``server.events.access``: a comment if every local program may send."""
    text = "access: producers   # only these may send, see producers below; open: everybody"
    return commented(text) if LOCAL in choices.senders else text


def brokers(choices: StarterChoices) -> str:
    """Return the chosen broker, and the others as comments."""
    chosen = without(_broker(choices.broker, choices.place), "security")
    others = (
        commented(_broker(kind, address))
        for kind, address in ELSEWHERE.items()
        if kind != choices.broker
    )
    return f"{chosen}\n{''.join(others)}"


def _broker(kind: BrokerKind, address: str) -> str:
    return _filled(BROKERS[kind], address=quoted(address), admin=quoted(_admin_of(address)))


def _admin_of(service: str) -> str:
    """Return the usual URL of the admin API of a Pulsar service URL."""
    host = re.sub(r":\d+$", "", service.rstrip("/").partition("://")[2].split(",")[0])
    return f"https://{host}:8443" if service.startswith("pulsar+ssl:") else f"http://{host}:8080"


def intakes(choices: StarterChoices) -> str:
    """Return an intake for each chosen preset, or an example as a comment."""
    if not choices.presets:
        return commented(
            "intakes:\n" + _filled(INTAKE, preset="github", secret=_variable("GITHUB_SECRET"))
        )
    return "intakes:\n" + "".join(_intake(choices, each) for each in choices.presets)


def _intake(choices: StarterChoices, preset: str) -> str:
    text = _filled(INTAKE, preset=preset, secret=_reference(choices, preset))
    most = MOST_BODY.get(choices.broker) if preset == "github" else None
    bound = (
        f"    max_body: {most}       # a record of the broker has no room for more\n"
        if most
        else ""
    )
    return re.sub(" +#.*", "", text) + bound


def producers(choices: StarterChoices) -> str:
    """Return a producer with its key, or an example as a comment."""
    if KEY not in choices.senders:
        return commented(_filled(PRODUCERS, name="shop", secret=_variable("SHOP_KEY")))
    text = _filled(PRODUCERS, name=PRODUCER, secret=_reference(choices, KEY))
    return without(text, "may", "quota")


def subscriptions(choices: StarterChoices) -> str:
    """Return a subscription to the chosen sink, or an example as a comment."""
    broker, signing = NAMES[choices.broker], _reference(choices, SIGNING)
    values = {
        "broker": broker,
        "start": "earliest",
        "sink": quoted(choices.sink),
        "secret": signing,
    }
    if choices.sink == PULL:
        sink = "{pull: {}}    # consumers fetch: skybridge pull consumers"
        text = _filled(SUBSCRIPTION, **values | {"id": "consumers", "sink": sink})
    elif choices.sink:
        text = _filled(SUBSCRIPTION + WEBHOOK, id="webhook", **values)
    else:
        example = {"id": "billing", "start": "latest", "sink": "https://billing.example/hook"}
        text = _filled(SUBSCRIPTION + WEBHOOK, **values | example)
        return "subscriptions: []\n" + commented(without(text, "signing"), 2)
    return "subscriptions:\n" + without(text, "filters", *(() if choices.signed else ("signing",)))


def allowed(choices: StarterChoices) -> str:
    """Return the entries of ``webhooks.allow_private``: loopback, and the host of the sink if the address guard
    would refuse it otherwise.
    """
    return ", ".join([quoted(ALLOWED[0]), *ALLOWED[1:], *map(quoted, _host_of(choices))])


def _host_of(choices: StarterChoices) -> Iterator[str]:
    if not choices.is_webhook:
        return
    try:
        url = read_url(choices.sink)
    except ValueError:  # the check of the file reports it
        return
    plain = url.scheme == "http"
    may = may_reach(url.host, ALLOWED, plain=plain)
    if may is False or (may is None and plain):
        yield url.host


def _reference(choices: StarterChoices, use: str) -> str:
    """Return a reference to a secret file, as YAML."""
    return quoted(f"${{file:{choices.file_of(use)}}}")


def _variable(name: str) -> str:
    """Return a reference to an environment variable, as YAML."""
    return quoted(f"${{env:{name}}}")


def quoted(text: str) -> str:
    """Return a text as a YAML value in double quotes."""
    return json.dumps(text)


def commented(text: str, column: int = 0) -> str:
    """Return lines as comments that begin at a column."""
    return "".join(f"{line[:column]}# {line[column:]}\n" for line in text.splitlines())


def without(text: str, *settings: str) -> str:
    """Return the text with these settings, and all that is below them, as comments."""
    return "".join(_without(text, settings))


def _without(text: str, settings: tuple[str, ...]) -> Iterator[str]:
    column: int | None = None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if column is None or indent <= column:
            column = indent if line.lstrip().partition(":")[0] in settings else None
        yield f"{line}\n" if column is None else commented(line, column)


def _filled(text: str, **slots: str) -> str:
    return re.sub(r"<(\w+)>", lambda slot: slots[slot[1]], text)
