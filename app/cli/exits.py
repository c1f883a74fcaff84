"""The exit codes of all commands and their meaning. ``skybridge --help`` prints this table too."""

from __future__ import annotations

OK = 0
FAILED = 1
SETUP = 2
UNREACHABLE = 3
CHANGES = 4
RESTART = 5

MEANING = {
    OK: "done",
    FAILED: "refused, or an error was found: see the output",
    SETUP: "an option or a setting is wrong: the message names it and the cure",
    UNREACHABLE: "the server does not answer",
    CHANGES: "plan: there are changes",
    RESTART: "plan: a change needs a restart",
}


def code_of(error: Exception) -> int:
    """Return the exit code of a command that ends with this error."""
    from app.errors import BrokerUnavailable, LakeUnavailable, SetupError

    if isinstance(error, BrokerUnavailable | LakeUnavailable):
        return UNREACHABLE
    return SETUP if isinstance(error, SetupError) else FAILED
