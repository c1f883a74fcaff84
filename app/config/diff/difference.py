"""Compare two configurations setting by setting, and decide which changes need a restart. Pure.

Two routes are compared if they have the same name, and two subscriptions if they have the same id.
So if one is inserted, the others count as unchanged. A setting that is not in ``LIVE`` needs a
restart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from app.config.diff.shown import NAMED, ConfigView, Tree
from app.delivery.backoff import schedule_warning
from app.model.subscription import IGNORE

What = Literal["added", "removed", "changed", "moved"]
Effect = Literal["live", "restart"]

LIVE = (
    "routes",
    "intakes",
    "producers",
    "subscriptions",
    "alerts",
    "server.admin.token",
    "server.events.access",
    "server.events.address_quota",
    "server.admin.tokens",
    "server.admin.mask",
    "server.admin.console",
    "server.admin.public_url",
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
    "operator",
)
"""The settings that a reload applies, with all settings inside them. ``pipeline`` and ``operator`` are in the
list because only commands read them, not the service.
"""

_WEBHOOKS = (
    *("webhooks.allow_private", "webhooks.origin", "webhooks.proxy", "timeouts.webhook_"),
    "limits.body",  # bounds a shaped request
)
_REPLIES = "limits.max_batch"
_SCHEDULE = ".retry.schedule"
_OVERRIDE = "${env:SKYBRIDGE_"
_ABSENT = object()


class SettingChange(msgspec.Struct, frozen=True):
    """The change of one setting, or of a whole route or subscription.

    ``old`` and ``new`` are redacted values, or None if the setting is absent. ``name`` is the name
    of the changed route, or the id of the changed subscription.
    """

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
    """The changes between two configurations.

    ``restarted`` has the ids of subscriptions that restart at their position. These are
    subscriptions of the file whose settings changed, or that use another setting that changed.
    """

    changes: tuple[SettingChange, ...]
    restarted: tuple[str, ...] = ()

    @property
    def restarts(self) -> tuple[SettingChange, ...]:
        """Return the changes that need a restart of the service."""
        return tuple(each for each in self.changes if each.effect == "restart")

    @property
    def result(self) -> Literal["no-change", "changes", "needs-restart"]:
        """Return the result in one word. For ``needs-restart`` a reload is refused."""
        if self.restarts:
            return "needs-restart"
        return "changes" if self.changes else "no-change"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the effect of the changes on events that already wait for delivery."""
        return tuple(filter(None, map(_spool_warning, self.changes))) + tuple(
            filter(None, map(_schedule_warning, self.changes))
        )


def _spool_warning(change: SettingChange) -> str:
    """Return a warning if a change affects events that wait in a spool, or empty text."""
    section, _, rest = change.setting.partition(".")
    old = change.old if isinstance(change.old, dict) else {}
    if section == "routes" and change.what == "removed":
        if rest.endswith(".spool") or old.get("spool"):
            return f"routes.{change.name}: the spool stays until it is empty; keep its embedded log until then"
        return ""
    gone = change.what == "removed" and old.get("kind") == "embedded"
    if section == "brokers" and (gone or rest.endswith(".path")):
        name = rest.removesuffix(".path")
        return f"brokers.{name}: events in spools on this log would not be published; drain the spools first"
    return ""


def _schedule_warning(change: SettingChange) -> str:
    """Return a warning if waiting events become dead letters because a change makes the retry
    schedule shorter. Otherwise return empty text.
    """
    schedules = change.setting.startswith("subscriptions.") and change.setting.endswith(_SCHEDULE)
    match change.old, change.new:
        case list(old), list(new) if schedules:
            return schedule_warning(change.name, old, new)
    return ""


def difference(old: ConfigView, new: ConfigView) -> Difference:
    """Return the changes from ``old`` to ``new``, and the subscriptions that restart because of
    these changes.
    """
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
    """Return the difference without settings that environment variables of the service override.
    The variables would still override these settings after a reload.
    """
    kept = [
        each
        for each in found.changes
        if not (isinstance(each.old, str) and each.old.startswith(_OVERRIDE))
    ]
    return found._replace(changes=tuple(kept))


def rebuilds(changes: Sequence[SettingChange], *, posts: bool, replies: Collection[str]) -> bool:
    """Return True if the sink of a subscription must be rebuilt although its own settings are
    equal.

    A sink must be rebuilt if it is a webhook (``posts``) and a setting of all webhooks changed. It
    must also be rebuilt if a route in ``replies`` changed, which publishes events from the
    webhook's answers.
    """
    if not posts:
        return False
    return any(
        each.setting.startswith(_WEBHOOKS)
        or (replies and each.setting == _REPLIES)
        or (each.setting.startswith("routes.") and each.what != "moved" and each.name in replies)
        for each in changes
    )


