"""Create the webhook of a subscription: its client, credentials, headers, signatures and handshake."""

from __future__ import annotations

from functools import partial

from app.config.model.config import Config
from app.errors import SetupError
from app.features.tokens import GrantedTokens, ask_through
from app.interfaces import Clock
from app.model.secret import FileSecret
from app.model.subscription import Subscription
from app.model.webhook import ApiKey, Auth, Basic, Bearer, OAuth2, SentIn
from app.outlets.request import SPARE
from app.sinks.credentials import (
    Credentials,
    OAuthCredentials,
    SecretCredentials,
    StaticHeaders,
    basic,
    bearer,
    in_header,
    in_query,
)
from app.sinks.handshake import ConsentCallbacks, Handshake
from app.sinks.http_client import HttpClient
from app.sinks.replies import ReplyPublisher
from app.sinks.secrets import LiveSecret
from app.sinks.signatures import Signatures
from app.sinks.tls import TlsFiles
from app.sinks.webhook import ExchangeCapture, WebhookSink
from app.sinks.webhook_requests import CloudEventRequests, RequestWriter, ShapedRequests
from app.telemetry import Counters

RENEW_BEFORE = 5.0  # seconds before expiry at which a token is renewed; an attempt takes less
_WRITERS = {"header": bearer, "query": in_query}


def webhook_for(
    subscription: Subscription,
    config: Config,
    clock: Clock,
    callbacks: ConsentCallbacks | None = None,
    replies: ReplyPublisher | None = None,
    counters: Counters | None = None,
) -> WebhookSink:
    """Create the webhook of a subscription with its own connections. Raise SetupError if a file or key cannot
    be used."""
    client = client_for(subscription, config, counters or Counters())
    credentials = _credentials(subscription.auth, client, config)
    headers = _headers(subscription)
    return WebhookSink(
        subscription,
        client,
        requests=_requests(subscription, config),
        signatures=_signatures(subscription, clock),
        credentials=credentials,
        headers=headers,
        handshake=_handshake(subscription, config, client, credentials, headers, callbacks),
        replies=replies,
        telling=ExchangeCapture(config.store.attempts.keep == "all", config.store.attempts.bodies),
    )


def _requests(subscription: Subscription, config: Config) -> RequestWriter:
    """Return the writer of the requests. It writes CloudEvents, or requests in the form that the setting
    ``request`` defines."""
    if subscription.request is None:
        return CloudEventRequests(subscription)
    return ShapedRequests(subscription, config.limits.body + SPARE)


def client_for(subscription: Subscription, config: Config, counters: Counters) -> HttpClient:
    """Return the HTTP client of a webhook."""
    proxy = config.webhooks.proxy
    return HttpClient(
        allow_private=config.webhooks.allow_private,
        connections=subscription.concurrency,
        response_limit=subscription.response_limit,
        tls=_tls(subscription),
        proxy=None if proxy is None else LiveSecret(proxy),
        dns_timeout=config.timeouts.webhook_dns,
        connect_timeout=config.timeouts.webhook_connect,
        repeated=partial(counters.add, "webhook_reconnects", subscription.id),
    )


def _tls(subscription: Subscription) -> TlsFiles | None:
    if subscription.tls is None:
        return None
    tls = subscription.tls
    return TlsFiles(tls.ca, tls.cert, tls.key, setting=f"subscriptions.{subscription.id}.tls")


def _signatures(subscription: Subscription, clock: Clock) -> Signatures | None:
    """Return the signer of requests, or None. Raise SetupError if a secret cannot be used."""
    signing = subscription.signing
    if signing is None:
        return None
    secrets = [signing.secret, *filter(None, [signing.previous_secret])]
    try:
        return Signatures([LiveSecret(secret) for secret in secrets], clock.now)
    except ValueError as error:
        raise SetupError(
            f"a signing secret cannot be used: it {error}",
            setting=f"subscriptions.{subscription.id}.signing",
            cure="make one with skybridge secret",
        ) from error


def _headers(subscription: Subscription) -> StaticHeaders | None:
    """Return the configured headers of requests, or None."""
    secrets = {name: LiveSecret(value) for name, value in subscription.headers.items()}
    return StaticHeaders(secrets) if secrets else None


def _credentials(auth: Auth | None, client: HttpClient, config: Config) -> Credentials | None:
    """Return the credentials of requests, or None."""
    match auth:
        case Bearer(token=token, sent_in=place):
            return _fixed(token, place)
        case Basic(username=username, password=password):
            return SecretCredentials(LiveSecret(password), basic(username))
        case ApiKey(header=header, secret=secret):
            return SecretCredentials(LiveSecret(secret), in_header(header))
        case OAuth2(sent_in=place):
            within = config.timeouts.webhook_token
            return OAuthCredentials(
                GrantedTokens(
                    auth,
                    within,
                    audience=auth.audience,
                    ask=ask_through(client),
                    secret=LiveSecret(auth.client_secret),
                    renew_before=RENEW_BEFORE,
                ),
                _WRITERS[place],
            )
        case None:
            return None


def _fixed(token: FileSecret, place: SentIn) -> SecretCredentials:
    return SecretCredentials(LiveSecret(token), _WRITERS[place])


def _handshake(
    subscription: Subscription,
    config: Config,
    client: HttpClient,
    credentials: Credentials | None,
    headers: StaticHeaders | None,
    callbacks: ConsentCallbacks | None,
) -> Handshake | None:
    """Return the handshake with the webhook, or None if it is off."""
    if subscription.handshake == "off" or subscription.request is not None:
        return None
    return Handshake(
        subscription.webhook_url,
        client,
        origin=config.webhooks.origin or config.installation,
        rate=subscription.request_rate,
        required=subscription.handshake == "require",
        within=config.timeouts.webhook_handshake,
        credentials=credentials,
        headers=headers,
        callbacks=callbacks,
        name=subscription.id,
    )
