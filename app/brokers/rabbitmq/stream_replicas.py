"""Compare the replicas of a stream. A node hands out its own replica, which lacks messages after the node was away.

Such a replica must not stop a subscription, move it back, or end a replay early.
"""

from __future__ import annotations

from msgspec.structs import replace

from app.brokers.rabbitmq.connection import RabbitConnection, connect
from app.brokers.rabbitmq.errors import EXPECTED, error_text
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream_ends import StreamEnds, ends_of
from app.errors import BrokerUnavailable


class StreamReplicas:
    """The replicas of the streams of one cluster, which are asked at the addresses in the settings."""

    def __init__(self, settings: RabbitSettings) -> None:
        self._settings = settings

    async def ends(self, connection: RabbitConnection, queue: str, least: int) -> StreamEnds:
        """Return the ends of the replica that the connected node has.

        Raise BrokerUnavailable if it ends before ``least`` and the replica of another node does not, or if another node cannot
        be asked.
        """
        ends = await ends_of(connection, queue)
        if ends.latest < least and await self._latest(queue) >= least:
            raise BrokerUnavailable(
                f"stream {queue}: the replica of this node ends at {ends.latest}, and another replica does not"
            )
        return ends

    async def _latest(self, queue: str) -> int:
        """Return the offset after the last message in any replica. Raise BrokerUnavailable if a node does not answer."""
        addresses = self._settings.addresses.split(",")
        return max([await self._latest_at(each.strip(), queue) for each in addresses])

    async def _latest_at(self, address: str, queue: str) -> int:
        try:
            connection = await connect(replace(self._settings, addresses=address))
            try:
                return (await ends_of(connection, queue)).latest
            finally:
                await connection.hang_up()
        except EXPECTED as error:
            raise BrokerUnavailable(
                f"stream {queue}: the replica at {address} may have more messages: {error_text(error)}"
            ) from error
