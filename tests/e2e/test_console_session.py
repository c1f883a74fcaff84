"""A browser's session over a socket: begun by a token, opaque, bound to scopes, ended when it should be."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.api.access.wrong_tokens import WRONG_TOKENS
from authority import Authority
from configuration import subscription
from reload_service import ReloadService
from waiting import wait_until

TOKEN = "the-token-with-every-scope"
READER = "the-token-that-may-only-read"
TIMEOUT = 120.0
WRONG = "nobody-has-this-token"
JSON = {"content-type": "application/json"}


class Browser(httpx.Client):
    """Keeps cookies, and says where its page comes from."""

    def __init__(self, service: ReloadService, scheme: str = "http", **how: Any) -> None:
        base = f"{scheme}://127.0.0.1:{service.admin}"
        own = {"origin": base, "sec-fetch-site": "same-origin"}
        super().__init__(base_url=base, headers=own, timeout=TIMEOUT, trust_env=False, **how)

    def log_in(self, token: str) -> httpx.Response:
        answer = self.post("/v1/session", json={"token": token})
        if answer.status_code == 200:
            self.csrf = {"x-csrf-token": answer.json()["csrf"]}
        return answer

    def pause(self, **headers: str) -> httpx.Response:
        return self.post("/v1/subscriptions/hook:pause", headers=headers)


def problem(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["type"].removeprefix("urn:skybridge:problem:")


def tokens(settings: dict[str, Any], reader: str = READER) -> None:
    named = {"name": "reader", "token": reader, "scopes": ["read"]}
    settings["server"]["admin"] |= {"token": TOKEN, "tokens": [named]}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[ReloadService]:
    service = ReloadService(tmp_path_factory.mktemp("sessions"))
    service.settings["subscriptions"] = [subscription("hook", "http://127.0.0.1:9/")]
    service.change(tokens)
    with service.running():
        yield service


@pytest.fixture
def browser(service) -> Iterator[Browser]:
    with Browser(service) as browser:
        yield browser


def test_a_token_is_exchanged_for_an_opaque_session(service, browser):
    """The cookie is no token and no script reads it; the token is nowhere afterwards."""
    stranger = browser.get("/v1/session").json()
    assert stranger == {
        "authenticated": False, "login_required": True, "name": "", "scopes": [], "csrf": "",
        "expires_at": None,
    }  # fmt: skip
    answer = browser.log_in(READER)
    assert answer.status_code == 200, answer.text
    cookie = answer.headers["set-cookie"]
    name = f"skybridge-session-{service.admin}"
    assert re.fullmatch(
        rf"{name}=[\w-]{{43}}; Path=/; HttpOnly; SameSite=Strict", cookie
    ), cookie  # fmt: skip
    said = answer.json()
    assert (said["authenticated"], said["name"], said["scopes"]) == (True, "reader", ["read"])
    assert answer.headers["cache-control"] == "no-store"
    assert browser.get("/v1/session").json() | {"expires_at": 0} == said | {"expires_at": 0}
    assert browser.get("/status").status_code == 200
    log = service.process.log.read_text()
    for secret in (READER, browser.cookies[name], said["csrf"]):
        assert secret not in log
    assert READER not in answer.text + cookie


def test_a_change_by_a_session_bears_its_csrf_token(service, browser):
    """A cookie goes along by itself; what must be read from an answer does not."""
    browser.log_in(TOKEN)
    assert problem(browser.pause()) == (403, "csrf")
    assert problem(browser.pause(**{"x-csrf-token": "0" * 64})) == (403, "csrf")
    with Browser(service) as other:
        other.log_in(TOKEN)
        assert problem(browser.pause(**other.csrf)) == (403, "csrf")
    assert browser.pause(**browser.csrf).status_code == 200
    by_token = httpx.post(
        f"{browser.base_url}/v1/subscriptions/hook:resume",
        headers={"authorization": f"Bearer {TOKEN}"},
        timeout=TIMEOUT,
    )
    assert by_token.status_code == 200


def test_a_page_of_another_origin_changes_nothing(browser):
    """With the cookie and with the CSRF token too; nor does it log anybody in."""
    browser.log_in(TOKEN)
    for foreign in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert problem(browser.pause(**browser.csrf, **foreign)) == (403, "other-origin")
        answer = browser.post("/v1/session", json={"token": TOKEN}, headers=foreign)
        assert problem(answer) == (403, "other-origin")


def test_a_session_may_do_what_its_token_may(browser):
    browser.log_in(READER)
    refused = browser.pause(**browser.csrf)
    assert problem(refused) == (403, "missing-scope")
    assert refused.json()["scope"] == "operate"
    assert browser.get("/metrics").status_code == 403


def test_without_a_session_nothing_is_told(service, browser):
    """An invented cookie is a stranger's; the shell of the page, which shows nothing, is for all."""
    assert problem(browser.get("/status")) == (401, "not-authorised")
    invented = {"cookie": f"skybridge-session-{service.admin}={'x' * 43}"}
    assert problem(browser.get("/status", headers=invented)) == (401, "session-over")
    assert browser.get("/v1/session", headers=invented).json()["authenticated"] is False
    assert browser.get("/readyz", headers=invented).json() == {"ready": True}
    assert browser.get("/console/").status_code in {200, 503}


