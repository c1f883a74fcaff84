"""One attempt against a real socket: what leaves, what comes back, and what each failure is called."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial

import pytest
import trustme

from app import __version__
from app.bindings.http import HttpMessage
from app.sinks.tls import TlsFiles
from webhook_target import WebhookTarget, status

LOOPBACK = ("127.0.0.0/8",)
HEADERS = (("ce-id", "1"), ("ce-note", "a%20b"), ("Content-Type", "application/x-odd"))


class Names:
    """DNS in the test's hand: answers in turn, the last one for ever."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(self, host):
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return answer


@pytest.fixture
def sinks(clients):
    return partial(clients, allow_private=LOOPBACK)


def a_request(url, *, headers=HEADERS, body=b"data", timeout=30.0):
    return url, HttpMessage.of(headers, body), timeout


async def test_what_leaves_is_the_event_and_little_else(target, sinks):
    """W1; reliability 5.4: nothing of the environment, no cookie, nothing invented."""
    answer = await sinks().post(*a_request(target.url))
    assert answer.status == 204
    (request,) = target.received
    assert (request.method, request.path, request.body) == ("POST", "/hook", b"data")
    assert dict(request.headers) == {
        "host": f"127.0.0.1:{target.port}".encode(),
        "user-agent": f"skybridge/{__version__}".encode(),
        "accept": b"*/*",
        "content-length": b"4",
        "content-type": b"application/x-odd",
        "ce-id": b"1",
        "ce-note": b"a%20b",
    }


async def test_an_event_without_data_gets_no_content_type(target, sinks):
    """An event without data goes out as headers only; a content type would invent data."""
    await sinks().post(*a_request(target.url, headers=(("ce-id", "1"),), body=b""))
    (request,) = target.received
    assert not request.has("content-type")
    assert (request.body, request.header("content-length")) == (b"", "0")


