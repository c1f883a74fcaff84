"""Two configurations: what differs, by name, and what it takes to change it in a running service.

Pure. Routes and subscriptions go by name and id, so that one in between moves no other. What is not in
``LIVE`` needs a restart: a new setting does until somebody has made it change live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from app.config.diff.shown import NAMED, Tree, View
from app.delivery.backoff import shortened
from app.model.subscription import IGNORE

What = Literal["added", "removed", "changed", "moved"]
Effect = Literal["live", "restart"]

LIVE = (
    "routes",
    "intakes",
    "producers",
    "subscriptions",
    "server.admin.token",
    "server.events.access",
    "server.events.address_quota",
    "server.admin.tokens",
    "server.admin.mask",
    "server.admin.console",
    "server.events.strict_percent",
    "server.events.unknown_formats",
    "server.events.forward_headers",
    "server.events.allowed_origins",
    "server.events.allowed_rate",
    "webhooks.allow_private",
    "webhooks.configurable_targets",
    "webhooks.origin",
    "webhooks.proxy",
    "limits",
    "timeouts.request_head",
    "timeouts.request_body",
    "timeouts.keep_alive",
    "timeouts.webhook_dns",
    "timeouts.webhook_connect",
    "timeouts.webhook_token",
    "timeouts.webhook_handshake",
    "log",
    "reload",
    "pipeline",
)
"""Settings that a running service takes up, with all that is below them. ``pipeline`` is read by its own
verbs alone."""

_WEBHOOKS = ("webhooks.allow_private", "webhooks.origin", "webhooks.proxy", "timeouts.webhook_")
_REPLIES = "limits.max_batch"
_SCHEDULE = ".retry.schedule"
_OVERRIDE = "${env:SKYBRIDGE_"
_ABSENT = object()


class Change(msgspec.Struct, frozen=True):
    """One setting, or a route or subscription as a whole. ``old`` and ``new`` as they may be shown; None
    where there is none. ``name``: of the route or subscription that it belongs to."""

    setting: str
    what: What
    effect: Effect
    old: Any = None
    new: Any = None
    name: str = ""

    def __str__(self) -> str:
        match self.what:
            case "changed" if self.old == self.new:
                return f"{self.setting}: changed; its value is not shown"
            case "changed":
                return f"{self.setting}: {_text(self.old)} -> {_text(self.new)}"
            case "moved":
                return f"{self.setting}: changed order"
        return f"{self.setting}: {self.what}"


class Difference(NamedTuple):
    """``restarted``: ids of subscriptions of the file that restart: changed themselves, or what they
    are built on is."""

    changes: tuple[Change, ...]
    restarted: tuple[str, ...] = ()

    @property
    def restarts(self) -> tuple[Change, ...]:
        return tuple(each for each in self.changes if each.effect == "restart")

    @property
    def result(self) -> Literal["no-change", "changes", "needs-restart"]:
        """In a word; where it needs a restart, a reload is refused."""
        if self.restarts:
            return "needs-restart"
        return "changes" if self.changes else "no-change"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a change does to events that wait already."""
        return tuple(filter(None, map(_strands, self.changes))) + tuple(
            filter(None, map(_shortens, self.changes))
        )


def _strands(change: Change) -> str:
    """Of spools: what waits in one, and the volume that it waits on."""
    section, _, rest = change.setting.partition(".")
    old = change.old if isinstance(change.old, dict) else {}
    if section == "routes" and change.what == "removed":
        if rest.endswith(".spool") or old.get("spool"):
            return (
                f"routes.{change.name}: its spool is kept until it is empty; do not remove the "
                "embedded log before"
            )
        return ""
    gone = change.what == "removed" and old.get("kind") == "embedded"
    if section == "brokers" and (gone or rest.endswith(".path")):
        name = rest.removesuffix(".path")
        return (
            f"brokers.{name}: events in spools on it would no longer be published: empty them first"
        )
    return ""


def _shortens(change: Change) -> str:
    schedules = change.setting.startswith("subscriptions.") and change.setting.endswith(_SCHEDULE)
    match change.old, change.new:
        case list(old), list(new) if schedules:
            return shortened(change.name, old, new)
    return ""


def difference(old: View, new: View) -> Difference:
    unlike = _relaxed(new.exact) - _relaxed(old.exact)
    needing = {route for route, *connection in _relaxing(new.exact) if tuple(connection) in unlike}
    changes = tuple(
        msgspec.structs.replace(each, effect="restart")
        if each.setting.startswith("routes.") and each.name in needing
        else each
        for each in _changes(old, new)
    )
    return Difference(changes, tuple(_restarted(old.exact, new.exact, changes)))


def without_overrides(found: Difference) -> Difference:
    """What an environment variable of the service overrides, it would override after a reload too."""
    kept = [
        each
        for each in found.changes
        if not (isinstance(each.old, str) and each.old.startswith(_OVERRIDE))
    ]
    return found._replace(changes=tuple(kept))


