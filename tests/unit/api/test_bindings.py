"""What a token is bound to, as settings and as a limit."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.access.rights import UNBOUND, Binding
from app.api.callers import Access, AccessToken, Callers
from app.config.model import AdminToken, Webhooks
from app.model.scopes import EVERY_SCOPE


@pytest.mark.parametrize(
    ("binding", "name", "within"),
    [
        (UNBOUND, "x", True),
        (Binding(topics=("orders",)), "orders", True),
        (Binding(topics=("orders",)), "orders2", False),
        (Binding(topics=("main/orders",)), "orders", True),
        (Binding(topics=("log/orders",)), "orders", False),
        (Binding(topics=("main/*",)), "orders", True),
        (Binding(topics=("team-a.*", "orders")), "team-a.x", True),
        (Binding(subscriptions=("orders",)), "x", True),
    ],
)
def test_a_topic_is_within_by_its_name_or_with_its_broker(binding, name, within):
    assert binding.topic("main", name) is within


@pytest.mark.parametrize("after", [UNBOUND, Binding(topics=("a",)), Binding(topics=("a", "b"))])
def test_a_stream_lasts_while_the_binding_of_its_token_stays(after: Binding) -> None:
    def callers(binding: Binding) -> Callers:
        return Callers(Access([AccessToken("a", ["the-token"], EVERY_SCOPE, binding)]))

    before = Binding(topics=("a",))
    caller = callers(before).by(b"the-token")
    assert caller is not None
    assert callers(after).admits(caller) is (after == before)


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
