"""The commands of the runbooks do on a service what they are there for: none fails, whatever state it is in."""

from __future__ import annotations

import pytest

from pages import CHECKOUT, blocks

RUNBOOKS = CHECKOUT / "docs" / "runbooks"
COMMANDS = sorted(
    {
        line
        for page in RUNBOOKS.glob("*.md")
        for block in blocks(page)
        if "test_runbooks.py" in block.reason
        for line in block.text.splitlines()
    }
)
"""Each once, although many pages have it."""

CONFIGURATION = """\
version: 1
brokers: {log: {kind: embedded, path: ./skybridge-data/log}}
"""


def test_every_page_has_commands():
    """Else this looks at nothing."""
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_runbook_works(command, running):
    """At three in the morning nobody mends a command line."""
    (running.folder / "skybridge.yaml").write_text(CONFIGURATION)
    done = running.pasted(command)
    assert done.returncode == 0, done.stdout + done.stderr
