"""Thirteen things that the official Python SDK gets wrong: ours beside what its release 2.2.0 does.

Each test shows ours right, and that the SDK still does what the list says: when it is mended, the test
fails and the list is shortened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import amqp as sdk_amqp
from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.bindings import kafka as sdk_kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent

from app.bindings import http, kafka, rabbitmq
from app.bindings.headers import NotACloudEvent
from app.bindings.record import ContentMode, Decoded, Record
from app.bindings.transcode import PLAIN
from app.errors import InvalidEvent
from app.event.value import CloudEvent
from app.formats.json import read_event, write_event

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CE_HTTP = {f"ce-{name}": text for name, text in REQUIRED.items()}
CE_KAFKA = {f"ce_{name}": text.encode() for name, text in REQUIRED.items()}
DOCUMENT = json.dumps(REQUIRED).encode()
STRUCTURED = "application/cloudevents+json"


def document(**members: object) -> bytes:
    return json.dumps(REQUIRED | members).encode()


def sdk_document(text: bytes) -> BaseCloudEvent:
    return JSONFormat().read(None, text)


def sdk_request(headers: dict[str, str], body: bytes = b"") -> BaseCloudEvent:
    return sdk_http.from_http_event(sdk_http.HTTPMessage(headers, body))


def sdk_record(
    headers: dict[str, bytes | None], key: bytes | None = None, value: bytes = b""
) -> BaseCloudEvent:
    return sdk_kafka.from_kafka_event(sdk_kafka.KafkaMessage(headers, key, value))


def sdk_event(data: object = None, **attributes: object) -> BaseCloudEvent:
    return SdkEvent(REQUIRED | attributes, data)


def request(headers: dict[str, str], body: bytes = b"") -> CloudEvent:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    (decoded,) = http.decode(pairs, body)
    return decoded.event


def record(
    headers: dict[str, bytes | None], key: bytes | None = None, value: bytes | None = None
) -> CloudEvent:
    return kafka.decode(Record(key, tuple(headers.items()), value)).event


def body_of(text: bytes) -> bytes | None:
    """The record value that a document's data becomes."""
    return kafka.encode(Decoded(read_event(text), ContentMode.STRUCTURED), PLAIN, None).body


def refused(read: Callable[[], object]) -> None:
    with pytest.raises(InvalidEvent):
        read()


def test_the_sdk_is_the_one_that_is_described() -> None:
    """Else the comparisons below would be of something else."""
    assert version("cloudevents") == "2.2.0"


@pytest.mark.parametrize("name", ["id", "specversion"])
def test_defect_01_missing_attributes_are_invented(name: str) -> None:
    """I7: an event without id is refused, not given one; and time stays absent."""
    headers = {header: text for header, text in CE_HTTP.items() if header != f"ce-{name}"}

    refused(lambda: request(headers))
    assert "time" not in request(CE_HTTP).attributes
    assert sdk_request(headers).get_attributes()[name]
    assert sdk_request(CE_HTTP).get_time() is not None


def test_defect_02_mirrored_headers_decide_the_mode() -> None:
    """H4, H12: the content type does."""
    headers = CE_HTTP | {"content-type": STRUCTURED}

    assert request(headers, DOCUMENT).datacontenttype is None
    assert request(headers, DOCUMENT).data is None
    assert sdk_request(headers, DOCUMENT).get_datacontenttype() == STRUCTURED
    assert sdk_request(headers, DOCUMENT).get_data() == REQUIRED


def test_defect_03_null_attributes_are_faults() -> None:
    """J2: they are unset."""
    for name in ("time", "subject", "ext"):
        assert read_event(document(**{name: None})).attributes == REQUIRED
    with pytest.raises(TypeError):
        sdk_document(document(time=None))
    with pytest.raises(Exception, match="subject"):
        sdk_document(document(subject=None))
    assert "ext" in sdk_document(document(ext=None)).get_attributes()


def test_defect_04_json_data_is_not_written_as_json() -> None:
    """J9, J11: null is kept, strings keep their quotes, lists and booleans are JSON."""
    values = (None, "just text", ["a", True, None], True)
    sdk = [sdk_http.to_binary_event(sdk_event(value)).body for value in values]

    assert [body_of(document(data=value)) for value in values] == [
        json.dumps(value).encode() for value in values
    ]
    assert sdk == [b"", b"just text", b"['a', True, None]", b"True"]
    assert b"data" not in JSONFormat().write(sdk_document(document(data=None)))


