"""Checks of the admin listener. It needs a token if other machines can reach it, and tokens must be
long and different.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.bindings.forwarding import is_field_value
from app.config.lint.report import LintReport
from app.config.load.finding import Path, written
from app.config.model.config import MIN_TOKEN, Admin
from app.gateway.port import is_loopback
from app.model.scopes import RESERVED

_ADMIN: Path = ("server", "admin")


def check_admin(report: LintReport) -> None:
    admin = report.config.server.admin
    given = list(_tokens(admin))
    fits = [_check_strength(report, path, text) for path, text in given]
    _check_distinct(report, admin, given)
    if is_loopback(admin.host):
        return
    if not given:
        report.error(
            (*_ADMIN, "host"),
            "The admin listener is reachable from other machines and has no token.",
            'Set server.admin.token to "${env:NAME}", or set host to 127.0.0.1.',
        )
    elif all(fits) and admin.tls is None:
        report.warning(
            given[0][0],
            "The admin token crosses the network unencrypted.",
            "Set server.admin.tls, or put a proxy with TLS in front of the admin listener.",
        )


def _tokens(admin: Admin) -> Iterator[tuple[Path, str]]:
    """Yield every token with its path."""
    if admin.token is not None:
        yield (*_ADMIN, "token"), admin.token.get_secret_value()
    for n, each in enumerate(admin.tokens):
        for field in ("token", "previous_token"):
            token = getattr(each, field)
            if token is not None:
                yield (*_ADMIN, "tokens", n, field), token.get_secret_value()


def _check_strength(report: LintReport, path: Path, text: str) -> bool:
    """Report a token that is too short or that no header can carry. Return True if it is long
    enough.
    """
    if len(text) < MIN_TOKEN:
        report.error(
            path,
            f"The token has fewer than {MIN_TOKEN} characters, so it can be guessed.",
            "Use a longer token, made for example by openssl rand -hex 16.",
        )
    elif not is_field_value(text):
        report.error(
            path,
            "The token has a character that no header can carry.",
            "Make a new token, for example by openssl rand -hex 16.",
        )
    return len(text) >= MIN_TOKEN


def _check_distinct(report: LintReport, admin: Admin, given: list[tuple[Path, str]]) -> None:
    """Report tokens with a reserved or repeated name, or with the same text."""
    names = [each.name for each in admin.tokens]
    for n, name in enumerate(names):
        at = (*_ADMIN, "tokens", n, "name")
        if name in RESERVED:
            report.error(
                at, f"The name {name!r} is reserved in the audit log.", "Choose another name."
            )
        elif names.index(name) < n:
            first = names.index(name)
            report.error(
                at,
                f"The name {name!r} is already used by server.admin.tokens[{first}].",
                "Choose another name.",
            )
    seen: dict[str, Path] = {}
    for path, text in given:
        if text in seen:
            other = written(seen[text])
            report.error(
                path,
                f"The token has the same text as {other}.",
                "Give every token its own text, so that the audit log can distinguish them.",
            )
        seen.setdefault(text, path)
