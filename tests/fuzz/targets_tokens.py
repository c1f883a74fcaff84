"""Tokens of producers before their signature is verified."""

from __future__ import annotations

import base64

from app.access.tokens import BadToken, checked_claims, ends_at, read_head
from fuzz.target import Target, demand


def check_token(data: bytes) -> None:
    """Read the head of a token, and the claims of a payload, or refuse them."""
    try:
        head = read_head(data)
    except BadToken as error:
        demand(str(error).isprintable())
    else:
        assert head.issuer.encode("utf-8", "surrogatepass") is not None
    try:
        claims = checked_claims(data, 1e9)
    except BadToken:
        return
    assert ends_at(claims) > 1e9


def _part(text: bytes) -> bytes:
    return base64.urlsafe_b64encode(text).rstrip(b"=")


_CLAIMS = b'{"iss":"https://i","exp":1000000100,"nbf":1e3,"iat":1,"aud":["a"]}'
TARGETS = (
    Target(
        "tokens",
        check_token,
        [_CLAIMS, b".".join((_part(b'{"alg":"RS256","kid":"k"}'), _part(_CLAIMS), b"c2ln"))],
        [b'"exp"', b'"crit"', b'"alg"', b'"none"', b"1e999", b"-1e400", b"eyJ", b".."],
    ),
)