def test_defect_05_values_in_headers_are_those_of_python() -> None:
    """core 1.3: canonical text."""
    event = read_event(document(flag=True, bin="YWI="))
    headers = dict(
        kafka.encode(Decoded(event, ContentMode.STRUCTURED), PLAIN, None).headers,
    )
    sdk = sdk_http.to_binary_event(sdk_event(flag=True, bin=b"ab")).headers

    assert (headers["ce_flag"], headers["ce_bin"]) == (b"true", b"YWI=")
    assert (sdk["ce-flag"], sdk["ce-bin"]) == ("True", "b'ab'")


def test_defect_06_bad_utf8_is_replaced_and_quotes_are_kept() -> None:
    """HTTP 3.1.3.2: refused; and unquoted."""
    bad, quoted = CE_HTTP | {"ce-x": "%C0%A0"}, CE_HTTP | {"ce-x": '"a b"'}

    refused(lambda: request(bad))
    assert request(quoted).attributes["x"] == "a b"
    assert "\ufffd" in sdk_request(bad).get_extension("x")
    assert sdk_request(quoted).get_extension("x") == '"a b"'


@pytest.mark.parametrize(
    "spelling",
    ["Application/JSON", "model/x+json", "application/vnd.a_b+json", "application/json ;a=b"],
)
def test_defect_07_json_is_known_in_few_spellings(spelling: str) -> None:
    """J6: any spelling; and text under a JSON type that is not JSON is passed on as bytes."""
    headers = CE_HTTP | {"content-type": spelling}

    assert b'"data":{"a":1}' in write_event(request(headers, b'{"a":1}'))
    assert b'"data_base64"' in write_event(request(headers, b'{"a":'))
    assert sdk_request(headers, b'{"a":1}').get_data() == '{"a":1}'
    assert sdk_request(CE_HTTP | {"content-type": "application/json"}, b"{").get_data() == "{"


def test_defect_08_bytes_become_text_and_numbers_are_rounded() -> None:
    """H9, trap 6: the body is never looked into; NaN is no JSON; a byte order mark is tolerated."""
    octets = CE_HTTP | {"content-type": "application/octet-stream"}
    number = CE_HTTP | {"content-type": "application/json"}

    assert b'"data_base64":"YWJj"' in write_event(request(octets, b"abc"))
    assert request(number, b'{"a":1.10}').data == b'{"a":1.10}'
    refused(lambda: read_event(DOCUMENT[:-1] + b',"data":[NaN]}'))
    assert read_event(b"\xef\xbb\xbf" + DOCUMENT).attributes == REQUIRED

    assert sdk_request(octets, b"abc").get_data() == "abc"
    sent_on = sdk_http.to_binary_event(sdk_request(number, b'{"a":1.10}'))
    assert sent_on.body == b'{"a": 1.1}'
    assert b"NaN" in JSONFormat().write(sdk_document(DOCUMENT[:-1] + b',"data":[NaN]}'))
    with pytest.raises(json.JSONDecodeError, match="BOM"):
        sdk_document(b"\xef\xbb\xbf" + DOCUMENT)


@pytest.mark.parametrize(
    "time",
    ["20180405T173100Z", "2018-04-05T24:00:00Z", "2018-04-05T17:31Z", "2018-04-05T17:31:00+05",
     "2018-W14-4T17:31:00Z"],
)  # fmt: skip
def test_defect_09_times_are_of_iso_8601(time: str) -> None:
    """RFC 3339 is much narrower."""
    refused(lambda: read_event(document(time=time)))
    assert sdk_document(document(time=time)).get_time() is not None


def test_defect_09_nanoseconds_are_cut_and_leap_seconds_refused() -> None:
    """A time goes on as the text that it came as."""
    fine, leap = "2018-04-05T17:31:00.123456789Z", "2016-12-31T23:59:60Z"

    assert read_event(document(time=fine)).attributes["time"] == fine
    assert read_event(document(time=leap)).attributes["time"] == leap
    assert b"00.123456Z" in JSONFormat().write(sdk_document(document(time=fine)))
    with pytest.raises(ValueError, match="second"):
        sdk_document(document(time=leap))


def test_defect_10_records_without_data_are_no_tombstones() -> None:
    """K13."""
    nothing = Decoded(CloudEvent(REQUIRED), ContentMode.BINARY)

    assert kafka.encode(nothing, PLAIN, None).body is None
    assert sdk_kafka.to_binary_event(sdk_event()).value == b""


