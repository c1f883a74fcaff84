"""``check`` and the API refuse the spellings of addresses that the sinks refuse, and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from app.bindings.http import HttpMessage
from app.config.check.candidate import examine
from app.config.load.loader import Loaded
from app.model.secret import FileSecret
from app.sinks.http_client import HttpClient
from app.sinks.secrets import LiveSecret
from forbidden_addresses import CONFUSIONS, FAMILIES

EVENT = HttpMessage.of((("ce-id", "1"),), b"{}")
ROUTE = (
    "routes: [{name: r, to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}}]\n"
)
HOSTS = (
    *(host for family in FAMILIES.values() for host in family.hosts),
    *("127.0.0.1..", "1.2.3.4.5", "[::ffff:7f00:1%25lo]", "[::1%lo]", "[0:0:0:0:0:0:0:1]", "00"),
    *("127.000.000.001", "0x0", "4294967295", "256.0.0.1", "a.0x1", "[::127.1.1.1]"),
)
ALLOWED = ((), ("127.0.0.0/8", "::1/128"), ("127.1", "0"), ("localhost",), ("*.localhost",))
Told = Callable[..., dict[str, list[str]]]


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("webhooks: {callback: 'https://b.example:0/'}", "webhooks.callback"),
        ("server: {admin: {public_url: 'https://b.example:0'}}", "server.admin.public_url"),
        (
            "telemetry: {traces: {endpoint: 'http://c.example:70000/v1'}}",
            "telemetry.traces.endpoint",
        ),
    ],
)
def test_a_url_has_a_port_that_exists(
    lint_text: Callable[..., list[str]], text: str, setting: str
) -> None:
    """It was accepted, and failed at the first request."""
    found = lint_text(f"{ROUTE}{text}\n")
    assert [each for each in found if each.startswith(f"error {setting}: The value is not a URL.")]


class ToLoopback:
    """Every name is this machine."""

    async def resolve(self, host: str) -> Sequence[str]:
        return ("127.0.0.1", "::1")


@pytest.fixture
def errors(load_text: Callable[..., Loaded]) -> Told:
    """From the URLs of sinks to the errors of each that ``check`` and the API find."""

    def found(urls: Sequence[str], webhooks: str) -> dict[str, list[str]]:
        loaded = load_text(f"{ROUTE}webhooks: {webhooks}\n", minimal=True)
        source = {"broker": "log", "topics": ["t"]}
        documents = [{"id": f"s{n}", "source": source, "sink": url} for n, url in enumerate(urls)]
        judged = examine(loaded, documents, ())
        return {
            url: [fault.detail for fault in each.faults]
            for url, each in zip(urls, judged, strict=True)
        }

    return found


async def refused(urls: Sequence[str], **settings: object) -> dict[str, bool]:
    """Which of them the sink refuses before it connects: nothing listens at port 1."""
    client = HttpClient(lookup=ToLoopback(), connect_timeout=0.05, **settings)  # type: ignore[arg-type]
    try:
        answers = {url: await client.post(url, EVENT, 5.0) for url in urls}
    finally:
        await client.stop()
    return {url: each.fault in {"blocked-address", "bad-request"} for url, each in answers.items()}


@pytest.mark.parametrize("allowed", ALLOWED, ids=str)
async def test_what_the_guard_refuses_is_refused_at_the_desk(
    errors: Told, allowed: tuple[str, ...]
) -> None:
    urls = [f"{scheme}://{host}:1/" for host in HOSTS for scheme in ("https", "http")]
    found = errors(urls, f"{{allow_private: {list(allowed)}}}")
    expected = await refused(urls, allow_private=allowed)
    by_name = {
        url
        for url, faults in found.items()
        if not faults and "localhost" in url.replace("%6c%6f", "lo")
    }  # what a name is, only a look-up can tell
    told = {url: bool(faults) for url, faults in found.items() if url not in by_name}
    assert told == {url: is_so for url, is_so in expected.items() if url in told}


@pytest.mark.parametrize(
    "host", ["0", "127.1", "2130706433", "0177.0.0.1", "0x7f.1", "[::ffff:127.0.0.1]"]
)
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_the_refusal_names_the_setting_and_a_cure(errors: Told, host: str, scheme: str) -> None:
    (fault,) = errors([f"{scheme}://{host}/"], "{}")[f"{scheme}://{host}/"]
    assert fault.startswith("sink: ")
    assert ". " in fault


def test_the_token_endpoint_is_judged_like_a_sink(load_text: Callable[..., Loaded]) -> None:
    auth = {
        "kind": "oauth2",
        "token_endpoint": "https://127.1/t",
        "client_id": "i",
        "client_secret": "s",
    }
    document = {
        "id": "s",
        "source": {"broker": "log", "topics": ["t"]},
        "sink": "https://h.example/",
        "auth": auth,
    }
    (found,) = examine(load_text(ROUTE, minimal=True), [document], ())
    assert [fault.at for fault in found.faults] == ["/auth/token_endpoint"]


async def test_behind_a_proxy_names_by_plain_http_must_be_named(errors: Told) -> None:
    """The proxy finds their addresses, so a network says nothing of them."""
    hosts = ("hook.example", "127.1", "[::1]", "10.0.0.1", "named.test", "sub.b\u00fccher.test")
    urls = [f"{scheme}://{host}:1/" for host in hosts for scheme in ("https", "http")]
    proxy, allowed = "http://127.0.0.1:1", ("192.168.0.0/16", "named.test", "*.b\u00fccher.test")
    found = errors(urls, f"{{proxy: '{proxy}', allow_private: {list(allowed)}}}")
    expected = await refused(urls, allow_private=allowed, proxy=LiveSecret(FileSecret(proxy)))
    assert {url: bool(faults) for url, faults in found.items()} == expected
    assert {url for url, is_so in expected.items() if not is_so} == {
        "https://hook.example:1/",
        *(f"{each}://{host}:1/" for each in ("https", "http") for host in hosts[-2:]),
    }


def test_a_url_that_parsers_read_differently_never_passes(errors: Told) -> None:
    urls = [url for url in CONFUSIONS.values() if url.startswith("http")]
    assert all(errors(urls, "{}").values())


@pytest.mark.parametrize("host", ["a..b.example", "127.0.0.1%00", "*.example", "$$HOST", "x" * 64])
async def test_a_host_that_cannot_be_looked_up_is_refused_at_the_desk(
    errors: Told, host: str
) -> None:
    """A subscription of it would wait for ever; the sinks refuse it by the same reader."""
    url = f"https://{host}:1/"
    (found,) = errors([url], "{allow_private: ['127.0.0.0/8']}")[url]
    assert "The URL has a host that cannot be looked up: " in found
    plain = url.replace("$$", "$")
    assert await refused([plain], allow_private=("127.0.0.0/8",)) == {plain: True}


@pytest.mark.parametrize(
    "settings",
    [
        "webhooks: {callback: 'https://a..b/'}",
        "webhooks: {configurable_targets: ['https://a..b/*']}",
        (
            "subscriptions: [{id: s, source: {broker: log, topics: [t]}, sink: 'https://a.example',"
            " auth: {kind: oauth2, token_endpoint: 'https://a..b/', client_id: a, client_secret: b}}]"
        ),
        "producers: [{name: p, jwt: {issuer: 'https://a..b', audience: a, match: {sub: s}}}]",
    ],
)
def test_other_urls_with_such_a_host_are_errors(
    lint_text: Callable[..., list[str]], settings: str
) -> None:
    found = [each for each in lint_text(f"{ROUTE}{settings}\n") if each.startswith("error")]
    assert any("The URL has a host that cannot be looked up: " in each for each in found), found


GUARDED, UNNAMED = "has a form that the address guard refuses", "cannot be looked up"


@pytest.mark.parametrize(
    ("host", "why"), [("127.0.0.1.", GUARDED), ("127.0.0.1..", UNNAMED), ("127.0.0.9.", GUARDED)]
)
async def test_a_full_stop_behind_an_address_is_refused_although_it_is_allowed(
    errors: Told, host: str, why: str
) -> None:
    """No look-up finds it, and it is no address."""
    url = f"https://{host}:1/"
    (found,) = errors([url], "{allow_private: ['127.0.0.0/8']}")[url]
    assert why in found
    assert await refused([url], allow_private=("127.0.0.0/8",)) == {url: True}
