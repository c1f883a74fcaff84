"""Write the message of an alert as a CloudEvent of type ``dev.skybridge.alert``. Pure.

=============  ===========================================================================
member         value
=============  ===========================================================================
alert          name of the alert
state          ``problem``; ``recovered`` if no problem is left; ``test``
title          one line
text           the whole message as plain text, of at most ``MOST`` characters after escaping
severity       error, warning or info, as PagerDuty names them
incident       one text for all messages of the alert, for incidents that are closed later; a test has its own
problems       each problem: verdict, subject, detail, cure, command, since, link; at most ``MOST_IN_DATA``
recovered      each problem that is over: verdict, subject, since; at most ``MOST_IN_DATA``
link           the console, if ``server.admin.public_url`` is set
=============  ===========================================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from app.delivery.alert_plan import AlertMessage, FoundProblem
from app.delivery.subscription_verdicts import counted, duration_text
from app.event.value import CloudEvent, DataForm

TYPE = "dev.skybridge.alert"
MOST = 1_900  # characters of a text; Discord takes 2,000
MOST_LISTED = 8  # problems that the text lists
MOST_DETAIL = 300  # characters of a detail in the text
_ESCAPED = frozenset("\\*_~`|>[]<#@")  # Discord writes a backslash before each
MOST_IN_DATA = 200  # problems in the data; PagerDuty takes 512 KiB
MOST_DETAIL_IN_DATA = 1_000  # characters of a detail in the data


class AlertOrigin(NamedTuple):
    """The alert and the installation that a message names. ``console`` is the URL of the admin listener, or ""."""

    installation: str
    alert: str
    console: str = ""


def event_of(message: AlertMessage, origin: AlertOrigin, id_: str, now_ms: int) -> CloudEvent:
    """Return the event of a message."""
    state = "problem" if message.problems else "recovered"
    worst = message.problems[0].verdict.severity if message.problems else "info"
    lines = [*_problem_lines(message, origin, now_ms), *_recovered_lines(message, now_ms)]
    return _event(
        origin,
        id_,
        now_ms,
        state=state,
        severity="info" if worst == "notice" else worst,
        title=_title(message, origin),
        lines=lines,
        problems=[_document(each, origin) for each in message.problems[:MOST_IN_DATA]],
        recovered=[
            {
                "verdict": each.verdict.name,
                "subject": each.verdict.subject,
                "since": _time(each.since_ms),
            }
            for each in message.recovered[:MOST_IN_DATA]
        ],
    )


def test_event(origin: AlertOrigin, id_: str, now_ms: int) -> CloudEvent:
    """Return the event of a test message, which reports no problem."""
    title = f"Skybridge {origin.installation}: test of alert {origin.alert}"
    lines = ["An operator sent this message. It reports no problem."]
    return _event(
        origin,
        id_,
        now_ms,
        state="test",
        severity="info",
        title=title,
        lines=lines,
        problems=[],
        recovered=[],
    )


def _event(
    origin: AlertOrigin,
    id_: str,
    now_ms: int,
    *,
    state: str,
    severity: str,
    title: str,
    lines: Sequence[str],
    problems: Sequence[object],
    recovered: Sequence[object],
) -> CloudEvent:
    console = {"link": f"{origin.console}/console/"} if origin.console else {}
    data = {
        "alert": origin.alert,
        "state": state,
        "title": title,
        "text": _clipped_escaped("\n".join([title, *lines]), MOST),
        "severity": severity,
        "incident": f"skybridge {origin.installation} {origin.alert}{' test' if state == 'test' else ''}",
        "problems": problems,
        "recovered": recovered,
        **console,
    }
    attributes = {
        "specversion": "1.0",
        "id": id_,
        "source": f"/skybridge/{origin.installation}",
        "type": TYPE,
        "subject": origin.alert,
        "time": _time(now_ms),
        "datacontenttype": "application/json",
    }
    return CloudEvent(attributes, msgspec.json.encode(data), DataForm.JSON)


def _title(message: AlertMessage, origin: AlertOrigin) -> str:
    name = f"Skybridge {origin.installation}"
    if not message.problems:
        return f"{name}: recovered, nothing needs attention"
    verb = "still need" if message.is_reminder else "need"
    count = len(message.problems)
    noun = "thing" if count == 1 else "things"
    return f"{name}: {count} {noun} {verb}{'s' if count == 1 else ''} attention"


def _problem_lines(message: AlertMessage, origin: AlertOrigin, now_ms: int) -> Iterator[str]:
    for each in message.problems[:MOST_LISTED]:
        verdict = each.verdict
        lasts = "" if each.is_new else f" (for {_lasted(each.since_ms, now_ms)})"
        yield f"- {verdict.subject}: {_clipped(verdict.detail, MOST_DETAIL)}{lasts}"
        yield f"  Cure: {verdict.cure}"
        yield f"  {verdict.command}"
        link = _link(verdict.subject, origin)
        if link:
            yield f"  {link}"
    more = len(message.problems) - MOST_LISTED
    if more > 0:
        yield f"And {counted(more, 'other')}: skybridge status lists all."


def _recovered_lines(message: AlertMessage, now_ms: int) -> Iterator[str]:
    for each in message.recovered[:MOST_LISTED]:
        name, subject = each.key
        yield f"Recovered: {subject} ({name}), after {_lasted(each.since_ms, now_ms)}"
    more = len(message.recovered) - MOST_LISTED
    if more > 0:
        yield f"Recovered: {counted(more, 'other')}"


def _document(each: FoundProblem, origin: AlertOrigin) -> dict[str, object]:
    verdict = each.verdict
    link = _link(verdict.subject, origin)
    return {
        "verdict": verdict.name,
        "severity": verdict.severity,
        "subject": verdict.subject,
        "detail": _clipped(verdict.detail, MOST_DETAIL_IN_DATA),
        "cure": verdict.cure,
        "command": verdict.command,
        "since": _time(each.since_ms),
        "new": each.is_new,
        **({"link": link} if link else {}),
    }


def _link(subject: str, origin: AlertOrigin) -> str:
    """Return the address of the console's page about a subject, or ""."""
    if not origin.console:
        return ""
    kind, _, name = subject.partition(" ")
    page = f"subscriptions/{quote(name, safe='')}" if kind == "subscription" and name else ""
    return f"{origin.console}/console/#/{page}"


def _lasted(since_ms: int, now_ms: int) -> str:
    return duration_text(max(0, now_ms - since_ms) / 1000)


def _time(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _clipped_escaped(text: str, most: int) -> str:
    """Return the text, clipped so that it has at most ``most`` characters even if Discord's markup is escaped. A
    character beyond 16 bits counts as two."""
    size = 0
    for place, character in enumerate(text):
        size += 2 if character in _ESCAPED or character > "\uffff" else 1
        if size >= most and (size > most or place < len(text) - 1):
            return f"{text[:place]}…"
    return text