def _changes(old: ConfigView, new: ConfigView) -> Iterator[SettingChange]:
    for section in dict.fromkeys([*old.exact, *new.exact]):
        before = _Side(old.exact.get(section, _ABSENT), old.shown.get(section))
        after = _Side(new.exact.get(section, _ABSENT), new.shown.get(section))
        if section in NAMED and not isinstance(before.shown, str | None):
            yield from _of_list(section, before, after)
        else:
            yield from _of_value(section, before, after)


class _Side(NamedTuple):
    """The exact and the redacted value of a setting in one of the two compared configurations."""

    exact: Tree
    shown: Tree

    def inner(self, name: str) -> _Side:
        exact = self.exact.get(name, _ABSENT) if isinstance(self.exact, dict) else _ABSENT
        shown = self.shown.get(name) if isinstance(self.shown, dict) else self.shown
        return _Side(exact, shown)


def _of_list(section: str, before: _Side, after: _Side) -> Iterator[SettingChange]:
    """Yield the changes of a list whose members have names. For routes, another order is a change
    too.
    """
    olds, news = _by_name(section, before), _by_name(section, after)
    for name in dict.fromkeys([*olds, *news]):
        setting = f"{section}.{name}"
        if name not in news:
            yield SettingChange(setting, "removed", "live", olds[name].shown, None, name)
        elif name not in olds:
            yield SettingChange(setting, "added", "live", None, news[name].shown, name)
        else:
            yield from _of_value(setting, olds[name], news[name], name)
    if section == "routes":  # the first match wins
        stay = [name for name in olds if name in news]
        now = [name for name in news if name in olds]
        for name, other in zip(stay, now, strict=True):
            if name != other:
                yield SettingChange(f"{section}.{other}", "moved", "live", name=other)


def _by_name(section: str, side: _Side) -> Mapping[str, _Side]:
    field = NAMED[section]
    exact = side.exact if isinstance(side.exact, list) else []
    shown = side.shown if isinstance(side.shown, list) else [side.shown] * len(exact)
    return {str(each[field]): _Side(each, view) for each, view in zip(exact, shown, strict=True)}


def _of_value(setting: str, before: _Side, after: _Side, name: str = "") -> Iterator[SettingChange]:
    if before.exact is not _ABSENT and before.exact == after.exact:
        return
    if isinstance(before.exact, dict) and isinstance(after.exact, dict):
        for inner in dict.fromkeys([*before.exact, *after.exact]):
            path = f"{setting}.{inner}"
            yield from _of_value(path, before.inner(inner), after.inner(inner), name)
        return
    what, effect = _what(before, after), effect_of(setting)
    yield SettingChange(setting, what, effect, before.shown, after.shown, name)


def _what(before: _Side, after: _Side) -> What:
    if before.exact is _ABSENT:
        return "added"
    return "removed" if after.exact is _ABSENT else "changed"


def effect_of(setting: str) -> Effect:
    live = any(setting == each or setting.startswith(f"{each}.") for each in LIVE)
    return "live" if live else "restart"


def _restarted(old: Tree, new: Tree, changes: Sequence[SettingChange]) -> Iterator[str]:
    changed = {each.name for each in changes if each.setting.startswith("subscriptions.")}
    before = {each["id"] for each in old.get("subscriptions", ())}
    for each in new.get("subscriptions", ()):
        replies = _replies(new, each["reply"])
        built = rebuilds(changes, posts=isinstance(each["sink"], str), replies=replies)
        if each["id"] in before and (each["id"] in changed or built):
            yield each["id"]


def _replies(tree: Tree, reply: str) -> set[str]:
    """Return the names of the routes that may publish the replies of a subscription."""
    if reply == IGNORE:
        return set()
    found = {reply}
    for each in tree.get("routes", ()):
        match each:
            case {"name": name, "schema": {"on_invalid": {"route": taker}}} if name == reply:
                found.add(taker)
    return found


def _relaxing(tree: Tree) -> Iterator[tuple[str, str, int]]:
    """Yield the route name, broker and acks of each target with relaxed durability. The Kafka
    producers for these targets are opened at the start of the service.
    """
    for each in tree.get("routes", ()):
        is_reference = not isinstance(each["to"], list)
        if each["durability"] == "relaxed" and not is_reference:
            for target in each["to"]:
                yield each["name"], target["broker"], 1 if each["acks"] is None else each["acks"]


def _relaxed(tree: Tree) -> frozenset[tuple[str, int]]:
    return frozenset((broker, acks) for _, broker, acks in _relaxing(tree))


def _text(value: Any) -> str:
    """Return a value as JSON, without members that are not set. For example, only one of the seven
    dialects of a filter is set.
    """
    return "nothing" if value is None else msgspec.json.encode(_set(value)).decode()


def _set(value: Any) -> Any:
    match value:
        case dict():
            return {name: _set(inner) for name, inner in value.items() if inner is not None}
        case list():
            return [_set(inner) for inner in value]
    return value
