from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.delivery.address_guard import allowed, host_allowed

FORBIDDEN = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
127.1.2.3 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192
192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1
239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:169.254.169.254
::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::1
100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:10::1 2001:20::1 2001:db8::1
2002:7f00:1:: 2002:808:808:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1
ff02::1 4000::1
""".split()  # noqa: SIM905 - a table reads better than forty quoted lines
PUBLIC = """
8.8.8.8 1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
223.255.255.255 2606:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2001:200::1
""".split()  # noqa: SIM905 - a table reads better than forty quoted lines
NO_ADDRESSES = ["", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "localhost", "1.2.3"]


@pytest.mark.parametrize("address", FORBIDDEN)
@pytest.mark.parametrize("plain", [False, True])
def test_a_forbidden_address_is_refused(address, plain):
    """Reliability 4.3: every form that reaches loopback, a private network or a metadata service."""
    assert not allowed(address, "innocent.example", (), plain=plain)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed_over_https_only(address):
    """The neighbours of each forbidden block too; plain http goes nowhere that is not named."""
    assert allowed(address, "billing.example", ())
    assert not allowed(address, "billing.example", (), plain=True)


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_no_plain_address_is_refused(text):
    """Odd spellings are for resolvers: what comes out of them is judged."""
    assert not allowed(text, "innocent.example", ())


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_as_itself(address):
    """Mapped and NAT64 forms reach the IPv4 address they carry."""
    plain = allowed(str(address), "h", ())
    assert allowed(f"::ffff:{address}", "h", ()) == plain
    assert allowed(f"64:ff9b::{address}", "h", ()) == plain


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "fd12::1"])
@pytest.mark.parametrize("plain", [False, True])
def test_a_named_network_is_allowed(address, plain):
    assert allowed(address, "hook", ("127.0.0.0/8", "fd00::/8"), plain=plain)


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "169.254.169.254"])
def test_a_named_network_names_no_other(address):
    assert not allowed(address, "hook", ("127.0.0.0/8", "fd00::/8"))


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("a.svc.cluster.local", True),
        ("A.SVC.Cluster.Local.", True),
        ("hook.internal", True),
        ("svc.cluster.local", False),
        ("a.svc.cluster.local.evil.example", False),
        ("xhook.internal", False),
        ("127.0.0.1", True),
        ("[::1]", False),
        ("[fe80::1%x.svc.cluster.local]", False),  # the zone of an address is no part of a name
        ("10.0.0.1", False),
    ],
)
def test_a_host_is_named_by_pattern_or_network(host, named):
    entries = ("*.svc.cluster.local", "hook.internal", "127.0.0.0/8")
    assert host_allowed(host, entries) == named


@pytest.mark.parametrize("plain", [False, True])
def test_a_named_host_may_have_a_private_address(plain):
    assert allowed("10.1.2.3", "a.svc.cluster.local", ("*.svc.cluster.local",), plain=plain)
    assert not allowed("10.1.2.3", "b.example", ("*.svc.cluster.local",), plain=plain)
