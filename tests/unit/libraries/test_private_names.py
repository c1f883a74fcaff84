"""How much of libraries is used that they do not document, and where: an upgrade stops at each (ADR 0046)."""

from __future__ import annotations

import pytest

from app.errors import SetupError
from app.libraries.versions import demand
from pages import CHECKOUT
from private_names import ROOT, in_source, patched, uses

MOST_NAMES, MOST_MODULES = 15, 5
PAGE = CHECKOUT / "docs/adr/0046-libraries-by-public-names.md"


def test_few_undocumented_names_are_used_each_in_the_adapter_of_its_library() -> None:
    """Take the public way, or replace a name that is there. The ceiling does not grow."""
    found = uses()
    names = {(use.module, use.name) for use in found}
    assert len(names) <= MOST_NAMES, sorted(names)
    assert len({use.module for use in found}) <= MOST_MODULES
    for use in found:
        assert use.module.endswith("_adapter") or use.module == "app.libraries.httpx_client", use


def test_each_of_them_is_explained_where_it_is_used_and_in_the_decision() -> None:
    page = PAGE.read_text()
    for use in uses():
        adapter = (ROOT.parent / f"{use.module.replace('.', '/')}.py").read_text()
        explained = adapter.split('"""')[1]
        assert use.name in explained, use
        assert use.name in page, use


def test_no_module_of_a_library_is_patched() -> None:
    """Other users of it in the process would get what is ours. httpx's command line is out of reach for its import."""
    assert {use.module for use in patched()} <= {"app.libraries.httpx_client"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from uvicorn._types import Scope", {"Scope"}),
        ("import _pulsar", {"_pulsar"}),
        ("from aiokafka.conn import AIOKafkaConnection", {"AIOKafkaConnection"}),
        ("from aiokafka.errors import KafkaError", set()),
        ("consumer._coordinator.generation", {"_coordinator"}),
        ("getattr(connection, '_reader_task', None)", {"_reader_task"}),
        ("hidden = 'httpx._main'", {"_main"}),
        ("class A:\n    def f(self, other):\n        self._x = other._x", set()),
        ("row._replace(a=1)", set()),
    ],
)
def test_what_counts_as_undocumented(source: str, names: set[str]) -> None:
    assert {use.name for use in in_source("app", source)} == names


def test_what_a_subclass_replaces_counts() -> None:
    module = "app.gateway.uvicorn_adapter"
    source = (ROOT / "gateway/uvicorn_adapter.py").read_text()
    assert "_start_asgi_task" in {use.name for use in in_source(module, source)}


def test_a_version_that_is_not_known_names_the_cure() -> None:
    demand("httpx", ("0.27", "0"), "app/x.py")
    with pytest.raises(
        SetupError, match=r"httpx 0\.\d+.*Cure: install httpx 0\.2 or 9; .*app/x\.py"
    ):
        demand("httpx", ("0.2", "9"), "app/x.py")