def test_a_logout_ends_the_session_and_its_streams(browser):
    browser.log_in(TOKEN)
    with browser.stream("GET", "/v1/history/live") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry:")
        assert problem(browser.delete("/v1/session")) == (403, "csrf")
        cookies = dict(browser.cookies)
        ended = browser.delete("/v1/session", headers=browser.csrf)
        assert (ended.status_code, ended.content) == (204, b"")
        assert "Max-Age=0" in ended.headers["set-cookie"]
        list(lines)  # comes to its end, in order
    assert not browser.cookies
    (pair,) = cookies.items()
    kept = {"cookie": "=".join(pair)}
    assert problem(browser.get("/status", headers=kept)) == (401, "session-over")
    assert browser.delete("/v1/session").status_code == 204


def test_a_login_ends_the_session_before_it(service, browser):
    """Whoever had the old cookie has nothing."""
    browser.log_in(READER)
    name = f"skybridge-session-{service.admin}"
    before = browser.cookies[name]
    browser.log_in(TOKEN)
    assert browser.cookies[name] != before
    old = {"cookie": f"{name}={before}"}
    assert problem(httpx.get(f"{browser.base_url}/status", headers=old, timeout=120)) == (
        401,
        "session-over",
    )
    assert browser.get("/v1/session").json()["name"] == "token"


def test_a_session_ends_when_its_token_goes(service, browser):
    """At the reload that takes it; one whose token stays, also as the previous one, goes on."""
    with Browser(service) as every:
        every.log_in(TOKEN)
        browser.log_in(READER)
        service.change(lambda settings: tokens(settings, "the-next-token-that-only-reads"))
        one = service.settings["server"]["admin"]["tokens"][0]
        service.change(lambda _: one.update(previous_token=READER, scopes=["read", "metrics"]))
        assert every.post("/v1/config:reload", headers=every.csrf).status_code == 200
        assert browser.get("/v1/session").json()["scopes"] == ["metrics", "read"]
        service.change(lambda _: one.pop("previous_token"))
        assert every.post("/v1/config:reload", headers=every.csrf).status_code == 200
        assert problem(browser.get("/status")) == (401, "session-over")
        assert every.get("/status").status_code == 200
        service.change(tokens)
        assert every.post("/v1/config:reload", headers=every.csrf).status_code == 200
        assert problem(browser.get("/status")) == (401, "session-over")


def test_logins_with_wrong_tokens_have_to_wait(browser):
    """As wrong tokens in the header do; the right one works at once."""
    for _ in range(2 * WRONG_TOKENS):
        refused = browser.log_in(WRONG)
        assert refused.status_code in {401, 429}, refused.text
        assert WRONG not in refused.text
    assert problem(refused) == (429, "too-many-wrong-tokens")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert browser.log_in(TOKEN).status_code == 200


@pytest.mark.parametrize(
    "body",
    [{}, {"token": ""}, {"token": 7}, {"token": TOKEN, "name": "x"}, {"token": "x" * 5000}, []],
)
def test_a_login_that_is_none_is_refused_without_being_told_back(browser, body):
    answer = browser.post("/v1/session", json=body)
    assert answer.status_code == 422, answer.text
    assert TOKEN not in answer.text


def test_half_a_character_is_a_wrong_token_and_counted_as_one(browser):
    """JSON can write what no token has; it is no fault of the service."""
    statuses = [
        browser.post("/v1/session", content=b'{"token": "\\ud800"}', headers=JSON).status_code
        for _ in range(2 * WRONG_TOKENS)
    ]
    assert set(statuses) <= {401, 429}
    assert statuses[-1] == 429


