"""What a running archive prints."""

from __future__ import annotations

import pytest

from app.cli.pipeline import archive
from app.pipeline.archive.job import ArchiveProgress


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("quiet", [True, False])
def test_an_error_and_a_notice_are_printed_in_each_form(
    once: bool, quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``--json`` an archive whose catalog was away once printed nothing at all."""
    with archive._progress(once=once, quiet=quiet) as tell:
        tell(ArchiveProgress("derive", 0, trouble="the catalog does not answer"))
        tell(ArchiveProgress("copy", 0, notice="Topic orders was created again"))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Events could not be decoded: the catalog does not answer" in printed.err
    assert "Topic orders was created again" in printed.err
