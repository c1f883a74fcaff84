"""A real Kafka with one listener for each way of authentication.

- ``tls``: encrypted, without a login
- ``mutual``: encrypted, with a client's certificate
- ``elsewhere``: encrypted, with a certificate for another host
- ``sasl``: a login in clear text (PLAIN, SCRAM or OAUTHBEARER)
- ``saslssl``: the same logins, encrypted
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence

from authority import Authority
from free_ports import free_ports
from kafka_librdkafka import set_password
from kafka_server import KafkaServer

USER, PASSWORD = "sky", "right-and-secret"

_LOGINS = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";',
    "scram-sha-256": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "scram-sha-512": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "oauthbearer": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
}
_VALIDATOR = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured"
    ".OAuthBearerUnsecuredValidatorCallbackHandler"
)
_PROTOCOLS = {
    "tls": "SSL",
    "mutual": "SSL",
    "elsewhere": "SSL",
    "sasl": "SASL_PLAINTEXT",
    "saslssl": "SASL_SSL",
}


class SecureKafka(KafkaServer):
    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self._authority = authority
        self._ports = dict(zip(_PROTOCOLS, free_ports(len(_PROTOCOLS)), strict=True))

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def set_password(self, user: str, password: str) -> None:
        """Set the password of a user for SCRAM-SHA-256."""
        set_password(self.bootstrap_servers, user, password)

    def _format_options(self) -> Sequence[str]:
        return [
            word
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for word in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
        ]

    def _properties(self) -> dict[str, str]:
        plain = super()._properties()
        names = [f"{name.upper()}://{self.address(name)}" for name in _PROTOCOLS]
        protocols = [f"{name.upper()}:{protocol}" for name, protocol in _PROTOCOLS.items()]
        return {
            **plain,
            "listeners": ",".join([plain["listeners"], *names]),
            "advertised.listeners": ",".join([plain["advertised.listeners"], *names]),
            "listener.security.protocol.map": ",".join(
                [plain["listener.security.protocol.map"], *protocols]
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(_LOGINS).upper(),
            "connection.failed.authentication.delay.ms": "10",
            **self._certificates(),
            **_logins("sasl"),
            **_logins("saslssl"),
        }

    def _certificates(self) -> Mapping[str, str]:
        here = self._authority.bundle("127.0.0.1", "localhost")
        elsewhere = self._authority.bundle("elsewhere.example")
        of_listener = {"tls": here, "mutual": here, "saslssl": here, "elsewhere": elsewhere}
        stores = {
            f"listener.name.{listener}.ssl.{name}": value
            for listener, bundle in of_listener.items()
            for name, value in {
                "keystore.type": "PEM",
                "keystore.location": bundle,
                "truststore.type": "PEM",
                "truststore.location": self._authority.ca,
            }.items()
        }
        return {**stores, "listener.name.mutual.ssl.client.auth": "required"}


def _logins(listener: str) -> dict[str, str]:
    prefix = f"listener.name.{listener}"
    logins = {f"{prefix}.{name}.sasl.jaas.config": login for name, login in _LOGINS.items()}
    validator = {f"{prefix}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR}
    return {**logins, **validator}


def token(*, lasts: float = 3600.0, subject: str = USER) -> str:
    """Return an unsigned token as the test server accepts it.

    ``lasts`` is its lifetime in seconds; a negative one makes a token that has expired.
    """
    now = time.time_ns() / 1e9
    begun = now + min(0.0, lasts) - 10.0
    claims = {"sub": subject, "iat": begun, "exp": now + lasts}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