@pytest.mark.parametrize("size", [2**20 - 1, 2**20, 3 * 2**20])
async def test_a_large_body_arrives_whole(target, sinks, size):
    body = bytes(range(256)) * (size // 256 + 1)
    await sinks().post(*a_request(target.url, body=body[:size]))
    assert target.received[0].body == body[:size]
    assert target.received[0].header("content-length") == str(size)


@pytest.mark.parametrize("code", [200, 204, 404, 410, 429, 500, 503, 599])
async def test_a_status_comes_back_as_it_is(target, sinks, code):
    target.answer = lambda _: status(code, "Retry-After: soon, maybe", body=b"why" * (code != 204))
    answer = await sinks().post(*a_request(target.url))
    assert (answer.status, answer.fault, answer.retry_after) == (code, "", "soon, maybe")
    assert answer.body == (b"" if code == 204 else b"why")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_never_followed(target, sinks, code):
    """W3: the target names a place that nobody checked."""
    target.answer = lambda _: status(code, f"Location: {target.url}/elsewhere")
    answer = await sinks().post(*a_request(target.url))
    assert answer.status == code
    assert len(target.received) == 1


async def test_connections_are_used_again(target, sinks):
    sink = sinks()
    for _ in range(5):
        await sink.post(*a_request(target.url))
    assert target.connections == 1


async def test_no_more_connections_than_allowed(target, sinks):
    """Reliability 5.4: a cap a target; the rest waits its turn."""
    sink = sinks(connections=3)
    await asyncio.gather(*(sink.post(*a_request(target.url)) for _ in range(30)))
    assert len(target.received) == 30
    assert target.connections == 3


async def test_cookies_are_not_kept(target, sinks):
    target.answer = lambda _: status(204, "Set-Cookie: tracked=1")
    sink = sinks()
    await sink.post(*a_request(target.url))
    await sink.post(*a_request(target.url))
    assert not any(request.has("cookie") for request in target.received)


async def test_no_proxy_of_the_environment_is_used(target, sinks, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert (await sinks().post(*a_request(target.url))).status == 204


async def test_an_answer_is_read_up_to_its_bound_and_the_connection_given_up(target, sinks):
    """Rule 8: response bytes are bounded; an endless answer ends."""
    target.answer = lambda _: status(200, body=b"x" * 200_000)
    sink = sinks(response_limit=65_536)
    answer = await sink.post(*a_request(target.url))
    assert (answer.status, len(answer.body)) == (200, 65_536)
    await sink.post(*a_request(target.url))
    assert target.connections == 2


async def test_an_answer_at_its_bound_keeps_the_connection(target, sinks):
    target.answer = lambda _: status(200, body=b"x" * 1000)
    sink = sinks(response_limit=1000)
    for _ in range(2):
        assert len((await sink.post(*a_request(target.url))).body) == 1000
    assert target.connections == 1


async def test_a_compressed_answer_is_not_unpacked(target, sinks):
    """A small answer that unpacks to gigabytes stays small."""
    target.answer = lambda _: status(200, "Content-Encoding: gzip", body=b"not gzip at all")
    assert (await sinks().post(*a_request(target.url))).body == b"not gzip at all"


async def test_a_status_counts_although_its_body_breaks_off(target, sinks):
    """A 200 was said: sending again would be a duplicate for nothing."""

    async def half(request):
        return b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf"

    target.answer = half
    sink = sinks()
    sending = asyncio.create_task(sink.post(*a_request(target.url, timeout=2.0)))
    answer = await sending
    assert (answer.status, answer.fault) == (200, "")
    assert "cut short" in answer.detail


@pytest.mark.parametrize(
    "answer",
    [
        b"canary-7 \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header canary-7\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\ncanary-7\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"canary-7" * 4_000,
    ],
)
async def test_what_is_no_http_is_not_quoted_and_nor_is_the_url(target, sinks, answer):
    """Details are for the log, and both may hold a credential."""

    async def broken(request):
        return answer

    target.answer = broken
    found = await sinks().post(*a_request(f"{target.url}?access_token=canary-7"))
    assert found.detail.endswith("the answer is incomplete, or is not HTTP")


async def test_a_target_that_says_nothing_times_out(target, sinks):
    """W8, rule 7: in total, however it stalls."""
    silent = asyncio.Event()

    async def wait(request):
        await silent.wait()

    target.answer = wait
    answer = await sinks().post(*a_request(target.url, timeout=0.1))
    assert (answer.status, answer.fault) == (None, "timeout")
    assert answer.detail == "no answer within 0.1 s"


async def test_a_target_that_drips_its_answer_times_out(target, sinks):
    async def drip(request):
        return b"HTTP/1.1 200 OK\r\nContent-Le"

    target.answer = drip
    answer = await sinks().post(*a_request(target.url, timeout=0.1))
    assert (answer.status, answer.fault) == (None, "timeout")


async def test_a_closed_port_is_a_connect_fault(sinks):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        answer = await sinks().post(*a_request(url))
    assert (answer.status, answer.fault) == (None, "connect")


async def test_a_connection_cut_without_an_answer_is_a_reset(target, sinks):
    target.answer = lambda _: None
    answer = await sinks().post(*a_request(target.url))
    assert (answer.status, answer.fault) == (None, "reset")


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01\x02", b"SSH-2.0-x\r\n", b"HTTP/9.9 abc def\r\n\r\n"]
)
async def test_an_answer_that_is_no_http_is_a_reset(target, sinks, junk):
    target.answer = lambda _: junk
    answer = await sinks().post(*a_request(target.url, timeout=0.3))
    assert answer.status is None
    assert answer.fault in {"reset", "timeout"}


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b", "a\x01b", "a\x7fb"])
@pytest.mark.parametrize("place", ["name", "value"])
async def test_what_would_break_a_header_is_never_sent(target, sinks, value, place):
    """Reliability 4.6: a permanent fault of the request; else one event adds headers to another."""
    headers = ((value, "x"),) if place == "name" else (("ce-a", value),)
    answer = await sinks().post(*a_request(target.url, headers=headers))
    assert (answer.status, answer.fault) == (None, "bad-request")
    assert target.received == []


async def test_what_utf_8_cannot_hold_is_not_sent_without_it(target, sinks):
    answer = await sinks().post(*a_request(target.url, headers=(("ce-a", "a\udcffb"),)))
    assert (answer.status, answer.fault, target.received) == (None, "bad-request", [])


async def test_a_header_is_sent_as_the_text_that_it_is(target, sinks):
    """In UTF-8, tabs and per cent signs included; an empty one too."""
    texts = {"ce-a": "\u00fc\u20ac\U0001f600", "x%s": "%d %%", "ce-tab": "a\tb", "ce-none": ""}
    await sinks().post(*a_request(target.url, headers=tuple(texts.items())))
    (request,) = target.received
    found = dict(request.headers)
    assert {name: found[name].decode() for name in texts} == texts


async def test_what_a_message_says_itself_is_not_said_twice(target, sinks):
    headers = (("accept", "application/json"), ("USER-AGENT", "me"))
    await sinks().post(*a_request(target.url, headers=headers))
    (request,) = target.received
    assert (request.header("accept"), request.header("user-agent")) == ("application/json", "me")


@pytest.mark.parametrize("headers", [(("ce a", "x"),), (("ce-a", "\udcff"),)])
async def test_what_is_no_header_is_a_fault_and_no_error(target, sinks, headers):
    answer = await sinks().post(*a_request(target.url, headers=headers))
    assert (answer.fault or answer.status) in {"bad-request", 204}


@pytest.mark.parametrize(
    "url",
    ["http://", "https://", "http://[::1", "http://a:b/", "ftp://a/", "http://a b/",
     "http://127.0.0.1\0.example/", "http://a\x7f/"],
)  # fmt: skip
async def test_an_address_that_is_none_is_a_bad_request(sinks, url):
    answer = await sinks().post(*a_request(url))
    assert (answer.status, answer.fault) == (None, "bad-request")


async def test_a_name_that_nobody_knows_is_a_dns_fault(sinks):
    names = Names(socket.gaierror(socket.EAI_NONAME, "unknown"))
    answer = await sinks(lookup=names).post(*a_request("https://nowhere.example/"))
    assert (answer.status, answer.fault) == (None, "dns")


async def test_dns_that_does_not_answer_is_given_up(sinks):
    sink = sinks(lookup=Names(None), dns_timeout=0.05)
    answer = await sink.post(*a_request("https://slow.example/"))
    assert (answer.status, answer.fault) == (None, "dns")
    assert "no answer from DNS" in answer.detail


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "0.0.0.0", "[::1]",
     "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
     "\uff11\uff12\uff17.0.0.1", "169.254.169.254", "localhost"],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_loopback_is_not_reached_in_any_spelling(target, sinks, host, scheme):
    """Reliability 4.3, S11: proved by a listener, also for literals that no resolver is asked for."""
    url = f"{scheme}://{host}:{target.port}/"
    answer = await sinks(allow_private=()).post(*a_request(url))
    assert (answer.status, answer.fault) == (None, "blocked-address")
    assert target.connections == 0


