"""Check which addresses a webhook may have. The sinks call this for each connection, after the name was resolved.

The attribute is_global of Python's ipaddress is not enough, because it counts NAT64 and 6to4 forms of
loopback and metadata addresses as global. So this module lists the forbidden networks. An IPv6 address must
be global unicast and not listed. An IPv4 address inside an IPv6 address is checked as IPv4.

``allow_private`` names exceptions: networks (``127.0.0.0/8``, ``fd00::/8``) and hosts (``hooks.internal``,
``*.svc.cluster.local``). Plain http is allowed only to these networks and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

import msgspec
from yarl import URL

_FORBIDDEN_4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host: connects to loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of one cloud
        "127.0.0.0/8",
        "168.63.129.16/32",  # metadata and agents of one cloud, on a public address
        "169.254.0.0/16",  # link-local, and metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # IETF assignments, and metadata of one cloud at .192
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_UNICAST_6 = IPv6Network("2000::/3")
_FORBIDDEN_6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # IETF assignments: Teredo, ORCHID, benchmarking
        "2001:db8::/32",
        "2002::/16",  # 6to4: carries any IPv4 address
        "3fff::/20",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


class _Named(msgspec.Struct, frozen=True):
    """The parsed entries of ``allow_private``."""

    networks: tuple[IPv4Network | IPv6Network, ...]
    hosts: tuple[str, ...]


def allowed(address: str, host: str, allow_private: Sequence[str], *, plain: bool = False) -> bool:
    """Return True if a connection to an address may be made.

    Args:
        address: the address to which ``host`` was resolved.
        host: the host of the URL.
        allow_private: networks and hosts that are allowed although private, or by http.
        plain: whether the URL is http, which only hosts in ``allow_private`` may have.
    """
    if _host_named(host, _parse(tuple(allow_private)).hosts):
        return True
    judged = _judged(address)
    if judged is None:
        return False
    named = _parse(tuple(allow_private)).networks
    if any(judged in network for network in named):
        return True
    return not plain and not _forbidden(judged)


def may_reach(
    host: str, allow_private: Sequence[str], *, plain: bool, proxied: bool = False
) -> bool | None:
    """Return whether a target may be reached. The check uses only the host, before its name is resolved.

    ``check``, the API and the sinks all call this, so that they refuse the same targets.

    Args:
        host: the host as ``read_url`` returns it.
        allow_private: networks and hosts that may be reached although private, or by http.
        plain: whether the URL is http rather than https.
        proxied: whether a proxy resolves names.

    Returns:
        None if the answer depends on the addresses to which the name resolves.
    """
    if is_literal(host):
        return not host.endswith(".") and allowed(host, host, allow_private, plain=plain)
    if host_allowed(host, allow_private):
        return True
    if proxied:
        return not plain
    return False if plain and not _parse(tuple(allow_private)).networks else None


def is_literal(host: str) -> bool:
    """Return True if the host is an address rather than a name.

    This includes forms of an address that only resolvers accept (``127.1``, ``0x7f000001``, ``2130706433``),
    also with a final full stop. The guard refuses a form that it cannot parse."""
    if is_address(host):
        return True
    last = host.rstrip(".").rpartition(".")[2]
    return last.isdecimal() or last.startswith(("0x", "0X"))


def is_address(host: str) -> bool:
    """Return True if the host is an address in a form that the guard can parse."""
    return _judged(host) is not None


def host_allowed(host: str, entries: Iterable[str]) -> bool:
    """Return True if an entry names this host, by a host pattern or by a network for a literal address.

    For a name, False means only that no pattern matches. Its resolved addresses may still be allowed."""
    named = _parse(tuple(entries))
    judged = _judged(host)
    return _host_named(host, named.hosts) or (
        judged is not None and any(judged in network for network in named.networks)
    )


def _host_named(host: str, patterns: Iterable[str]) -> bool:
    """Return True if a pattern names a host. The zone of an IPv6 address, a free text, counts for nothing."""
    name = _bare(host)
    name = name.partition("%")[0] if ":" in name else name
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _judged(address: str) -> IPv4Address | IPv6Address | None:
    """Return the address to which traffic would go, such as the IPv4 address inside an IPv6 address. Return
    None if the text is not an address."""
    text = _bare(address)
    try:
        parsed = ip_address(text.partition("%")[0] if ":" in text else text)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return parsed.ipv4_mapped
        if parsed in _NAT64:
            return IPv4Address(int(parsed) & 0xFFFF_FFFF)
    return parsed


def _forbidden(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return any(address in network for network in _FORBIDDEN_4)
    return address not in _UNICAST_6 or any(address in network for network in _FORBIDDEN_6)


def _bare(host: str) -> str:
    name = host.strip("[]").rstrip(".").lower()
    return name if name.isascii() else ".".join(map(_label, name.split(".")))


def _label(label: str) -> str:
    """Return one label of a host or pattern in IDNA form, which requests also use."""
    if label.isascii():
        return label
    try:
        return URL.build(scheme="http", host=label).raw_host or label
    except ValueError:
        return label


@lru_cache(maxsize=64)
def _parse(entries: tuple[str, ...]) -> _Named:
    networks: list[IPv4Network | IPv6Network] = []
    hosts: list[str] = []
    for entry in entries:
        try:
            networks.append(ip_network(entry, strict=False))
        except ValueError:
            hosts.append(_bare(entry))
    return _Named(tuple(networks), tuple(hosts))
