"""Settings of the RabbitMQ driver: how to reach a cluster, time limits and sizes."""

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
    """The settings of one RabbitMQ cluster. Times are in seconds, sizes in bytes. ``repr`` hides the
    password.

    Attributes:
        addresses: ``host:port`` of one or several nodes, separated by commas and tried in turn.
        auth: With "external", the client certificate identifies Skybridge.
        create_topics: Whether the exchange and queues of a missing topic are created. Otherwise publishing
            to it fails.
        queue: The name of each queue of a topic. With ``{group}`` in the name, each group has its own queues,
            which are created when the group subscribes. It then gets all later messages. Without ``{group}``,
            all groups share the queues, and each message goes to one group.
        kind: With "stream", queues keep messages that were read, so that they can be read again.
        partitions: The number of queues of a topic that Skybridge creates.
        dead_letters: The queue for messages that the broker gives up. In queues that Skybridge declares, the
            broker never gives up a message by itself.
        hash_exchange: Whether ``<topic>.hash`` is created, which spreads records of other publishers by
            ``x-skybridge-key``. It needs the plugin rabbitmq_consistent_hash_exchange.
        request_timeout: The time limit of one answer, and of a confirm.
        window: Most records without a confirm.
        window_bytes: Most bytes without a confirm.
        prefetch: Most messages of one queue that are received and not settled.
        handover: The time for which a revocation waits until messages in delivery are settled.
        rest_interval: The longest time between settling a message of a stream and its commit, if no message
            is unfinished. While a message is unfinished, this time is ``balance_interval``.
        balance_interval: The time between two checks whether this member should take or hand over queues.
        metadata_age: The time after which the queues of a topic in use are counted again.
        give_back: The time after which a paused queue is given back with all unsettled messages. The broker
            closes a channel if a message is unsettled for 30 minutes.
        confirms: Whether records are confirmed. False is for control runs only, because it is then unknown
            which records are stored.
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
        """Return one URL for each node. Raise SetupError for an invalid address."""
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