async def test_a_name_that_points_inside_is_blocked(target, sinks):
    names = Names(["127.0.0.1", "::1", "10.0.0.1"])
    sink = sinks(allow_private=(), lookup=names)
    answer = await sink.post(*a_request(f"https://rebind.example:{target.port}/"))
    assert answer.fault == "blocked-address"
    assert target.connections == 0


async def test_a_name_that_changes_its_mind_is_checked_again(target, sinks):
    """DNS rebinding: allowed first, forbidden then. Looked at for every new connection."""
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    sink = sinks(allow_private=("127.0.0.2/32",), lookup=names)
    url = f"http://rebind.example:{target.port}/"
    assert (await sink.post(*a_request(url))).fault == "connect"  # nobody listens there
    sink.names._known.clear()  # its 30 seconds are over
    assert (await sink.post(*a_request(url))).fault == "blocked-address"
    assert target.connections == 0


async def test_of_several_addresses_only_the_allowed_are_tried(target, sinks):
    names = Names(["169.254.169.254", "127.0.0.1"])
    answer = await sinks(lookup=names).post(*a_request(f"http://mixed.example:{target.port}/"))
    assert answer.status == 204
    assert target.received[0].header("host") == f"mixed.example:{target.port}"


@pytest.mark.parametrize(
    ("allow_private", "fault"), [((), "blocked-address"), (("hook.internal",), "")]
)
async def test_plain_http_goes_only_to_named_hosts(target, sinks, allow_private, fault):
    """design.md: http only to those in ``webhooks.allow_private``."""
    sink = sinks(allow_private=allow_private, lookup=Names(["127.0.0.1"]))
    answer = await sink.post(*a_request(f"http://hook.internal:{target.port}/"))
    assert answer.fault == fault


@pytest.fixture
async def secure():
    """A target behind TLS, and its authority's certificate."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hook.example").configure_cert(context)
    target = WebhookTarget()
    await target.start(context)
    yield target, authority
    await target.stop()


async def test_https_is_verified_with_the_authority_named(secure, sinks, tmp_path):
    """Keeps Host and SNI of the name while it connects to the address that was checked."""
    target, authority = secure
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    sink = sinks(tls=TlsFiles(tmp_path / "ca.pem"), lookup=Names(["127.0.0.1"]))
    assert (await sink.post(*a_request(f"https://hook.example:{target.port}/"))).status == 204


@pytest.mark.parametrize("host", ["hook.example", "other.example"])
async def test_a_certificate_that_does_not_fit_is_a_tls_fault(secure, sinks, tmp_path, host):
    """S15: unknown authority, and wrong name."""
    target, authority = secure
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca_file = tmp_path / "ca.pem" if host == "other.example" else None
    sink = sinks(tls=TlsFiles(ca_file), lookup=Names(["127.0.0.1"]))
    answer = await sink.post(*a_request(f"https://{host}:{target.port}/"))
    assert (answer.status, answer.fault) == (None, "tls")
    assert target.received == []
