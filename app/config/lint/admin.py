"""Checks of the admin listener: somebody must be asked for a token, and no token can be guessed or mistaken."""

from __future__ import annotations

from collections.abc import Iterator

from app.bindings.forwarding import is_field_value
from app.config.lint.report import Report
from app.config.load.finding import Path, written
from app.config.model.config import MIN_TOKEN, Admin
from app.gateway.port import is_loopback
from app.model.scopes import RESERVED

_ADMIN: Path = ("server", "admin")


def check_admin(report: Report) -> None:
    admin = report.config.server.admin
    given = list(_given(admin))
    fits = [_cannot_be_guessed(report, path, text) for path, text in given]
    _are_told_apart(report, admin, given)
    if is_loopback(admin.host):
        return
    if not given:
        report.error(
            (*_ADMIN, "host"),
            "the admin listener off loopback needs a token",
            'set server.admin.token to "${env:NAME}", or host to 127.0.0.1',
        )
    elif all(fits) and admin.tls is None:
        report.warning(
            given[0][0],
            "the token crosses the network in clear",
            "set server.admin.tls, or put a proxy with TLS in front",
        )


def _given(admin: Admin) -> Iterator[tuple[Path, str]]:
    """Every token with its place."""
    if admin.token is not None:
        yield (*_ADMIN, "token"), admin.token.get_secret_value()
    for n, each in enumerate(admin.tokens):
        for field in ("token", "previous_token"):
            token = getattr(each, field)
            if token is not None:
                yield (*_ADMIN, "tokens", n, field), token.get_secret_value()


def _cannot_be_guessed(report: Report, path: Path, text: str) -> bool:
    if len(text) < MIN_TOKEN:
        report.error(
            path,
            f"has fewer than {MIN_TOKEN} characters and can be guessed",
            "use a longer one, for example: openssl rand -hex 16",
        )
    elif not is_field_value(text):
        report.error(
            path, "has a character that no header can carry", "make one: openssl rand -hex 16"
        )
    return len(text) >= MIN_TOKEN


def _are_told_apart(report: Report, admin: Admin, given: list[tuple[Path, str]]) -> None:
    names = [each.name for each in admin.tokens]
    for n, name in enumerate(names):
        at = (*_ADMIN, "tokens", n, "name")
        if name in RESERVED:
            report.error(at, f"{name!r} stands for another caller in the audit", "choose another")
        elif names.index(name) < n:
            first = names.index(name)
            report.error(at, f"{name!r} is taken by server.admin.tokens[{first}]", "choose another")
    seen: dict[str, Path] = {}
    for path, text in given:
        if text in seen:
            report.error(
                path,
                f"is the same text as {written(seen[text])}",
                "give every token a text of its own: the audit could not tell them apart",
            )
        seen.setdefault(text, path)
