"""The HTTP binding on the project's own corpus: as a function, and through a real socket."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest
from msgspec.structs import replace

from app.bindings import http
from app.bindings.record import ContentMode, Decoded
from app.bindings.transcode import EncodeOptions
from app.errors import Fault, InvalidEvent, SenderError
from app.gateway.limits import ListenerLimits
from app.gateway.publish import Publisher
from app.telemetry import Counters
from configuration import route
from corpus import Case, assert_faults, assert_form, assert_is, assert_same, cases
from corpus_requests import body_of, decode, decode_message, request_bytes
from listening import listening, publishing
from raw_http import RawAnswer, RawConnection
from row_checks import check_every
from scripted_log import ScriptedLog

CASES = cases("http")
VALID = [case for case in CASES if "events" in case.expect]
INVALID = [case for case in CASES if "faults" in case.expect]
REFUSED = [case for case in CASES if "refused" in case.expect]
OPAQUE = [case for case in CASES if "opaque" in case.expect]


def test_a_valid_request_is_the_expected_events() -> None:
    """Attributes, types, version and data, to the letter (H1-H13, V1, V6)."""
    check_every(VALID, assert_decoded)


def assert_decoded(case: Case) -> None:
    decoded, expected = decode(case), case.expect["events"]

    assert len(decoded) == len(expected)
    for one, event in zip(decoded, expected, strict=True):
        assert_is(one.event, event)
        assert not one.opaque
        if one.mode is not ContentMode.BINARY:
            assert_form(one.event, event)


def test_an_invalid_request_has_exactly_its_faults() -> None:
    """All of them and no others, each in its place (core 1.1 to 1.3)."""
    check_every(INVALID, assert_refused)


def assert_refused(case: Case) -> None:
    with pytest.raises(InvalidEvent) as refusal:
        decode(case)

    assert_faults(refusal.value.faults, case.expect["faults"])


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused_as_a_whole_has_its_status(case: Case) -> None:
    """Not a CloudEvent, not in a format or charset of ours, too many (H5, H6, H7)."""
    with pytest.raises(SenderError) as refusal:
        decode(case)

    assert {"status": refusal.value.status, "code": refusal.value.code} == case.expect["refused"]


@pytest.mark.parametrize("case", OPAQUE, ids=str)
def test_an_unknown_format_goes_on_byte_for_byte(case: Case) -> None:
    """H6: it is not read, and what is sent on has the same body and media type."""
    (decoded,) = decode(case)
    sent = http.encode(decoded, EncodeOptions(mode="as_received"))

    assert decoded.opaque
    assert (decoded.document, decoded.media_type) == (
        body_of(case),
        case.expect["opaque"]["media_type"],
    )
    assert sent.body == body_of(case)
    assert dict(sent.headers)["Content-Type"] == case.expect["opaque"]["media_type"]


def test_what_is_sent_again_is_the_same_event() -> None:
    """In the mode it came in, the document written anew: an encoder agrees with its reader."""
    check_every(VALID, assert_sent_again)


def assert_sent_again(case: Case) -> None:
    decoded = decode(case)

    for one, again in zip(decoded, sent_again(decoded, case), strict=True):
        assert_same(one.event, again.event)


def sent_again(decoded: list[Decoded], case: Case) -> list[Decoded]:
    anew = [replace(one, document=None, media_type=None) for one in decoded]
    if not decoded or decoded[0].mode is ContentMode.BATCH:
        return decode_message(http.encode_batch(anew), case.switches)
    mode = "binary" if decoded[0].mode is ContentMode.BINARY else "structured"
    return decode_message(http.encode(anew[0], EncodeOptions(mode=mode)), case.switches)


def by_switches(case: Case) -> str:
    return json.dumps(case.switches, sort_keys=True)


async def test_every_request_through_a_socket_has_its_status_and_faults() -> None:
    """What the function says is what a sender gets: 202 and stored, or the exact refusal."""
    wrong: list[Any] = []
    for _, group in groupby(sorted(CASES, key=by_switches), key=by_switches):
        rows = list(group)
        log: Any = ScriptedLog(at_once=True)
        async with listening(publisher(log, rows[0].switches)) as server:
            for case in rows:
                stored = log.stored
                problem = differs(case, await answer_to(server.port, case), log.stored - stored)
                if problem:
                    wrong.append((str(case), problem))
    assert wrong == []


def publisher(log: Any, switches: dict[str, Any]) -> Publisher:
    settings = dict(switches)
    limits = ListenerLimits(batch_events=settings.pop("max_batch", ListenerLimits().batch_events))
    return publishing([route("t")], log, Counters(), limits=limits, **settings)


async def answer_to(port: int, case: Case) -> RawAnswer:
    async with await RawConnection.open(port) as peer:
        await peer.send(request_bytes(case))
        return await peer.answer()


def differs(case: Case, answer: RawAnswer, stored: int) -> str:
    """What is not as the case says; nothing when all is well."""
    taken = case.expect.get("events", [None] if "opaque" in case.expect else [])
    if stored != len(taken):
        return f"{stored} stored, {answer.status} {answer.body!r}"
    if "events" in case.expect or "opaque" in case.expect:
        return "" if (answer.status, answer.body) == (202, b"") else f"{answer.status}"
    problem = json.loads(answer.body)
    refused = case.expect.get("refused", {"status": 400, "code": "invalid-event"})
    told = {"status": answer.status, "code": problem["type"].rpartition(":")[2]}
    if told != refused:
        return str(told)
    return faults_differ(case, problem.get("faults", []))


def faults_differ(case: Case, faults: list[dict[str, Any]]) -> str:
    if "faults" not in case.expect:
        return ""
    try:
        assert_faults([Fault(**fault) for fault in faults], case.expect["faults"])
    except AssertionError as error:
        return str(error)
    return ""
