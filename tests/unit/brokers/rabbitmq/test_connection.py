"""What a connection still says when it is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.settings import RabbitSettings


async def test_the_size_of_a_frame_outlives_the_connection() -> None:
    """Records are still made into frames until the loss is noticed: an error there would refuse them for good."""
    settings = RabbitSettings(name="rabbit", addresses="127.0.0.1:1")
    wire = RabbitConnection(settings.urls()[0], settings, lambda: None)
    with pytest.raises(ConnectionError):
        await wire.open_channel(None)  # type: ignore[arg-type]
    tune = SimpleNamespace(frame_max=4096)
    lost: Any = SimpleNamespace(connection_tune=tune, is_closed=True, server_properties={})
    wire._aiormq_connection = lost
    assert (wire.frame_max, wire.version, wire.is_closed) == (4096, (), True)
    with pytest.raises(ConnectionError):
        await wire.open_channel(None)  # type: ignore[arg-type]
    await wire.close()
