"""In a network where every address of the world answers, no request of ours reaches a forbidden one.

The machine's own resolver asks a name server of the test's; listeners and packets are counted
(reliability 4.3). ``guard_bench`` walks, this judges.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

import guard_bench
from forbidden_addresses import ADDRESSES, CONFUSIONS, FAMILIES
from pages import CHECKOUT

PUBLIC = {"8.8.8.8", "1.1.1.1", "2606:4700::1111"}
UNREACHABLE = 6  # multicast, broadcast, link-local without its interface: TCP itself refuses them
Report = dict[str, Any]


def _namespace() -> list[str]:
    """How a network of one's own is had here; skips where it is not."""
    for more in ([], ["--map-root-user"]):
        command = ["unshare", *more, "--net", "--mount"]
        if shutil.which("unshare") and shutil.which("ip"):
            tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=60)
            if tried.returncode == 0:
                return command
    pytest.skip("this machine gives no network namespaces (unshare, ip)")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("guard")
    support = Path(guard_bench.__file__)
    done = subprocess.run(
        [*_namespace(), sys.executable, str(support), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(support.parent)])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: Report = json.loads((folder / "report.json").read_text())
    return found


def touched(row: Report) -> set[str]:
    """Addresses that got a connection or a packet."""
    return {*row["connections"], *row["packets"]}


def test_the_forbidden_addresses_are_there_to_be_reached(report: Report) -> None:
    """Counting nothing proves nothing where nothing could come: unguarded, they answer, and are seen."""
    control = report["control"]
    reached = {address for address, answers in control["reached"].items() if answers}
    assert len(ADDRESSES) - len(reached) <= UNREACHABLE
    expected = {
        str(ip_address("127.0.0.1" if each == "0.0.0.0" else "::1" if each == "::" else each))
        for each in reached
    }
    assert expected <= {str(ip_address(each)) for each in control["connections"]}
    assert expected <= {str(ip_address(each)) for each in control["packets"]}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_spelling_of_a_forbidden_address_is_reached(report: Report, family: str) -> None:
    """By http and https; by an event, a handshake, and a request for a token."""
    rows = [row for row in report["literals"] if row["family"] == family]
    assert len(rows) == 2 * 3 * len(FAMILIES[family].hosts)
    for row in rows:
        assert touched(row) == set(), row
        said = {"bad-request"} if row["host"].startswith("%6c") else {"blocked-address"}
        assert row["result"][0] is None, row
        assert row["result"][1] in said, row  # such a name is refused before it is looked up


@pytest.mark.parametrize("about", CONFUSIONS)
def test_no_url_that_is_read_in_two_ways_reaches_one(report: Report, about: str) -> None:
    """And none with credentials is sent at all."""
    rows = [row for row in report["confusions"] if row["about"] == about]
    assert len(rows) == 3
    for row in rows:
        assert touched(row) == set(), row
        assert row["result"][0] is None
        assert row["result"][1] in {"bad-request", "blocked-address", "dns"}


def test_no_name_leads_to_one(report: Report) -> None:
    """Each of them as the address of a name, and at the end of a chain of aliases."""
    rows = report["names_that_lead_inside"]
    assert len(rows) == 2 * len(ADDRESSES)
    assert report["asked"] > len(rows)
    for row in rows:
        assert touched(row) == set(), row
        assert row["result"] == [None, "blocked-address"], row


def test_of_a_mixture_only_the_public_ones_are_tried(report: Report) -> None:
    """IPv4 and IPv6 together: one bad address neither gets a packet nor keeps the others from it."""
    rows = report["mixtures"]
    assert len(rows) == 3 * len(guard_bench.MIXTURES)
    for row in rows:
        assert touched(row) <= PUBLIC, row
        if row["about"] == "none good":
            assert row["result"] == [None, "blocked-address"]
        else:
            assert row["result"] == [204, ""], row
            assert len(touched(row)) == 1


@pytest.mark.parametrize("way", guard_bench.WAYS)
def test_a_name_that_changes_its_mind_is_looked_at_each_time(report: Report, way: str) -> None:
    """DNS rebinding: public, loopback, public, metadata, with a TTL of 0."""
    rows = [row for row in report["rebinding"] if row["way"] == way]
    assert [row["result"] for row in rows] == [
        [204, ""],
        [None, "blocked-address"],
        [204, ""],
        *[[None, "blocked-address"]] * 3,
    ]
    assert [touched(row) for row in rows] == [{"8.8.8.8"}, set(), {"1.1.1.1"}, set(), set(), set()]


def test_a_kept_connection_stays_with_the_address_that_was_checked(report: Report) -> None:
    """Whatever its name says by now."""
    rows = report["kept_alive"]
    assert [row["result"] for row in rows] == [[204, ""]] * 4
    assert [touched(row) for row in rows] == [{"8.8.8.8"}, set(), set(), set()]


def test_no_redirect_is_followed(report: Report) -> None:
    """W3: 30x to loopback, metadata and private addresses, of every way out."""
    rows = report["redirects"]
    assert len(rows) == 4 * 5 * 3
    for row in rows:
        assert row["result"] == [row["code"], ""], row
        assert touched(row) == {"8.8.8.8"}, row


def test_what_is_named_is_reached_and_nothing_beside_it(report: Report) -> None:
    """``allow_private``: the guard is a guard and no wall."""
    said = {row["host"]: (row["result"], touched(row)) for row in report["allowed_addresses"]}
    assert said == {
        "127.0.0.2": ([204, ""], {"127.0.0.2"}),
        "10.0.0.1": ([204, ""], {"10.0.0.1"}),
        "127.0.0.1": ([None, "blocked-address"], set()),
        "169.254.169.254": ([None, "blocked-address"], set()),
        "public.example": ([204, ""], {"8.8.8.8"}),
    }


def test_no_proxy_of_the_environment_was_used(report: Report) -> None:
    """All variables named one during the whole walk."""
    steps = [step.__name__ for step in guard_bench.STEPS]
    seen = {address for step in steps for row in report[step] for address in touched(row)}
    assert guard_bench.PROXY not in seen
    assert seen <= PUBLIC | {"127.0.0.2", "10.0.0.1"}  # the last two were allowed


def test_the_page_lists_the_whole_set() -> None:
    """docs/guides/webhooks.md: what is held against us is one table."""
    page = (CHECKOUT / "docs" / "guides" / "webhooks.md").read_text()
    for family in FAMILIES.values():
        assert f"| {family.about} |" in page, family.about
