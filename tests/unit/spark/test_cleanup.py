"""An error of the clean-up never hides the error before it."""

from __future__ import annotations

import pytest

from app.spark.cleanup import cleaning_up


def fail() -> None:
    raise OSError("the clean-up failed")


def test_the_first_error_is_raised() -> None:
    with pytest.raises(ValueError, match="the first error"), cleaning_up(fail):
        raise ValueError("the first error")


def test_an_error_of_the_clean_up_alone_is_raised() -> None:
    with pytest.raises(OSError, match="the clean-up failed"), cleaning_up(fail):
        pass


def test_the_clean_up_follows_the_block() -> None:
    done: list[str] = []
    with cleaning_up(lambda: done.append("cleaned")):
        done.append("block")
    assert done == ["block", "cleaned"]
