"""The webhook handshake as a target (spec 5.3)."""

from __future__ import annotations

import pytest

from app.gateway.allowed_origins import AllowedOrigins

ASKED = b"webhook-request-origin"


@pytest.mark.parametrize("origin", [b"shop.example.com", b"SHOP.example.com"])
def test_an_allowed_origin_is_told_itself_and_the_rate(origin):
    senders = AllowedOrigins(["other.example", "Shop.Example.com"], 600)
    assert senders.consent({ASKED: origin}) == (
        (b"webhook-allowed-origin", origin),
        (b"webhook-allowed-rate", b"600"),
    )


@pytest.mark.parametrize(
    "origin", [b"", b"shop.example.com.attacker.tld", b"a.shop.example.com", b"example.com", b"*"]
)
def test_another_origin_gets_no_consent(origin):
    """A prefix that matched has been a hole elsewhere."""
    assert AllowedOrigins(["shop.example.com"]).consent({ASKED: origin}) == ()


def test_by_default_everybody_may_at_any_rate():
    assert AllowedOrigins().consent({ASKED: b"x.example"})[1] == (b"webhook-allowed-rate", b"*")
    assert AllowedOrigins().consent({}) == ()
