"""How to reach a cluster, and how to behave towards it."""

from __future__ import annotations

import ssl
from typing import Literal

import msgspec
from yarl import URL

from app.brokers.security import ClientTls
from app.errors import SetupError

Auth = Literal["plain", "external"]
Kind = Literal["quorum", "stream"]

PORT, TLS_PORT = 5672, 5671
MAX_RECORD = 16 << 20


class RabbitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster. Times in seconds, sizes in bytes. The password appears in no text that this makes.

    ``addresses``        ``host:port`` of one node or several, with commas; tried in turn.
    ``auth``             ``external``: the client certificate says who we are.
    ``create_topics``    make the exchange and the queues of a topic that is not there; otherwise it is
                         refused at once.
    ``queue``            the name of each queue of a topic. With ``{group}`` in it each group has queues
                         of its own, made when it subscribes, and every group sees everything from
                         then on; without, groups share the queues, and each message goes to one.
    ``kind``             ``stream``: queues that keep what was read, and can be read again.
    ``partitions``       queues of a topic that we make.
    ``dead_letters``     the queue that takes what the broker gives up; ours never give up by themselves.
    ``hash_exchange``    also make ``<topic>.hash``, which spreads by ``x-skybridge-key`` what others
                         publish (needs the plugin rabbitmq_consistent_hash_exchange).
    ``request_timeout``  for one answer of the broker, and the longest that a confirm may be missing.
    ``window``           records, and ``window_bytes`` bytes, on the wire without a confirm.
    ``prefetch``         messages of one queue that we have and have not settled.
    ``handover``         how long a revocation waits for what is in work to be settled.
    ``rest_interval``    how long a settled message of a stream may stay uncommitted when nothing is open;
                         while others are open that is ``balance_interval``.
    ``balance_interval`` how often a member looks whether queues are free, or owed to another.
    ``metadata_age``     how often the queues of a topic in use are counted again.
    ``give_back``        after so long a paused queue is given back with all that is not settled: the
                         broker closes a channel with a message unsettled for 30 minutes.
    ``confirms``         False is for control runs alone: then nothing is certain.
    """

    name: str
    addresses: str = "127.0.0.1:5672"
    vhost: str = "/"
    username: str = "guest"
    password: str = "guest"  # noqa: S105 - the server's own default, good on loopback only
    auth: Auth = "plain"
    tls: ClientTls | None = None
    client_id: str = "skybridge"
    heartbeat: int = 10
    request_timeout: float = 10.0
    create_topics: bool = False
    queue: str = "{topic}.{partition}"
    kind: Kind = "quorum"
    partitions: int = 8
    dead_letters: str = "{topic}.dead"
    hash_exchange: bool = False
    window: int = 1_000
    window_bytes: int = 1 << 20
    max_record: int = MAX_RECORD
    prefetch: int = 500
    max_poll_records: int = 1_000
    handover: float = 5.0
    rest_interval: float = 0.08
    balance_interval: float = 0.5
    metadata_age: float = 5.0
    give_back: float = 1_500.0
    confirms: bool = True

    def __repr__(self) -> str:
        return f"RabbitSettings(name={self.name!r}, addresses={self.addresses!r}, password=***)"

    def urls(self, client_id: str = "") -> list[URL]:
        """One for each node. Raises SetupError for an address that is none."""
        texts = [text.strip() for text in self.addresses.split(",")]
        return [self._url(text, client_id or self.client_id) for text in texts]

    def ssl_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.context(self.name)

    def _url(self, text: str, client_id: str) -> URL:
        try:
            address = URL(f"amqp://{text}")
            host, port = address.host, address.explicit_port
        except ValueError as error:
            raise self._no_address(text) from error
        if not host or address.user or address.path not in {"", "/"}:
            raise self._no_address(text)
        return URL.build(
            scheme="amqps" if self.tls else "amqp",
            host=host,
            port=port or (TLS_PORT if self.tls else PORT),
            user=self.username,
            password=self.password,
            path=f"/{self.vhost}",
            query={"auth": self.auth, "heartbeat": str(self.heartbeat), "name": client_id},
        )

    def _no_address(self, text: str) -> SetupError:
        return SetupError(
            f"{text!r} is not an address of RabbitMQ",
            setting=f"brokers.{self.name}.addresses",
            cure="write host:port, several with commas between them",
        )
