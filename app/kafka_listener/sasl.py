"""The APIs SaslHandshake and SaslAuthenticate: log a client in by PLAIN or SCRAM (KIP-43, KIP-152).

No secret and no proof of a client is logged or repeated in a response.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from scramp import ScramException, ScramMechanism

from app.access.caller import EventSender
from app.access.rights import KafkaAccess
from app.kafka_listener.node import KafkaNode, KafkaSession, Principal
from app.kafka_listener.node import KafkaUsers as Users
from app.kafka_listener.rights import proof_of
from app.kafka_listener.wire import ErrorCode, KafkaRequest

PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS = 4096
MAX_LOGGED_NAME = 64  # characters of a user name in the log
ScramCredentials = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key and iteration count: the form in which SCRAM stores a password."""

NO_RIGHTS: Mapping[str, tuple[KafkaAccess, EventSender]] = MappingProxyType({})

_log = logging.getLogger("skybridge.kafka_listener")


class LoginDenied(Exception):
    """The error for a login that has failed."""


class SaslSession(Protocol):
    """A login under way. ``user`` is the user name once the login has succeeded."""

    user: str | None

    def step(self, token: bytes) -> bytes:
        """Return the response to a token of the client. Raise LoginDenied if the login fails."""


class LoginInProgress(NamedTuple):
    """A login under way. ``logins`` are the users at its start. A reload may replace them before
    its end."""

    logins: Users
    exchange: SaslSession


class SaslUsers:
    """The users and their passwords in the form that logins need.

    Creating it takes some milliseconds for each user, so it is created before clients wait.
    ``users`` has the passwords by name. ``rights`` has the rights of users that are producers;
    other users have every right.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        mechanisms: Sequence[str],
        rights: Mapping[str, tuple[KafkaAccess, EventSender]] = NO_RIGHTS,
    ) -> None:
        self.mechanisms = tuple(mechanisms)
        self._plain = {name: proof_of(password) for name, password in users.items()}
        self._principals = {
            name: Principal(name, proof, *rights.get(name, ()))
            for name, proof in self._plain.items()
        }
        self._scram = {
            mechanism: {
                name: ScramMechanism(mechanism).make_auth_info(password, ITERATIONS)
                for name, password in users.items()
            }
            for mechanism in mechanisms
            if mechanism in SCRAM
        }
        self._pepper = secrets.token_bytes(32)

    def begin(self, mechanism: str) -> SaslSession:
        if mechanism == PLAIN:
            return _Plain(self._is_plain)
        return _Scram(mechanism, lambda name: self._scram_credentials(mechanism, name))

    def principal(self, name: str) -> Principal:
        """Return the user of a name whose login has succeeded."""
        return self._principals[name]

    def holds(self, principal: Principal) -> Principal | None:
        known = self._principals.get(principal.name)
        return known if known is not None and known.proof == principal.proof else None

    def _is_plain(self, name: str, password: str) -> bool:
        """Check a password. The check takes equally long for an unknown name."""
        known = self._plain.get(name)
        proven = hmac.compare_digest(known or bytes(32), proof_of(password))
        return proven and known is not None

    def _scram_credentials(self, mechanism: str, name: str) -> ScramCredentials:
        """Return the stored credentials of a name. An unknown name gets random ones, so that
        clients cannot detect it.
        """
        known: ScramCredentials | None = self._scram[mechanism].get(name)
        if known is not None:
            return known
        salt = hmac.digest(self._pepper, name.encode(), "sha256")
        size = 32 if mechanism == SCRAM[0] else 64
        return salt, secrets.token_bytes(size), secrets.token_bytes(size), ITERATIONS


class _Plain:
    """A PLAIN login (RFC 4616). A user may not act for another one."""

    def __init__(self, check_password: Callable[[str, str], bool]) -> None:
        self._check_password = check_password
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        try:
            acting, name, password = token.decode().split("\0")
        except ValueError as error:
            raise LoginDenied("no name and password") from error
        if acting not in ("", name) or not self._check_password(name, password):
            raise LoginDenied(f"user {name[:MAX_LOGGED_NAME]!r}")
        self.user = name
        return b""


class _Scram:
    """A SCRAM login in two steps (RFC 5802)."""

    def __init__(self, mechanism: str, credentials_of: Callable[[str], ScramCredentials]) -> None:
        self._server = ScramMechanism(mechanism).make_server(self._look_up)
        self._credentials_of = credentials_of
        self._name = ""  # as the client sent it
        self._begun = False
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        try:
            message = token.decode()
            if not self._begun:
                self._begun = True
                self._server.set_client_first(message)
                return str(self._server.get_server_first()).encode()
            self._allow_repeated(message)
            self._server.set_client_final(message)
            answer = str(self._server.get_server_final()).encode()
        except (ScramException, ValueError, IndexError, KeyError) as error:
            raise LoginDenied(f"user {self._name[:MAX_LOGGED_NAME]!r}") from error
        self.user = self._name
        return answer

    def _allow_repeated(self, message: str) -> None:
        """Accept the nonce of librdkafka before 2.6.1, which repeats the client's part in front of
        the whole nonce.

        kcat of Debian 12 has it, and Kafka before 4.0 accepts it. The proof covers the server's
        first message, so no earlier proof becomes valid.
        """
        agreed = self._server.nonce
        nonce = str(agreed)
        sent = next((each[2:] for each in message.split(",") if each.startswith("r=")), "")
        if (
            len(sent) > len(nonce)
            and sent.endswith(nonce)
            and nonce.startswith(sent[: -len(nonce)])
        ):
            self._server.nonce = type(agreed)(sent)

    def _look_up(self, name: str) -> ScramCredentials:
        self._name = name
        return self._credentials_of(name)


def _logged_in_user(node: KafkaNode, login: LoginInProgress) -> Principal | None:
    """Return the user of a finished login, or None while it goes on.

    Raise LoginDenied if a reload has removed the user or changed its password.
    """
    name = login.exchange.user
    if name is None:
        return None
    user = login.logins.principal(name)
    present = user if node.logins is None else node.logins.holds(user)
    if present is None:
        raise LoginDenied(
            f"user {name[:MAX_LOGGED_NAME]!r}, who was removed or changed by a reload"
        )
    return present


async def sasl_handshake(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Begin a login by the requested mechanism.

    Version 0 is refused, because its tokens would come without request headers. It is offered
    because librdkafka up to 2.0 looks for it and then uses version 1.
    """
    mechanisms = () if node.logins is None else node.logins.mechanisms
    mechanism, code = request.payload.mechanism, ErrorCode.none
    if node.logins is None:
        code = ErrorCode.illegal_sasl_state
    elif not request.version:
        code = ErrorCode.unsupported_version
    elif mechanism not in mechanisms:
        code = ErrorCode.unsupported_sasl_mechanism
    else:
        session.login = LoginInProgress(node.logins, node.logins.begin(mechanism))
    return request.shapes.SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)