def rebuilds(changes: Sequence[Change], *, posts: bool, replies: Collection[str]) -> bool:
    """Whether the sink of a subscription is built otherwise now, though its own settings are the same: what
    all webhooks share changed, or one of the routes that events in answers go by, ``replies``."""
    if not posts:
        return False
    return any(
        each.setting.startswith(_WEBHOOKS)
        or (replies and each.setting == _REPLIES)
        or (each.setting.startswith("routes.") and each.what != "moved" and each.name in replies)
        for each in changes
    )


def _changes(old: View, new: View) -> Iterator[Change]:
    for section in dict.fromkeys([*old.exact, *new.exact]):
        before = _Side(old.exact.get(section, _ABSENT), old.shown.get(section))
        after = _Side(new.exact.get(section, _ABSENT), new.shown.get(section))
        if section in NAMED and not isinstance(before.shown, str | None):
            yield from _of_list(section, before, after)
        else:
            yield from _of_value(section, before, after)


class _Side(NamedTuple):
    exact: Tree
    shown: Tree

    def inner(self, name: str) -> _Side:
        exact = self.exact.get(name, _ABSENT) if isinstance(self.exact, dict) else _ABSENT
        shown = self.shown.get(name) if isinstance(self.shown, dict) else self.shown
        return _Side(exact, shown)


def _of_list(section: str, before: _Side, after: _Side) -> Iterator[Change]:
    """A list whose order counts, of sections that have names."""
    olds, news = _by_name(section, before), _by_name(section, after)
    for name in dict.fromkeys([*olds, *news]):
        setting = f"{section}.{name}"
        if name not in news:
            yield Change(setting, "removed", "live", olds[name].shown, None, name)
        elif name not in olds:
            yield Change(setting, "added", "live", None, news[name].shown, name)
        else:
            yield from _of_value(setting, olds[name], news[name], name)
    if section == "routes":  # the first match wins
        stay = [name for name in olds if name in news]
        now = [name for name in news if name in olds]
        for name, other in zip(stay, now, strict=True):
            if name != other:
                yield Change(f"{section}.{other}", "moved", "live", name=other)


def _by_name(section: str, side: _Side) -> Mapping[str, _Side]:
    field = NAMED[section]
    exact = side.exact if isinstance(side.exact, list) else []
    shown = side.shown if isinstance(side.shown, list) else [side.shown] * len(exact)
    return {str(each[field]): _Side(each, told) for each, told in zip(exact, shown, strict=True)}


def _of_value(setting: str, before: _Side, after: _Side, name: str = "") -> Iterator[Change]:
    if before.exact is not _ABSENT and before.exact == after.exact:
        return
    if isinstance(before.exact, dict) and isinstance(after.exact, dict):
        for inner in dict.fromkeys([*before.exact, *after.exact]):
            below = f"{setting}.{inner}"
            yield from _of_value(below, before.inner(inner), after.inner(inner), name)
        return
    what, effect = _what(before, after), effect_of(setting)
    yield Change(setting, what, effect, before.shown, after.shown, name)


def _what(before: _Side, after: _Side) -> What:
    if before.exact is _ABSENT:
        return "added"
    return "removed" if after.exact is _ABSENT else "changed"


def effect_of(setting: str) -> Effect:
    live = any(setting == each or setting.startswith(f"{each}.") for each in LIVE)
    return "live" if live else "restart"


def _restarted(old: Tree, new: Tree, changes: Sequence[Change]) -> Iterator[str]:
    changed = {each.name for each in changes if each.setting.startswith("subscriptions.")}
    before = {each["id"] for each in old.get("subscriptions", ())}
    for each in new.get("subscriptions", ()):
        replies = _replies(new, each["reply"])
        built = rebuilds(changes, posts=isinstance(each["sink"], str), replies=replies)
        if each["id"] in before and (each["id"] in changed or built):
            yield each["id"]


def _replies(tree: Tree, reply: str) -> set[str]:
    """As ``model.route.taking``."""
    if reply == IGNORE:
        return set()
    found = {reply}
    for each in tree.get("routes", ()):
        match each:
            case {"name": name, "schema": {"on_invalid": {"route": taker}}} if name == reply:
                found.add(taker)
    return found


def _relaxing(tree: Tree) -> Iterator[tuple[str, str, int]]:
    """Routes that have producers of their own (rule 1): name, broker, acks. These are opened at the start."""
    for each in tree.get("routes", ()):
        if each["durability"] == "relaxed" and isinstance(
            each["to"], list
        ):  # else it is a reference
            for target in each["to"]:
                yield each["name"], target["broker"], 1 if each["acks"] is None else each["acks"]


def _relaxed(tree: Tree) -> frozenset[tuple[str, int]]:
    return frozenset((broker, acks) for _, broker, acks in _relaxing(tree))


def _text(value: Any) -> str:
    """Without what is not set: a filter has one dialect of seven."""
    return "nothing" if value is None else msgspec.json.encode(_set(value)).decode()


def _set(value: Any) -> Any:
    match value:
        case dict():
            return {name: _set(inner) for name, inner in value.items() if inner is not None}
        case list():
            return [_set(inner) for inner in value]
    return value
