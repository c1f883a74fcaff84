"""SaslHandshake and SaslAuthenticate: who a client is, by PLAIN or SCRAM (KIP-43, KIP-152).

No secret and nothing that a client proves itself with is ever logged or repeated in an answer.
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
from app.kafka_listener.node import Logins as Users
from app.kafka_listener.node import Node, Principal, Session
from app.kafka_listener.rights import proof_of
from app.kafka_listener.wire import ErrorCode, Request

PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS = 4096
SHOWN = 64  # characters of a name in the log
Known = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key, iterations: what SCRAM keeps of a password."""

NO_RIGHTS: Mapping[str, tuple[KafkaAccess, EventSender]] = MappingProxyType({})

_log = logging.getLogger("skybridge.kafka_listener")


class Denied(Exception):
    """It is not proven who that is."""


class SaslSession(Protocol):
    """One login under way. ``user``: its name, once it is proven."""

    user: str | None

    def step(self, token: bytes) -> bytes:
        """What to answer. Raises Denied."""


class Login(NamedTuple):
    """One under way. ``logins``: those that it began with; the configuration may have others at its end."""

    logins: Users
    exchange: SaslSession


class Logins:
    """The users, and how they log in. Making it takes some milliseconds a user: before anybody waits."""

    def __init__(
        self,
        users: Mapping[str, str],
        mechanisms: Sequence[str],
        rights: Mapping[str, tuple[KafkaAccess, EventSender]] = NO_RIGHTS,
    ) -> None:
        """``users``: their passwords. ``rights``: of those that are producers; the others have all."""
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
        return _Scram(mechanism, lambda name: self._known(mechanism, name))

    def principal(self, name: str) -> Principal:
        """Of a name that is proven."""
        return self._principals[name]

    def holds(self, principal: Principal) -> Principal | None:
        known = self._principals.get(principal.name)
        return known if known is not None and known.proof == principal.proof else None

    def _is_plain(self, name: str, password: str) -> bool:
        """Takes as long for a name that nobody has."""
        known = self._plain.get(name)
        proven = hmac.compare_digest(known or bytes(32), proof_of(password))
        return proven and known is not None

    def _known(self, mechanism: str, name: str) -> Known:
        """For a name that nobody has, what no password fits: it must not be told from a wrong one."""
        known: Known | None = self._scram[mechanism].get(name)
        if known is not None:
            return known
        salt = hmac.digest(self._pepper, name.encode(), "sha256")
        size = 32 if mechanism == SCRAM[0] else 64
        return salt, secrets.token_bytes(size), secrets.token_bytes(size), ITERATIONS


class _Plain:
    """RFC 4616: nobody may act for somebody else."""

    def __init__(self, proven: Callable[[str, str], bool]) -> None:
        self._proven = proven
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        try:
            acting, name, password = token.decode().split("\0")
        except ValueError as error:
            raise Denied("no name and password") from error
        if acting not in ("", name) or not self._proven(name, password):
            raise Denied(f"user {name[:SHOWN]!r}")
        self.user = name
        return b""


class _Scram:
    """RFC 5802, in two steps."""

    def __init__(self, mechanism: str, known: Callable[[str], Known]) -> None:
        self._server = ScramMechanism(mechanism).make_server(self._look_up)
        self._known = known
        self._name = ""  # as it was said, proven or not
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
            raise Denied(f"user {self._name[:SHOWN]!r}") from error
        self.user = self._name
        return answer

    def _allow_repeated(self, message: str) -> None:
        """A client by librdkafka before 2.6.1 (kcat of Debian 12) puts its own nonce before the whole one again,
        which Kafka before 4.0 takes. The proof is over our first answer, so no old one becomes good by it."""
        agreed = self._server.nonce
        nonce = str(agreed)
        said = next((each[2:] for each in message.split(",") if each.startswith("r=")), "")
        if (
            len(said) > len(nonce)
            and said.endswith(nonce)
            and nonce.startswith(said[: -len(nonce)])
        ):
            self._server.nonce = type(agreed)(said)

    def _look_up(self, name: str) -> Known:
        self._name = name
        return self._known(name)


def _proven(node: Node, login: Login) -> Principal | None:
    """None while it is not proven. Raises Denied for a user that the configuration has no more by now, or with
    another password."""
    name = login.exchange.user
    if name is None:
        return None
    user = login.logins.principal(name)
    present = user if node.logins is None else node.logins.holds(user)
    if present is None:
        raise Denied(f"user {name[:SHOWN]!r}, of a configuration that is no more")
    return present


async def sasl_handshake(node: Node, session: Session, request: Request) -> Any:
    """Version 0, whose tokens would come outside of frames, is refused. It is offered because librdkafka 2.0
    and before look for it, and then use version 1."""
    mechanisms = () if node.logins is None else node.logins.mechanisms
    mechanism, code = request.payload.mechanism, ErrorCode.none
    if node.logins is None:
        code = ErrorCode.illegal_sasl_state
    elif not request.version:
        code = ErrorCode.unsupported_version
    elif mechanism not in mechanisms:
        code = ErrorCode.unsupported_sasl_mechanism
    else:
        session.login = Login(node.logins, node.logins.begin(mechanism))
    return request.shapes.SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)


async def sasl_authenticate(node: Node, session: Session, request: Request) -> Any:
    """A client that is denied is told so, and disconnected. A client whose address has tried too many wrong
    passwords waits, or is disconnected without an answer: its own password may be right, and it may try again."""
    login: Login | None = session.login
    if login is None:
        return _told(request, ErrorCode.illegal_sasl_state, "no mechanism was agreed on")
    try:
        if not await _may_try(node, session):
            return None
        token = login.exchange.step(request.payload.auth_bytes)
        user = _proven(node, login)
    except Denied as denial:
        session.login, session.denied = None, True
        node.counters.add("kafka_logins", "denied")
        _log.warning("%s: login denied: %s", session.peer, denial)
        await node.clock.sleep(
            node.settings.denial
        )  # clients that try again and again, and guessers
        return _told(request, ErrorCode.sasl_authentication_failed, "the login is not right")
    node.guesses.give_back(session.address, node.clock.monotonic())
    if user is not None:
        session.login = None
        session.log_in(user)
        node.counters.add("kafka_logins", "accepted")
    return _told(request, ErrorCode.none, None, token)


async def _may_try(node: Node, session: Session) -> bool:
    """Wait until a password of this address may be judged; return False where that would take too long."""
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


def _told(request: Request, code: ErrorCode, message: str | None, token: bytes = b"") -> Any:
    return request.shapes.SaslAuthenticateResponse(
        error_code=code, error_message=message, auth_bytes=token, session_lifetime=timedelta(0)
    )
