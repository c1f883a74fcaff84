"""Every fenced block of docs/ works as it stands; ``test_readme`` pastes those of the README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.commands import app
from pages import CHECKOUT, PAGES, Block, blocks

ALL = [block for page in PAGES for block in blocks(page)]
TO_RUN = [block for block in ALL if not block.reason]


def of_language(language: str) -> list[Block]:
    return [block for block in TO_RUN if block.language == language]


OF_TEST_README = {CHECKOUT / "README.md"}
WITH_BASH = sorted({block.page for block in of_language("bash")} - OF_TEST_README)
OF_THE_NIGHT = (
    CHECKOUT / "docs" / "migrate"
)  # pages of one form, of which the guides show every command


def _param(page: Path) -> Any:
    marks = [pytest.mark.nightly] if page.is_relative_to(OF_THE_NIGHT) else []
    return pytest.param(page, marks=marks, id=page.relative_to(CHECKOUT).as_posix())


@pytest.mark.timeout(1_800)  # a page starts a dozen programs, and the machine may be starved
@pytest.mark.parametrize("page", [_param(page) for page in WITH_BASH])
def test_the_bash_blocks_of_a_page_run_as_pasted(page, running_anew):
    """What a newcomer pastes first must work (issue: README); a page is read from its top, and needs
    no other page's blocks."""
    for block in of_language("bash"):
        if block.page == page:
            result = running_anew.pasted(block.text)
            assert result.returncode == 0, f"{block}: {result.stdout}{result.stderr}"


@pytest.mark.parametrize("block", of_language("yaml"), ids=str)
def test_a_yaml_block_is_a_configuration_without_errors(block, tmp_path):
    """An example that does not load teaches the wrong thing. Asked in this process: there are many."""
    file = tmp_path / "skybridge.yaml"
    file.write_text(block.text)
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0, result.output


def test_every_other_block_says_why_it_is_not_run():
    """A new language, or a forgotten marker, is noticed."""
    assert [str(block) for block in TO_RUN if block.language not in {"bash", "yaml"}] == []


def test_the_make_verbs_of_unexecuted_blocks_exist():
    """`make test` cannot run inside itself; its target must be there all the same."""
    makefile = (CHECKOUT / "Makefile").read_text()
    wanted = {
        verb
        for block in ALL
        if block.reason
        for verb in re.findall(r"(?m)^[^#\n]*\bmake ([a-z]+)", block.text)
    }
    assert wanted
    assert [verb for verb in wanted if not re.search(rf"^{verb}:", makefile, re.MULTILINE)] == []
