"""What the driver leans on inside aio-pika and below it: a new version that moves it fails here, not in
production."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import UnderlayConnection
from aiormq.channel import Channel
from aiormq.connection import Connection

from app.brokers import rabbitmq
from app.brokers.rabbitmq.connection import Wire


@pytest.mark.parametrize(("package", "looked_into"), [("aiormq", "7.2"), ("aio-pika", "10.2")])
def test_the_version_that_was_looked_into(package: str, looked_into: str) -> None:
    """Another one may work: read what is named below again, then change this line."""
    assert ".".join(version(package).split(".")[:2]) == looked_into


def test_only_one_module_reaches_below_aio_pika() -> None:
    """So that the list of what is leaned on stays in one place."""
    below = re.compile(r"^(?:from|import) (?:aiormq|pamqp)", re.MULTILINE)
    folder = Path(rabbitmq.__file__).parent
    assert [p.name for p in folder.glob("*.py") if below.search(p.read_text())] == [
        "aiormq_adapter.py"
    ]


def test_a_connection_of_aio_pika_takes_a_core_that_is_connected() -> None:
    """Ours is connected by the steps of the library's own ``connect``, over our core."""
    source = inspect.getsource(aio_pika.Connection.connect)
    assert "self.transport = await UnderlayConnection.connect(" in source
    assert "self._on_connection_close," in source
    assert "await self._on_connected()" in source
    beneath = inspect.getsource(UnderlayConnection.connect)
    assert "connection.closing.add_done_callback(close_callback)" in beneath
    names = ["connection", "close_callback"]
    assert list(inspect.signature(UnderlayConnection).parameters) == names


def test_a_channel_of_aio_pika_is_made_by_the_core() -> None:
    """And none is ever opened again by itself: that is what a robust one would do."""
    assert "transport.connection," in inspect.getsource(aio_pika.Channel._open)
    assert not issubclass(Wire, aio_pika.RobustConnection)
    assert Wire.CHANNEL_CLASS is aio_pika.Channel


def test_the_reader_of_a_channel_calls_what_we_replace() -> None:
    reader = inspect.getsource(Channel._reader)
    for method in ("_on_deliver_frame", "_on_return_frame", "_on_confirm_frame"):
        assert f"self.{method}(frame)" in reader
        assert list(inspect.signature(getattr(Channel, method)).parameters) == ["self", "frame"]
    assert inspect.iscoroutinefunction(Channel._get_frame)
    assert list(inspect.signature(Channel._read_content).parameters) == ["self", "frame", "header"]


def test_the_connection_calls_what_we_replace() -> None:
    reader = inspect.getsource(Connection._Connection__reader)
    assert "self.__handle_connection_blocked(frame)" in reader
    assert "self.__handle_connection_unblocked(frame)" in reader
    assert "async for weight, channel, frame in frame_receiver:" in reader  # ours, by then
    assert "self.create_task(self.__reader(frame_receiver))" in inspect.getsource(
        Connection.connect
    )
    names = ["request", "writer", "frame_receiver", "wait_response"]
    assert list(inspect.signature(Connection._rpc).parameters) == names
    assert "self._transport_factory.create(" in inspect.getsource(Connection.connect)


def test_the_writer_writes_whole_frames() -> None:
    """Ours are written between two of its writes, never within one."""
    source = inspect.getsource(Connection._Connection__writer)
    assert source.count("writer.write(") == 2
    assert "writer.write(channel_frame.payload)" in source
