"""The choices that a first configuration file is made of, and the secret files that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Literal, NamedTuple, get_args

import msgspec

from app.model.intake import PresetName

BrokerKind = Literal["embedded", "kafka", "rabbitmq", "pulsar"]
LOCAL, KEY, SIGNING = "local", "key", "signing"
SENDERS: tuple[str, ...] = (LOCAL, KEY, *get_args(PresetName))
PULL = "pull"
PRODUCER = "app"

ADDRESSES: Mapping[BrokerKind, str] = {
    "embedded": "",
    "kafka": "127.0.0.1:9092",
    "rabbitmq": "127.0.0.1:5672",
    "pulsar": "pulsar://127.0.0.1:6650",
}
"""The address of each kind of broker on this machine, as its package listens."""


class SecretFile(NamedTuple):
    """A file with a secret. ``use`` is ``signing``, ``key`` or the preset of an intake."""

    path: str
    use: str


class StarterChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of a user for a first configuration file.

    Attributes:
        broker: the kind of the broker that stores the events.
        address: its address; empty for the usual address on this machine.
        senders: ``local``, ``key`` and names of intake presets.
        sink: the URL of a webhook, ``pull``, or empty if nothing is delivered.
        signed: whether requests to the webhook are signed.
        file: path of the configuration file; the names of secret files begin like its own.
    """

    broker: BrokerKind = "embedded"
    address: str = ""
    senders: tuple[str, ...] = (LOCAL,)
    sink: str = ""
    signed: bool = True
    file: str = "skybridge.yaml"

    @property
    def place(self) -> str:
        """Return the address of the broker."""
        return self.address or ADDRESSES[self.broker]

    @property
    def presets(self) -> tuple[str, ...]:
        """Return the presets of the intakes."""
        return tuple(each for each in self.senders if each not in {LOCAL, KEY})

    @property
    def is_webhook(self) -> bool:
        """Return True if events are delivered to a URL."""
        return self.sink not in {"", PULL}

    def file_of(self, use: str) -> str:
        """Return the path of the secret file for this use."""
        name = PurePath(self.file).with_suffix("")
        return f"{name}.key" if use == KEY else f"{name}.{use}.secret"

    def secret_files(self) -> Iterator[SecretFile]:
        """Yield every secret file that the configuration names."""
        uses = [each for each in self.senders if each != LOCAL]
        if self.is_webhook and self.signed:
            uses.append(SIGNING)
        return (SecretFile(self.file_of(use), use) for use in uses)
