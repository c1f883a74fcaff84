"""The DNS of the laboratory: a server for one name, which answers, lies or hangs as it is told."""

from __future__ import annotations

from dns_server import NameServer

NAME = "hook.proof.example"
"""The name of the target."""
MODES = ("answer", "hang", "deny", "lie", "loopback")


class Names(NameServer):
    """A DNS server on the host of the target.

    Attributes:
        mode: What happens to queries: ``answer``, ``hang`` (no answer), ``deny`` (no such name), ``lie`` (the address
            of another host), ``loopback`` (the address of whoever asks).
    """

    def __init__(self, target: str, other: str) -> None:
        self.mode = "answer"
        self._zones = {
            "answer": {NAME: ((target,),)},
            "deny": {},
            "lie": {NAME: ((other,),)},
            "loopback": {NAME: (("127.0.0.1",),)},
        }
        super().__init__(self._zones["answer"])

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self.mode != "hang":
            self.zone = dict(self._zones[self.mode])
            super().datagram_received(data, addr)
