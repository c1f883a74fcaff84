"""JSON Web Tokens of strangers, and key sets with keys that nobody here knows."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from app.access.signatures import Keys
from app.access.tokens import BadToken, checked_claims, read_head

KEY = RSAKey.generate_key(2048, {"kid": "known"})
CLAIMS = {"iss": "https://id.example", "aud": "skybridge", "exp": 2_000_000_000}


def part(value: Any) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def key_set(*keys: Any) -> Keys:
    return Keys(json.dumps({"keys": [*keys, KEY.as_dict(private=False)]}).encode())


@pytest.mark.parametrize(
    "header",
    [
        {"crit": 5},
        {"crit": [5]},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"jwk": 1},
        {"x5c": 5},
        {"typ": 7},
        {"cty": [1]},
        {"nested": json.loads("[" * 300 + "]" * 300)},
    ],
    ids=str,
)
def test_a_header_of_any_form_is_a_bad_token_and_nothing_else(header: Any) -> None:
    key = key_set().named("known")
    assert key is not None
    named = {"alg": "RS256", "kid": "known", **header}
    token = b".".join((part(named), part(CLAIMS), b"AAAA"))
    with pytest.raises(BadToken):
        read_head(token)
        key.verify(token, 0.0)


@pytest.mark.parametrize(
    "unknown",
    [
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "RSA", "n": "AA", "e": "AA"},
        {"kty": "AKP", "alg": "ML-DSA-44"},
        {},
        5,
    ],
    ids=str,
)
def test_a_key_that_nobody_here_can_read_leaves_the_others(unknown: Any) -> None:
    """RFC 7517 5: an issuer may add a key of a new kind, and goes on with the old one."""
    assert key_set(unknown).named("known") is not None


@pytest.mark.parametrize(
    "document", [b"[]", b"{}", b'{"keys":5}', b"\xff", b'{"keys":' + b"[" * 99_999]
)
def test_what_is_no_key_set_is_said(document: bytes) -> None:
    with pytest.raises(ValueError, match="is not a JWK Set"):
        Keys(document)


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"exp": -59}, ""),
        ({"exp": -60}, "expired-token"),
        ({"nbf": 60}, ""),
        ({"nbf": 61}, "early-token"),
        ({"iat": 60}, ""),
        ({"iat": 61}, "early-token"),
        ({"nbf": -1_000, "iat": -1_000}, ""),
    ],
    ids=str,
)
def test_clocks_may_differ_by_a_minute(claims: dict[str, int], code: str) -> None:
    """Seconds from now. The issuer's clock may be ahead of ours, or behind it."""
    now = 1_900_000_000
    held = {"exp": now + 60} | {name: now + seconds for name, seconds in claims.items()}
    wrong = pytest.raises(BadToken) if code else contextlib.nullcontext()
    with wrong as refused:
        checked_claims(json.dumps(held).encode(), now)
    assert refused is None or refused.value.code == code
