"""What the README leads a reader through, step by step."""

from __future__ import annotations

from pages import CHECKOUT

README = (CHECKOUT / "README.md").read_text()


def test_the_first_service_is_stopped_before_the_second_is_started() -> None:
    """Both have the same folder: the second would be refused."""
    begin = README.index("`make serve` starts")
    stop = README.index("Stop `make serve` first")
    assert begin < stop < README.index("`skybridge serve --config skybridge.yaml`")
