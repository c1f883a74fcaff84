"""All addresses, spellings and tricks to which Skybridge must not send a request.

The table is the input of the test. docs/guides/webhooks.md has a row for each of its families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """One kind of forbidden address. ``hosts`` are written as in a URL; ``about`` is the name on
    the page.
    """

    about: str
    hosts: tuple[str, ...]


FAMILIES: Mapping[str, Family] = {
    "loopback": Family(
        "loopback",
        ("127.0.0.1", "127.0.0.2", "127.0.1.1", "127.255.255.254", "[::1]", "localhost",
         "localhost.", "LOCALHOST", "x.localhost"),
    ),
    "this-host": Family("this host", ("0.0.0.0", "0.1.2.3", "[::]")),
    "private": Family(
        "private networks",
        ("10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "[fc00::1]", "[fd12::1]",
         "[fec0::1]"),
    ),
    "link-local": Family("link-local", ("169.254.0.1", "[fe80::1]", "[fe80::1%25lo]")),
    "metadata": Family(
        "metadata services of clouds",
        ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
         "[fd00:ec2::254]"),
    ),
    "cgnat": Family("carrier-grade NAT", ("100.64.0.1", "100.127.255.254")),
    "reserved": Family(
        "reserved, documentation, benchmarking",
        ("192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
         "240.0.0.1", "255.255.255.255", "[100::1]", "[2001::1]", "[2001:10::1]", "[2001:20::1]",
         "[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[4000::1]"),
    ),
    "multicast": Family("multicast", ("224.0.0.1", "239.255.255.250", "[ff02::1]", "[ff0e::1]")),
    "mapped": Family(
        "IPv4 mapped into IPv6",
        ("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]", "[::ffff:10.0.0.1]",
         "[0:0:0:0:0:ffff:127.0.0.1]"),
    ),
    "compatible": Family(
        "IPv4 compatible and translated", ("[::127.0.0.1]", "[::7f00:1]", "[::ffff:0:127.0.0.1]")
    ),
    "nat64": Family(
        "NAT64", ("[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::10.0.0.1]",
                  "[64:ff9b:1::1]"),
    ),
    "6to4": Family("6to4", ("[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2002:808:808::]")),
    "teredo": Family("Teredo", ("[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[2001:0:7f00:1::]")),
    "decimal": Family("decimal", ("2130706433", "2852039166", "0", "127.1", "127.0.1", "10.1")),
    "octal": Family("octal", ("0177.0.0.1", "0177.1", "017700000001", "0251.0376.0251.0376")),
    "hexadecimal": Family(
        "hexadecimal", ("0x7f000001", "0x7f.0.0.1", "0x7f.1", "0X7F000001", "0xa9fea9fe")
    ),
    "full-width": Family(
        "full-width and circled digits, other full stops",
        ("\uff11\uff12\uff17.0.0.1", "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021",
         "127\uff0e0\uff0e0\uff0e1", "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3"),
    ),
    "percent": Family("percent code", ("%31%32%37.0.0.1", "%6c%6fcalhost")),
    "trailing": Family("a full stop at the end", ("127.0.0.1.", "169.254.169.254.", "0x7f.1.")),
}  # fmt: skip

_PLAIN = (
    "loopback", "this-host", "private", "link-local", "metadata", "cgnat", "reserved", "multicast",
    "compatible", "nat64", "6to4", "teredo",
)  # fmt: skip
ADDRESSES = tuple(
    dict.fromkeys(
        host.strip("[]").partition("%")[0]
        for name in _PLAIN
        for host in FAMILIES[name].hosts
        if host[0] in "[0123456789"
    )
)
"""The forbidden hosts that are plain IP addresses. A DNS name must not lead to them either."""

CONFUSIONS: Mapping[str, str] = {
    "credentials": "https://user:secret@public.example/",
    "a host after credentials": "https://public.example:443@127.0.0.1/",
    "a backslash": "https://public.example\\@127.0.0.1/",
    "a fragment": "https://127.0.0.1#@public.example/",
    "a space": "https://127.0.0.1 /",
    "a tab": "https://127.0.0\t.1/",
    "a zone": "https://[::1%25eth0]/",
    "no host": "https:///127.0.0.1/",
    "another scheme": "file:///etc/passwd",
    "gopher": "gopher://127.0.0.1:6379/_x",
}
"""URLs that two parsers may read differently. In no reading may a request reach a forbidden
address."""
