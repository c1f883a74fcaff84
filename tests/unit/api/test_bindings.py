"""What a token is bound to, as settings and as a limit."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from app.access.rights import UNBOUND, TokenRestriction
from app.api.access import limited_parts, limited_store
from app.api.access.callers import AccessToken, AdminAccess, AdminCaller, CallerDirectory
from app.api.access.limited_parts import LogWithin, reachable_parts
from app.api.access.reach import OutsideBinding, Reach
from app.api.access.redaction import Redaction
from app.api.asked.readiness import ReadinessSource
from app.api.asked.registry import Registry
from app.api.asked.routes import Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.http.given import ServiceParts
from app.bindings.record import Record
from app.config.model.config import AdminToken, Webhooks
from app.errors import BrokerRefused
from app.interfaces import Attempts, DeadLetters, Log, ParkedMessages, PullQueue
from app.model.message import Partition
from app.model.scopes import EVERY_SCOPE
from fake_log import FakeLog


@pytest.mark.parametrize(
    ("binding", "name", "within"),
    [
        (UNBOUND, "x", True),
        (TokenRestriction(topics=("orders",)), "orders", True),
        (TokenRestriction(topics=("orders",)), "orders2", False),
        (TokenRestriction(topics=("main/orders",)), "orders", True),
        (TokenRestriction(topics=("log/orders",)), "orders", False),
        (TokenRestriction(topics=("main/*",)), "orders", True),
        (TokenRestriction(topics=("team-a.*", "orders")), "team-a.x", True),
        (TokenRestriction(subscriptions=("orders",)), "x", True),
    ],
)
def test_a_topic_is_within_by_its_name_or_with_its_broker(binding, name, within):
    assert binding.topic("main", name) is within


@pytest.mark.parametrize(
    "after", [UNBOUND, TokenRestriction(topics=("a",)), TokenRestriction(topics=("a", "b"))]
)
def test_a_stream_lasts_while_the_binding_of_its_token_stays(after: TokenRestriction) -> None:
    def callers(binding: TokenRestriction) -> CallerDirectory:
        return CallerDirectory(AdminAccess([AccessToken("a", ["the-token"], EVERY_SCOPE, binding)]))

    before = TokenRestriction(topics=("a",))
    caller = callers(before).by_token(b"the-token")
    assert caller is not None
    assert callers(after).still_allows(caller) is (after == before)


@pytest.mark.parametrize(
    ("entry", "valid"),
    [
        ("hooks.example", True), ("*.example", True), ("10.0.0.0/8", True), ("fd00::/8", True), ("::1", True),
        ("https://hooks.example", True), ("https://hooks.example:8443/a/*", True), ("http://[::1]:80/a", True),
        ("https://hooks.example*", False), ("https://*.example/", False), ("https://a@hooks.example/", False),
        ("https://hooks.example/*/a", False), ("https://*", False), ("ftp://hooks.example/", False), ("", False),
    ],
)  # fmt: skip
def test_a_target_is_a_host_a_network_or_a_url(entry: str, valid: bool) -> None:
    if valid:
        assert Webhooks(configurable_targets=(entry,)).configurable_targets == (entry,)
        return
    with pytest.raises(ValidationError):
        Webhooks(configurable_targets=(entry,))


@pytest.mark.parametrize("field", ["subscriptions", "topics", "event_sources"])
@pytest.mark.parametrize("patterns", [[], [""], ["a*b"], ["*a"]])
def test_a_binding_that_says_nothing_or_something_else_is_refused(
    field: str, patterns: Any
) -> None:
    """An empty list would look like no binding to a reader, and like one that forbids all to another."""
    settings = {"name": "a", "token": "a-token-of-the-team-a", "scopes": ["read"]}
    assert AdminToken.model_validate(settings | {field: ["a*"]})
    with pytest.raises(ValidationError):
        AdminToken.model_validate(settings | {field: patterns})


async def test_a_log_shows_the_topics_within_alone() -> None:
    log = FakeLog("log")
    for topic in ("orders", "payments"):
        await log.create_topic(topic, 1)
        log.submit(topic, [Record(None, (), b"x")])
    caller = AdminCaller(
        "a", EVERY_SCOPE, Redaction(None), binding=TokenRestriction(topics=("orders",))
    )
    bound = LogWithin(log, Reach(caller, {}))
    assert [each.name for each in (await bound.metadata()).topics] == ["orders"]
    both = await bound.metadata(["orders", "payments"])
    assert [each.name for each in both.topics] == ["orders"]
    with pytest.raises(BrokerRefused, match="payments is not included"):
        await bound.metadata(["payments"])
    with pytest.raises(OutsideBinding):
        bound.read(Partition("payments", 0), "0")
    assert [each.record.body async for each in bound.read(Partition("orders", 0), "0")] == [b"x"]


@pytest.mark.parametrize(
    ("view", "whole"),
    [
        (limited_parts.ReadinessWithin, ReadinessSource),
        (limited_parts.SubscriptionsWithin, Subscriptions),
        (limited_parts.RegistryWithin, Registry),
        (limited_parts.LogWithin, Log),
        (limited_store.LettersWithin, DeadLetters),
        (limited_store.ParkedWithin, ParkedMessages),
        (limited_store.AttemptsWithin, Attempts),
        (limited_store.PulledWithin, PullQueue),
    ],
)
def test_a_view_has_the_methods_of_what_it_shows(view: type, whole: type) -> None:
    """No type checker compares them, because a view passes everything else through."""
    methods = {name: each for name, each in vars(view).items() if name[0] != "_"}
    assert methods
    for name, method in methods.items():
        shown = getattr(whole, name)
        assert inspect.iscoroutinefunction(method) is inspect.iscoroutinefunction(shown), name
        mine, theirs = (list(inspect.signature(each).parameters) for each in (method, shown))
        named = [each for each in mine if each not in {"more", "others"}]
        assert named == theirs[: len(named)], name


def test_a_part_that_was_not_given_is_named() -> None:
    with pytest.raises(LookupError, match="no Registry"):
        ServiceParts().of(Registry)


@pytest.mark.parametrize(
    ("binding", "targets", "limited"),
    [
        (UNBOUND, None, set()),
        (UNBOUND, (), {Registry}),
        (TokenRestriction(event_sources=("/a",)), None, {Registry}),
        (TokenRestriction(topics=("a",)), None, {Registry, ReadinessSource, Subscriptions}),
        (TokenRestriction(subscriptions=("a",)), (), {Registry, ReadinessSource, Subscriptions}),
    ],
)
async def test_each_kind_of_part_is_limited_to_what_its_caller_reaches(
    binding: TokenRestriction, targets: tuple[str, ...] | None, limited: set[type[Any]]
) -> None:
    """One that chooses among all parts may still not make every subscription."""

    class Whole:
        async def declared(self) -> list[Any]:
            return []

        entries = declared

    whole: Any = Whole()
    given = ServiceParts()
    kinds = (ReadinessSource, Registry, Routes, Subscriptions)
    for kind in kinds:
        given.add(kind, whole)
    caller = AdminCaller("a", EVERY_SCOPE, Redaction(None), binding=binding, targets=targets)
    parts = await reachable_parts(given, caller)
    assert {kind for kind in kinds if parts.of(kind) is not whole} == limited
    assert (await reachable_parts(given, None)).of(Registry) is whole
