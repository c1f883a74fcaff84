"""Checks of producers: ``access`` is set, every producer can log in, and each credential belongs to
only one producer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path as FilePath

from app.access.rights import compile_patterns
from app.access.who import digest_of, header_of, san_of
from app.config.lint.report import LintReport, check_characters, check_host
from app.config.load.finding import Path, did_you_mean
from app.gateway.port import is_loopback
from app.model.producer import JwtRule, Producer
from app.model.quota import EventQuota
from app.model.secret import FileSecret
from app.tls import read_regular

MIN_KEY = 20  # characters of a key, so that it cannot be guessed
_CURE_KEY = "Make a key with skybridge producers key new."
_NOT_KEYS = frozenset({
    "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie",
    "expect", "host", "prefer", "skybridge-key", "traceparent", "tracestate", "transfer-encoding",
    "upgrade",
})  # fmt: skip


def check_producers(report: LintReport) -> None:
    _check_access(report)
    producers = report.config.producers
    report.duplicates("producers", "name", [each.name for each in producers])
    for n, producer in enumerate(producers):
        _each(report, ("producers", n), producer)
    _one_credential_one_producer(report, producers)
    _one_issuer_one_source(report, producers)
    _check_forwarded_headers(report, producers)
    if (quota := report.config.server.events.address_quota) is not None:
        _fits_a_batch(report, ("server", "events", "address_quota"), quota)


def _check_access(report: LintReport) -> None:
    events, posting = report.config.server.events, any(e.posts for e in report.config.producers)
    path: Path = ("server", "events", "access")
    if events.access is None and not is_loopback(events.host):
        report.error(
            path,
            "The setting access is missing, and the events listener is reachable from other machines.",
            "Set access to producers and list the senders under producers, or set access to open, which lets every client send.",
        )
    elif events.access == "producers" and not posting and not report.config.intakes:
        report.error(
            path,
            "The setting access has the value producers, but no producer can send over HTTP. Every event would be refused.",
            "Add a producer with keys, jwt or certificate, or set access to open, which lets every client send.",
        )
    elif events.access != "producers" and posting:
        value = "has the value open" if events.access else "is missing, which means open"
        report.warning(
            path,
            f"The setting access {value}. A producer that sends no credential avoids its rights and its quota.",
            "Set access to producers.",
        )
    if events.access == "producers" and events.address_quota is not None:
        report.error(
            ("server", "events", "address_quota"),
            "The quota has no effect, because only producers may send.",
            "Remove the quota, or set server.events.access to open.",
        )
    if (
        events.access is not None
        and not is_loopback(events.host)
        and posting
        and events.tls is None
    ):
        report.warning(
            ("server", "events", "tls"),
            "The events listener has no TLS, so keys and tokens of producers cross the network unencrypted.",
            "Set server.events.tls, or put a proxy with TLS in front of the events listener.",
        )


def _each(report: LintReport, path: Path, producer: Producer) -> None:
    if not producer.posts and producer.kafka is None:
        report.error(
            path, "The producer has no credential.", "Set keys, jwt, certificate or kafka."
        )
    for n, key in enumerate(producer.keys):
        _strong(report, (*path, "keys", n), key)
    if producer.header is not None:
        _header_is_free(report, (*path, "header"), producer)
    for n, route in enumerate(producer.may.routes):
        _route_exists(report, (*path, "may", "routes", n), route)
    if producer.quota is not None:
        _fits_a_batch(report, (*path, "quota"), producer.quota)
    if producer.jwt is not None:
        _issuer_is_safe(report, (*path, "jwt"), producer.jwt)
    tls = report.config.server.events.tls
    if producer.certificate is not None and (tls is None or tls.client_ca is None):
        report.error(
            (*path, "certificate"),
            "The producer has a certificate, but the events listener demands none.",
            "Set server.events.tls.client_ca to the file of the authority that signs the certificates.",
        )


def _strong(report: LintReport, path: Path, key: FileSecret) -> None:
    text = key.get_secret_value()
    if len(text) < MIN_KEY:
        report.error(
            path, f"The key has fewer than {MIN_KEY} characters, so it can be guessed.", _CURE_KEY
        )
    elif not (text.isascii() and text.isprintable()) or " " in text:
        report.error(path, "The key has characters that no header can carry.", _CURE_KEY)


def _header_is_free(report: LintReport, path: Path, producer: Producer) -> None:
    name = str(producer.header).lower()
    if name in _NOT_KEYS or name.startswith("ce-"):
        report.error(
            path,
            f"The header {name} already has another meaning.",
            "Choose another header, such as x-api-key.",
        )
    elif not producer.keys:
        report.error(
            path,
            "The setting header has no effect on a producer without keys.",
            "Add keys, or remove the header.",
        )


def _route_exists(report: LintReport, path: Path, pattern: str) -> None:
    names = [route.name for route in report.config.routes]
    if not any(map(compile_patterns((pattern,)), names)):
        report.error(
            path,
            f"The pattern {pattern!r} matches the name of no route.",
            did_you_mean(pattern, names),
        )


def _fits_a_batch(report: LintReport, path: Path, quota: EventQuota) -> None:
    most = report.config.limits.max_batch
    if quota.burst < most:
        report.error(
            (*path, "burst"),
            f"The burst is below limits.max_batch ({most}), so a batch of that size is always refused.",
            "Raise the burst, or lower limits.max_batch.",
        )


def _issuer_is_safe(report: LintReport, path: Path, rule: JwtRule) -> None:
    host = rule.issuer.partition("://")[2].partition("/")[0].rpartition(":")
    name = host[0] or host[2]
    if rule.jwks is None:
        check_characters(report, (*path, "issuer"), rule.issuer)
        check_host(report, (*path, "issuer"), rule.issuer)
    if rule.jwks is None and rule.issuer.startswith("http://") and not is_loopback(name):
        report.error(
            (*path, "issuer"),
            "The URL is plain http, so an attacker on the network could replace the keys of the issuer.",
            "Begin the URL with https://, or name a file with the keys by jwks.",
        )
    if rule.jwks is not None and report.may_read_files:
        _keys_can_be_read(report, (*path, "jwks"), rule.jwks)


def _keys_can_be_read(report: LintReport, path: Path, file: FilePath) -> None:
    try:
        from app.access.signatures import Keys  # noqa: PLC0415 - heavy, and few installations need it

        usable = bool(Keys(read_regular(file)))
    except OSError as error:
        report.error(
            path,
            f"The file cannot be read: {error.strerror}.",
            "Check the path and its permissions.",
        )
    except ValueError as error:
        report.error(path, f"The file {error}.", "Save the JWK Set of the issuer in this file.")
    else:
        if not usable:
            report.error(
                path,
                "The file has no key for signatures.",
                "Save the JWK Set of the issuer in this file.",
            )


def _one_credential_one_producer(report: LintReport, producers: Iterable[Producer]) -> None:
    taken: dict[Hashable, str] = {}
    for n, producer in enumerate(producers):
        for path, credential in _credentials(("producers", n), producer):
            if credential in taken:
                report.error(
                    path,
                    f"The credential also belongs to {taken[credential]}.",
                    "Give every producer its own credential.",
                )
            taken.setdefault(credential, f"producer {producer.name}")
    _check_token_claims(report, producers)


def _credentials(path: Path, producer: Producer) -> Iterator[tuple[Path, Hashable]]:
    for n, key in enumerate(producer.keys):
        digest = digest_of(key.get_secret_value().encode())
        yield (*path, "keys", n), (header_of(producer), digest)
    if producer.certificate is not None:
        yield (*path, "certificate", "san"), san_of(producer.certificate.san)


def _check_token_claims(report: LintReport, producers: Iterable[Producer]) -> None:
    seen: list[tuple[str, JwtRule]] = []
    for n, producer in enumerate(producers):
        if (rule := producer.jwt) is None:
            continue
        for name, other in seen:
            if _one_token_may_match(rule, other):
                report.error(
                    ("producers", n, "jwt", "match"),
                    f"Some tokens match the claims of this producer and of producer {name}.",
                    "Give both producers one claim with different values, such as azp.",
                )
        seen.append((producer.name, rule))


def _one_token_may_match(one: JwtRule, other: JwtRule) -> bool:
    if (one.issuer, one.audience) != (other.issuer, other.audience):
        return False
    shared = one.match.keys() & other.match.keys()
    return not any(one.match[name] != other.match[name] for name in shared)


def _one_issuer_one_source(report: LintReport, producers: Iterable[Producer]) -> None:
    seen: dict[str, FilePath | None] = {}
    for n, producer in enumerate(producers):
        if producer.jwt is None:
            continue
        rule = producer.jwt
        if seen.setdefault(rule.issuer, rule.jwks) != rule.jwks:
            report.error(
                ("producers", n, "jwt", "jwks"),
                f"Another producer has the same issuer {rule.issuer}, but another file of keys.",
                "Name the same file for both producers, or remove jwks from both.",
            )


def _check_forwarded_headers(report: LintReport, producers: Iterable[Producer]) -> None:
    """Report forwarded headers that carry credentials. ``authorization`` is never forwarded."""
    private = {header_of(each).decode() for each in producers}
    for n, name in enumerate(report.config.server.events.forward_headers):
        if name in private:
            report.error(
                ("server", "events", "forward_headers", n),
                "The header carries keys of producers, which must not be stored with events.",
                "Remove the header from the list of stored headers.",
            )