async def sasl_authenticate(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Take one step of a login. A denied client gets an error and is disconnected.

    If the client's address has tried too many wrong passwords, the client waits or is disconnected
    without a response. Its own password may be right, so it may try again.
    """
    login: LoginInProgress | None = session.login
    if login is None:
        return _answer(request, ErrorCode.illegal_sasl_state, "SaslHandshake must come first")
    try:
        if not await _may_try(node, session):
            return None
        token = login.exchange.step(request.payload.auth_bytes)
        user = _logged_in_user(node, login)
    except LoginDenied as denial:
        session.login, session.denied = None, True
        node.counters.add("kafka_logins", "denied")
        _log.warning("%s: login denied: %s", session.peer, denial)
        await node.clock.sleep(node.settings.denial)  # slows repeated attempts
        return _answer(
            request, ErrorCode.sasl_authentication_failed, "user name or password is wrong"
        )
    node.guesses.give_back(session.address, node.clock.monotonic())
    if user is not None:
        session.login = None
        session.log_in(user)
        node.counters.add("kafka_logins", "accepted")
    return _answer(request, ErrorCode.none, None, token)


async def _may_try(node: KafkaNode, session: KafkaSession) -> bool:
    """Wait until a password from this address may be checked. Return False if the wait would be too
    long.
    """
    clock, address = node.clock, session.address
    wait = node.guesses.count(address, clock.monotonic())
    if not wait:
        return True
    try:
        if wait < node.settings.frame_timeout:
            await clock.sleep(wait)
            return True
    except asyncio.CancelledError:
        node.guesses.give_back(address, clock.monotonic())
        raise
    node.guesses.give_back(address, clock.monotonic())
    session.login, session.denied = None, True
    node.counters.add("kafka_logins", "postponed")
    _log.debug("%s: too many wrong passwords from its address; closed", session.peer)
    return False


def _answer(request: KafkaRequest, code: ErrorCode, message: str | None, token: bytes = b"") -> Any:
    return request.shapes.SaslAuthenticateResponse(
        error_code=code, error_message=message, auth_bytes=token, session_lifetime=timedelta(0)
    )