def test_what_a_stranger_sends_is_read_and_answered_within_bounds(browser):
    """The body of a login is small, and so is the list of what is wrong with it."""
    unknown = ", ".join(f'"m{n}": 1' for n in range(500))
    answer = browser.post("/v1/session", content=f"{{{unknown}}}", headers=JSON)
    assert answer.status_code == 422, answer.text
    found = answer.json()
    assert len(found["faults"]) == 100
    assert found["detail"].endswith("; and 401 more")
    unknown = ", ".join(f'"m{n}": 1' for n in range(2_000))
    answer = browser.post("/v1/session", content=f"{{{unknown}}}", headers=JSON)
    assert problem(answer) == (413, "too-large")
    assert len(answer.content) < 1000


def test_a_body_of_a_verb_is_bounded_too(browser):
    """Who is logged in may not fill the memory either."""
    browser.log_in(TOKEN)
    for verb in ("pause", "replay"):
        answer = browser.post(
            f"/v1/subscriptions/hook:{verb}", content=b" " * 70_000, headers=browser.csrf | JSON
        )
        assert problem(answer) == (413, "too-large")


def test_logins_and_logouts_are_in_the_audit(browser):
    browser.log_in(TOKEN)
    browser.delete("/v1/session", headers=browser.csrf)
    browser.log_in(READER)
    found = browser.get("/v1/audit?kind=login&limit=3").json()["entries"]
    assert [(each["who"], each["operation"], each["status"]) for each in found] == [
        ("reader", "log_in", 200),
        ("token", "log_out", 204),
        ("token", "log_in", 200),
    ]


def test_repeated_logins_are_one_entry_and_no_change(browser):
    """A token with any scope can log in as often as it likes: the audit of changes must not fill with it."""
    before = browser.get("/v1/audit?kind=change").json() if browser.log_in(READER) else None
    for _ in range(20):
        browser.log_in(READER)
    entry = browser.get("/v1/audit?who=reader&operation=log_in").json()["entries"][0]
    assert (entry["kind"], entry["status"]) == ("login", 200)
    assert entry["count"] >= 21
    assert entry["last_ms"] > entry["at_ms"]
    assert browser.get("/v1/audit?kind=change").json() == before


def test_behind_tls_the_cookie_is_for_this_host_alone(service, browser):
    """Whether the listener or a proxy before it speaks TLS."""
    browser.headers["x-forwarded-proto"] = "https"
    answer = browser.post("/v1/session", json={"token": TOKEN})
    name = f"__Host-skybridge-session-{service.admin}"
    assert answer.headers["set-cookie"].startswith(f"{name}=")
    assert answer.headers["set-cookie"].endswith("; Secure")
    plain = {"cookie": answer.headers["set-cookie"].partition(";")[0].removeprefix("__Host-")}
    assert problem(browser.get("/status", headers=plain)) == (401, "not-authorised")
    secure = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    assert browser.get("/status", headers=secure).status_code == 200


def test_a_listener_with_tls_sets_a_secure_cookie(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.server("127.0.0.1")
    service = ReloadService(tmp_path)
    service.change(tokens)
    tls = {"cert": cert, "key": key}
    service.change(lambda settings: settings["server"]["admin"].update(tls=tls))
    context = ssl.create_default_context(cafile=authority.ca)
    process = service.process
    try:
        process.begin()
        with Browser(service, "https", verify=context) as browser:
            wait_until(lambda: _up(browser), "a service with TLS", TIMEOUT)
            cookie = browser.log_in(TOKEN).headers["set-cookie"]
            assert cookie.startswith(f"__Host-skybridge-session-{service.admin}=")
            assert "; Secure" in cookie
            assert browser.get("/status").status_code == 200
    finally:
        process.kill()


def _up(browser: Browser) -> bool:
    try:
        return browser.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_on_loopback_without_a_token_nobody_logs_in(tmp_path):
    """Everybody there may do everything, but no page of another origin and no other name."""
    service = ReloadService(tmp_path)
    with service.running(), Browser(service) as browser:
        said = browser.get("/v1/session").json()
        assert (said["authenticated"], said["login_required"], said["csrf"]) == (True, False, "")
        assert set(said["scopes"]) == {"metrics", "read", "data", "pull", "operate", "configure"}
        answer = browser.post("/v1/session", json={"token": "whatever it may be"})
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
        reload = "/v1/config:reload"
        assert browser.post(reload).status_code == 200
        foreign = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
        assert problem(browser.post(reload, headers=foreign)) == (403, "other-origin")
        rebound = {"host": "evil.example", "origin": "http://evil.example"}
        assert problem(browser.post(reload, headers=rebound)) == (421, "misdirected")
        assert problem(browser.get("/v1/session", headers=rebound)) == (421, "misdirected")