def test_defect_10_keys_are_text_and_written_into_the_event() -> None:
    """K7, K10: bytes, as they are, and no attribute."""
    own = CE_KAFKA | {"ce_partitionkey": b"own"}

    assert record(CE_KAFKA, key=b"\xff").attributes == REQUIRED
    assert record(own, key=b"key").attributes["partitionkey"] == "own"
    with pytest.raises(UnicodeDecodeError):
        sdk_record(CE_KAFKA, key=b"\xff")
    assert sdk_record(own, key=b"key").get_extension("partitionkey") == "key"


@pytest.mark.parametrize(
    ("value", "crash"), [(b"\xff", UnicodeDecodeError), (None, AttributeError)]
)
def test_defect_10_foreign_headers_crash(value: bytes | None, crash: type[Exception]) -> None:
    """I3: none of the event's."""
    headers: dict[str, bytes | None] = {**CE_KAFKA, "foreign": value}

    assert record(headers).attributes == REQUIRED
    with pytest.raises(crash):
        sdk_record(headers)


def test_defect_10_repeated_headers_vanish() -> None:
    """core 1.1: those that differ are refused; the SDK's message holds a dict, so it cannot see them."""
    twice = (*CE_KAFKA.items(), ("ce_id", b"2"))

    refused(lambda: kafka.decode(Record(None, twice, None)))
    assert sdk_record(dict(twice)).get_id() == "2"


@pytest.mark.parametrize(
    "wrong",
    [{"ext": 1.5}, {"ext": {"a": 1}}, {"ext": 2**40}, {"ext": "a\x00"}, {"datacontenttype": "xyz"},
     {"dataschema": "relative"}, {"source": "a b%"}],
    ids=str,
)  # fmt: skip
def test_defect_11_values_of_no_type_are_taken(wrong: dict[str, object]) -> None:
    """core 1.1, 1.3."""
    refused(lambda: read_event(document(**wrong)))
    name, value = next(iter(wrong.items()))
    assert sdk_document(document(**wrong)).get_attributes()[name] == value


def test_defect_12_batches_and_unknown_formats_crash() -> None:
    """H13, H6: batches are read; what nobody here reads is passed on, or refused as such."""
    batch = b"[" + DOCUMENT + b"]"
    headers = [(b"content-type", b"application/cloudevents-batch+json")]

    assert [each.event.attributes for each in http.decode(headers, batch)] == [REQUIRED]
    (unknown,) = http.decode([(b"content-type", b"application/cloudevents+xyz")], b"\x00\x01")
    assert (unknown.opaque, unknown.document) == (True, b"\x00\x01")
    with pytest.raises(AttributeError):
        sdk_request({"content-type": "application/cloudevents-batch+json"}, batch)
    with pytest.raises(json.JSONDecodeError):
        sdk_request({"content-type": "application/cloudevents+xyz"}, b"\x00\x01")


def test_defect_12_plain_json_is_taken_for_an_event() -> None:
    """H7: over HTTP a document has to say what it is."""
    headers = {"content-type": "application/json"}

    with pytest.raises(NotACloudEvent):
        request(headers, DOCUMENT)
    assert sdk_request(headers, DOCUMENT).get_id() == "1"


def test_defect_13_the_callers_dict_is_changed() -> None:
    """I5: ours is frozen, and what it is made from stays as it was."""
    ours, theirs = dict(REQUIRED), dict(REQUIRED)
    event = CloudEvent(ours)
    kafka.encode(Decoded(event, ContentMode.BINARY), PLAIN, b"key")
    SdkEvent(theirs)

    assert ours == REQUIRED
    assert "time" in theirs


def test_defect_13_time_in_amqp_is_a_plain_number() -> None:
    """R9: text on the way out; on the way in a timestamp is one, and a number is none."""
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    event = CloudEvent(REQUIRED | {"time": "2020-01-01T00:00:00Z"})
    written = rabbitmq.encode(Decoded(event, ContentMode.BINARY), PLAIN, None)
    own = tuple((f"ce-{name}", text.encode()) for name, text in REQUIRED.items())
    typed = Record(None, (*own, ("ce-time", None)), None, natives={"ce-time": moment})
    number = Record(None, (*own, ("ce-time", None)), None, natives={"ce-time": 1_577_836_800_000})

    assert ("ce-time", b"2020-01-01T00:00:00Z") in written.headers
    assert rabbitmq.decode(typed).event == event
    refused(lambda: rabbitmq.decode(number))
    sdk = sdk_amqp.to_binary_event(sdk_event(time=moment)).application_properties
    assert sdk["cloudEvents_time"] == 1_577_836_800_000
    assert isinstance(sdk["cloudEvents_time"], int)
