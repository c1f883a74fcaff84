"""``docs/proof.md`` names tests that exist, and has a section for each promise of ``docs/guarantees.md``."""

from __future__ import annotations

import re

import pytest

from pages import CHECKOUT

PROOF = (CHECKOUT / "docs/proof.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:\w+/)+test_\w+\.py)(?:::([\w:]+))?`", PROOF)))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=["::".join(pair) for pair in NAMED])
def test_a_named_test_exists(file: str, test: str) -> None:
    """A test that gets another name takes its new name into the page."""
    source = (CHECKOUT / "tests" / file).read_text(encoding="utf-8")
    for name in filter(None, test.split("::")):
        assert re.search(rf"(?:def|class) {name}\b", source)


def test_each_promise_has_its_proof() -> None:
    promises = re.findall(
        r"^### (.+)$", (CHECKOUT / "docs/guarantees.md").read_text(), re.MULTILINE
    )
    assert promises
    assert not set(promises) - set(re.findall(r"^## (.+)$", PROOF, re.MULTILINE))
