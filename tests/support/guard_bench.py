"""Send requests to all forbidden addresses in a network where this machine has every address, and
record the packets.

A program: ``unshare --net --mount python guard_bench.py FOLDER``. In its network namespace all of
IPv4 and IPv6 is local. One listener a port accepts connections to any address, and a raw socket
sees every packet. The system's resolver asks the program's own DNS server. The report in
``FOLDER/report.json`` has the result of each request and the addresses that were reached.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

from app.bindings.http import HttpMessage
from app.features.tokens import ask_through
from app.sinks import dns
from app.sinks.http_client import HttpClient
from app.sinks.tls import TlsFiles
from dns_server import NameServer
from forbidden_addresses import ADDRESSES, CONFUSIONS, FAMILIES
from waiting import until

NAME_SERVER = "127.0.0.53"
PUBLIC, PUBLIC_TOO, PUBLIC_6 = "8.8.8.8", "1.1.1.1", "2606:4700::1111"
EVENT = HttpMessage.of((("ce-id", "1"), ("ce-type", "t")), b"{}")
PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
PROXY = "10.9.9.9"
ANSWER = b"HTTP/1.1 204 X\r\n\r\n"
_PATIENCE = 20.0

RequestResult = tuple[int | None, str]
"""The HTTP status of a request and the code of its fault, each if there is one."""


def take_over_network(folder: Path) -> None:
    """Make all addresses local and our DNS server the system's resolver."""
    for command in (
        "ip link set lo up",
        "ip addr add 192.0.2.77/32 dev lo",  # else the resolver asks for no IPv4, and no IPv6
        "ip addr add 2001:db8::77/128 dev lo",
        "ip route add local 0.0.0.0/0 dev lo",
        "ip -6 route add local ::/0 dev lo",
    ):
        subprocess.run(command.split(), check=True, capture_output=True, timeout=60)
    names = folder / "resolv.conf"
    names.write_text(f"nameserver {NAME_SERVER}\noptions timeout:1 attempts:1\n")
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
    for source, place in ((names, "/etc/resolv.conf"), (hosts, "/etc/hosts")):
        subprocess.run(
            ["mount", "--bind", str(source), place], check=True, capture_output=True, timeout=60
        )
    for name in PROXIES:
        os.environ[name] = f"http://{PROXY}:3128"


class Packets:
    """Counts the packets of this network by their destination."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22)
        self._socket.bind(("lo", 0))
        self._socket.setblocking(False)

    def seen(self) -> Counter[str]:
        """Return the count of packets by destination since the last call, except those of the DNS
        server.
        """
        found: Counter[str] = Counter()
        while True:
            try:
                data, (_, protocol, *_) = self._socket.recvfrom(128)
            except BlockingIOError:
                return found
            address = _destination(data, protocol)
            if address not in (None, NAME_SERVER):
                found[address] += 1

    def close(self) -> None:
        self._socket.close()


def _destination(data: bytes, protocol: int) -> str | None:
    """Return the destination of a packet that opens a connection or is not TCP, otherwise None.

    Packets from the DNS server and ICMP give None too.
    """
    if protocol == 0x0800:
        kind, source, to = data[9], data[12:16], data[16:20]
        rest = data[(data[0] & 15) * 4 :]
        family = socket.AF_INET
    elif protocol == 0x86DD:
        kind, source, to, rest = data[6], data[8:24], data[24:40], data[40:]
        family = socket.AF_INET6
    else:
        return None
    if socket.inet_ntop(family, source) == NAME_SERVER:
        return None
    if kind == socket.IPPROTO_TCP and not (rest[13] & 2 and not rest[13] & 16):
        return None
    if kind in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6):
        return None
    return socket.inet_ntop(family, to)


class Everywhere:
    """A server on every address, at ports 80 and 443.

    ``answer`` is the raw HTTP answer to every request. ``taken`` counts connections by the address
    they came to.
    """

    def __init__(self) -> None:
        self.answer = ANSWER
        self.taken: Counter[str] = Counter()
        self.requests: list[bytes] = []
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, tls: ssl.SSLContext) -> None:
        for host, family in (("0.0.0.0", socket.AF_INET), ("::", socket.AF_INET6)):
            for port, context in ((80, None), (443, tls)):
                server = await asyncio.start_server(
                    self._accept, host, port, family=family, ssl=context
                )
                self._servers.append(server)

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken[writer.get_extra_info("sockname")[0].partition("%")[0]] += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n")
                     if line.startswith(b"content-length:")), 0,
                )  # fmt: skip
                await reader.readexactly(length)
                self.requests.append(head)
                writer.write(self.answer)
                await writer.drain()
                if b"Connection: close" in self.answer:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()


class GuardBench:
    """Sends requests in every way that Skybridge can, and records which addresses they reached."""

    def __init__(self, names: NameServer, everywhere: Everywhere, ca: Path) -> None:
        self.names = names
        self.everywhere = everywhere
        self.packets = Packets()
        self._ca = ca

    @contextmanager
    def touched(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary. When the block ends, the dictionary has the ``connections`` and
        ``packets`` of the block by address."""
        self.packets.seen()
        self.everywhere.taken.clear()
        found: dict[str, Any] = {}
        yield found
        found["connections"] = dict(self.everywhere.taken)
        found["packets"] = dict(self.packets.seen())

    def poster(self, **settings: Any) -> HttpClient:
        return HttpClient(tls=TlsFiles(self._ca), **settings)

    async def request(self, way: str, url: str, poster: HttpClient | None = None) -> RequestResult:
        own = poster or self.poster()
        try:
            return await WAYS[way](own, url)
        finally:
            if poster is None:
                await own.stop()


