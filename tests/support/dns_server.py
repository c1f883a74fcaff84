"""A DNS server for tests, with changing answers, CNAME chains, any TTL and any mixture of
addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

A, CNAME, AAAA = 1, 5, 28
_HEADER = struct.Struct("!HHHHHH")
_RECORD = struct.Struct("!HHIH")
_FOUND, _NO_SUCH_NAME = 0x8580, 0x8583

Zone = Mapping[str, Sequence[Sequence[str]]]
"""The answers of each name, one after the other. The last answer is repeated for ever.

An answer has addresses of both families, or one name of which this name is an alias.
"""


class NameServer(asyncio.DatagramProtocol):
    """A DNS server over UDP that counts queries by name and type in ``asked``.

    Each type has its own turn of answers, because resolvers ask for both types.
    """

    def __init__(self, zone: Zone, ttl: int = 0) -> None:
        self.zone = dict(zone)
        self.ttl = ttl
        self.asked: Counter[tuple[str, int]] = Counter()
        self._turns: dict[tuple[str, int], int] = defaultdict(int)
        self._transport: asyncio.DatagramTransport | None = None

    async def start(self, host: str = "127.0.0.53", port: int = 53) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=(host, port)
        )

    def stop(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        identity, _, _, _, _, _ = _HEADER.unpack_from(data)
        name, end = _read_name(data, _HEADER.size)
        (kind, _) = struct.unpack_from("!HH", data, end)
        question = data[_HEADER.size : end + 4]
        self.asked[name, kind] += 1
        records = self._records(name, kind)
        flags = _NO_SUCH_NAME if records is None else _FOUND
        records = records or []
        head = _HEADER.pack(identity, flags, 1, len(records), 0, 0)
        self._transport.sendto(head + question + b"".join(records), addr)

    def _records(self, name: str, kind: int) -> list[bytes] | None:
        """Return the records of an answer, with a whole chain of aliases as recursive servers give
        it, or None.
        """
        found: list[bytes] = []
        while True:
            answer = self._answer(name, kind)
            if answer is None:
                return found or None
            alias = next((each for each in answer if not _is_address(each)), None)
            if alias is None:
                return found + [
                    self._record(name, kind, ipaddress.ip_address(each).packed)
                    for each in answer
                    if (AAAA if ":" in each else A) == kind
                ]
            found.append(self._record(name, CNAME, _written(alias)))
            name = alias

    def _answer(self, name: str, kind: int) -> Sequence[str] | None:
        answers = self.zone.get(name)
        if answers is None:
            return None
        turn = self._turns[name, kind]
        self._turns[name, kind] += 1
        return answers[min(turn, len(answers) - 1)]

    def _record(self, name: str, kind: int, data: bytes) -> bytes:
        return _written(name) + _RECORD.pack(kind, 1, self.ttl, len(data)) + data


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    labels = []
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode().lower())
        at += 1 + length
    return ".".join(labels), at + 1


def _written(name: str) -> bytes:
    labels = [label.encode() for label in name.split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
