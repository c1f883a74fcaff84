"""docs/opinions.md is what ``make opinions`` writes."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from opinion_install import SDKS
from opinion_list import listed
from opinion_skybridge import NAME, Skybridge
from opinion_verdicts import opinions_of
from pages import CHECKOUT

pytestmark = pytest.mark.nightly

_HERE = Path(__file__).parent
_NUMBER = re.compile(r"\d+")


def test_the_page_has_every_class_and_every_sdk(verdicts, sql_on_the_table):
    """A page from before the last class was listed tells a reader less than we know. Counts follow
    the corpus, and may lag behind it.
    """
    spec = importlib.util.spec_from_file_location("opinion_table", _HERE / "table.py")
    table = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = table
    spec.loader.exec_module(table)
    found = {NAME: opinions_of(Skybridge(), frozenset())} | {sdk: verdicts(sdk) for sdk in SDKS}
    written = (CHECKOUT / "docs" / "opinions.md").read_text()
    assert _NUMBER.sub("N", written) == _NUMBER.sub(
        "N", table.page(found, listed(), sql_on_the_table)
    )