async def _event(poster: HttpClient, url: str) -> RequestResult:
    answer = await poster.post(url, EVENT, _PATIENCE)
    return answer.status, answer.fault


async def _handshake(poster: HttpClient, url: str) -> RequestResult:
    answer, _ = await poster.ask(
        url, HttpMessage.of((("WebHook-Request-Origin", "o"),), b""), _PATIENCE
    )
    return answer.status, answer.fault


async def _token(poster: HttpClient, url: str) -> RequestResult:
    try:
        status, _ = await ask_through(poster)(url, {"grant_type": "x"}, ("id", "secret"), _PATIENCE)
    except OSError as error:
        return None, str(error).partition(" ")[0]
    return status, ""


WAYS: dict[str, Callable[[HttpClient, str], Awaitable[RequestResult]]] = {
    "event": _event,
    "handshake": _handshake,
    "token": _token,
}


async def reachable() -> dict[str, bool]:
    """Return which forbidden addresses can be reached here without a guard.

    This is the control: without it a count of zero would prove nothing.
    """
    found = {}
    for address in ADDRESSES:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.setblocking(False)
            try:
                async with asyncio.timeout(5):
                    await asyncio.get_running_loop().sock_connect(tried, (address, 80))
            except OSError:
                found[address] = False
            else:
                found[address] = True
    return found


async def literals(bench: GuardBench) -> list[dict[str, Any]]:
    """Request every spelling by http and https in every way."""
    rows = []
    for family, each in FAMILIES.items():
        for host in each.hosts:
            for scheme in ("https", "http"):
                for way in WAYS:
                    with bench.touched() as row:
                        result = await bench.request(way, f"{scheme}://{host}/hook")
                    rows.append(
                        {"family": family, "host": host, "way": way, "result": result, **row}
                    )
    return rows


async def confusions(bench: GuardBench) -> list[dict[str, Any]]:
    rows = []
    for about, url in CONFUSIONS.items():
        for way in WAYS:
            with bench.touched() as row:
                result = await bench.request(way, url)
            rows.append({"about": about, "way": way, "result": result, **row})
    return rows


async def names_that_lead_inside(bench: GuardBench) -> list[dict[str, Any]]:
    """Request DNS names that lead to each address, directly and by a chain of aliases."""
    rows = []
    for number, address in enumerate(ADDRESSES):
        bench.names.zone[f"n{number}.example"] = [[address]]
        bench.names.zone[f"c{number}.example"] = [[f"c{number}.one.example"]]
        bench.names.zone[f"c{number}.one.example"] = [[f"n{number}.example"]]
        for name in (f"n{number}.example", f"c{number}.example"):
            with bench.touched() as row:
                result = await bench.request("event", f"https://{name}/")
            rows.append({"address": address, "name": name, "result": result, **row})
    return rows


MIXTURES = {
    "IPv4 with a bad one": ["127.0.0.1", PUBLIC],
    "IPv6 with a bad IPv4": ["169.254.169.254", PUBLIC_6],
    "IPv4 with a bad IPv6": ["::1", PUBLIC],
    "one good among many": ["10.0.0.1", "::1", PUBLIC, "64:ff9b::7f00:1", "100.64.0.1", "fd00::1"],
    "none good": ["10.0.0.1", "::1", "fe80::1", "192.0.0.192"],
}


