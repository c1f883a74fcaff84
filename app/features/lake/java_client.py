"""Convert the security settings of a broker to options of Kafka's Java client, which Spark uses to read
Kafka.

Certificates are passed as PEM text, because executors on other machines do not have the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from app.brokers.security import ClientTls
from app.config.derived.kafka_logins import reader_logins
from app.config.model.kafka_broker import OAuth, Sasl, Security
from app.config.model.kafka_listener import KafkaListener
from app.errors import SetupError
from app.model.producer import Producer

_MODULES: Final = "org.apache.kafka.common.security"
_USER_LOGIN: Final[Mapping[str, str]] = {
    "PLAIN": f"{_MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule",
}
_BEARER_LOGIN: Final = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
_BEARER_TOKENS: Final = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


def options(security: Security, setting: str) -> dict[str, str]:
    """Return the options for a Kafka cluster. ``setting`` is the path of the settings, for errors. Raise
    SetupError, without secrets in its message, if they cannot be used."""
    tls = security.encryption
    found = {"security.protocol": _protocol(sasl=security.sasl is not None, tls=tls is not None)}
    if tls is not None:
        found |= _client_tls(tls, f"{setting}.tls")
    if security.sasl is not None:
        found |= _login(security.sasl, f"{setting}.sasl")
    return found


def listener_options(
    listener: KafkaListener, producers: Sequence[Producer], setting: str
) -> dict[str, str]:
    """Return the options for a Kafka listener of Skybridge: the login of a user that may read, and the
    listener's own certificate as trusted. Raise SetupError if no user may read."""
    logins, tls = reader_logins(listener, producers, setting), listener.tls
    found = {"security.protocol": _protocol(sasl=logins is not None, tls=tls is not None)}
    if tls is not None:
        found |= _trust(_text(tls.cert, f"{setting}.tls.cert"))
    if logins is not None:
        found |= _user(logins.mechanism, logins.user, logins.password)
    return found


def _protocol(*, sasl: bool, tls: bool) -> str:
    transport = "SSL" if tls else "PLAINTEXT"
    return f"SASL_{transport}" if sasl else transport


def _client_tls(tls: ClientTls, setting: str) -> dict[str, str]:
    """Return the TLS options. Without ``ca``, Java's own certificate authorities are trusted."""
    found = _trust(_text(tls.ca, f"{setting}.ca")) if tls.ca is not None else {}
    if tls.cert is not None and tls.key is not None:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _text(tls.cert, f"{setting}.cert"),
            "ssl.keystore.key": _key(tls.key, f"{setting}.key"),
        }
    if not tls.verify_host:
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def _trust(certificates: str) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}


def _login(sasl: Sasl, setting: str) -> dict[str, str]:
    """Return the options of a login by SASL."""
    if sasl.mechanism != "OAUTHBEARER":
        password = sasl.password.get_secret_value() if sasl.password is not None else ""
        return _user(sasl.mechanism, sasl.username or "", password)
    bearer = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": _BEARER_TOKENS,
    }
    if sasl.oauth is not None:
        return {
            **bearer,
            "sasl.oauthbearer.token.endpoint.url": sasl.oauth.token_endpoint,
            "sasl.jaas.config": _jaas(_BEARER_LOGIN, _client(sasl.oauth)),
        }
    if sasl.token_file is not None:
        return {
            **bearer,
            "sasl.oauthbearer.token.endpoint.url": sasl.token_file.absolute().as_uri(),
            "sasl.jaas.config": _jaas(_BEARER_LOGIN, {}),
        }
    raise SetupError(
        "a token in a setting cannot be used by Kafka's Java client",
        setting=f"{setting}.token",
        cure="put it into a file and name the file as token_file, or use oauth",
    )


def _user(mechanism: str, username: str, password: str) -> dict[str, str]:
    words = {"username": username, "password": password}
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": _jaas(_USER_LOGIN[mechanism], words),
    }


def _client(oauth: OAuth) -> dict[str, str]:
    words = {"clientId": oauth.client_id, "clientSecret": oauth.client_secret.get_secret_value()}
    return {**words, "scope": oauth.scope} if oauth.scope is not None else words


def _jaas(module: str, words: Mapping[str, str]) -> str:
    """Return a JAAS configuration (Java's login settings) with these options."""
    options_text = "".join(f" {name}={_quoted(value)}" for name, value in words.items())
    return f"{module} required{options_text};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _key(path: Path, setting: str) -> str:
    """Return the private key as PKCS#8, the only form that Java's client reads."""
    try:
        key = load_pem_private_key(_text(path, setting).encode(), password=None)
    except (TypeError, ValueError) as error:
        raise SetupError(
            f"{path} has no PEM private key without a pass phrase",
            setting=setting,
            cure="name a readable PEM file",
        ) from error
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _text(path: Path, setting: str) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"{path} cannot be read: {error}", setting=setting, cure="name a readable PEM file"
        ) from error