async def mixtures(bench: GuardBench) -> list[dict[str, Any]]:
    rows = []
    for number, (about, answer) in enumerate(MIXTURES.items()):
        bench.names.zone[f"mixed{number}.example"] = [answer]
        for way in WAYS:
            with bench.touched() as row:
                result = await bench.request(way, f"https://mixed{number}.example/")
            rows.append({"about": about, "way": way, "result": result, **row})
    return rows


async def rebinding(bench: GuardBench) -> list[dict[str, Any]]:
    """Request names whose DNS answer alternates between public and forbidden addresses with a TTL
    of 0.

    Each attempt opens a new connection.
    """
    rows = []
    dns.CACHE_SECONDS = 0
    bench.everywhere.answer = b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n"
    for way in WAYS:
        name = f"rebind-{way}.example"
        bench.names.zone[name] = [[PUBLIC], ["127.0.0.1"], [PUBLIC_TOO], ["169.254.169.254"]]
        poster = bench.poster()
        for attempt in range(6):
            with bench.touched() as row:
                result = await bench.request(way, f"https://{name}/", poster)
            rows.append({"way": way, "attempt": attempt, "result": result, **row})
        await poster.stop()
    bench.everywhere.answer = ANSWER
    return rows


async def kept_alive(bench: GuardBench) -> list[dict[str, Any]]:
    """Request on a kept connection, which stays at the checked address even if the name now leads
    elsewhere.
    """
    bench.names.zone["kept.example"] = [[PUBLIC], ["127.0.0.1"]]
    poster = bench.poster()
    rows = []
    for attempt in range(4):
        with bench.touched() as row:
            result = await bench.request("event", "https://kept.example/", poster)
        rows.append({"attempt": attempt, "result": result, **row})
    await poster.stop()
    return rows


async def redirects(bench: GuardBench) -> list[dict[str, Any]]:
    rows = []
    for to in ("http://127.0.0.1/", "https://169.254.169.254/", "//10.0.0.1/", "http://[::1]/"):
        for code in (301, 302, 303, 307, 308):
            bench.everywhere.answer = (
                f"HTTP/1.1 {code} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            for way in WAYS:
                with bench.touched() as row:
                    result = await bench.request(way, "https://public.example/")
                rows.append({"to": to, "code": code, "way": way, "result": result, **row})
    bench.everywhere.answer = ANSWER
    return rows


async def allowed_addresses(bench: GuardBench) -> list[dict[str, Any]]:
    """Request allowed addresses, which must be reached, and forbidden addresses, which must not.

    This is the control that the guard does not refuse everything.
    """
    rows = []
    poster = bench.poster(allow_private=("127.0.0.2/32", "10.0.0.0/8"))
    for host in ("127.0.0.2", "10.0.0.1", "127.0.0.1", "169.254.169.254"):
        with bench.touched() as row:
            result = await bench.request("event", f"http://{host}/", poster)
        rows.append({"host": host, "result": result, **row})
    await poster.stop()
    with bench.touched() as row:
        result = await bench.request("event", "https://public.example/")
    rows.append({"host": "public.example", "result": result, **row})
    return rows


async def walk(folder: Path) -> dict[str, Any]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    hosts = [f"rebind-{way}.example" for way in WAYS]
    hosts += [f"mixed{number}.example" for number in range(len(MIXTURES))]
    authority.issue_cert("public.example", "kept.example", *hosts).configure_cert(context)
    inside = ("localhost", "x.localhost", "%6c%6fcalhost")
    names = NameServer({"public.example": [[PUBLIC]], **{name: [["127.0.0.1"]] for name in inside}})
    everywhere = Everywhere()
    await names.start()
    await everywhere.start(context)
    bench = GuardBench(names, everywhere, folder / "ca.pem")
    try:
        with bench.touched() as control:
            control["reached"] = await reachable()
            await until(lambda: everywhere.taken.total() == sum(control["reached"].values()))
        report: dict[str, Any] = {"control": control}
        for step in STEPS:
            report[step.__name__] = await step(bench)
        report["asked"] = sum(names.asked.values())
        return report
    finally:
        bench.packets.close()
        await everywhere.stop()
        names.stop()


STEPS = (
    literals,
    confusions,
    names_that_lead_inside,
    mixtures,
    kept_alive,
    redirects,
    allowed_addresses,
    rebinding,
)


def main() -> None:
    folder = Path(sys.argv[1])
    take_over_network(folder)
    report = asyncio.run(walk(folder))
    (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
