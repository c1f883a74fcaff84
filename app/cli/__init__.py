"""Shell. The commands of ``skybridge``, one module for each. A command imports modules that load
slowly inside its function, so that other commands start fast.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""The exit code after Ctrl+C, as in shells: 128 + the number of SIGINT."""


def main() -> None:
    """Run the command line of ``skybridge``. If a command fails with an expected error, print the
    error as one sentence, and exit with the exit code of the error.
    """
    try:
        if sys.argv[1:2] == ["serve"]:
            _serve()
        else:
            from app.cli import commands

            commands.app()
    except KeyboardInterrupt:  # before the command handles signals
        sys.exit(INTERRUPTED)
    except Exception as error:
        from app.errors import SkybridgeError

        if not isinstance(error, SkybridgeError):
            raise
        sys.exit(_report(error))


def _serve() -> None:
    """Run ``skybridge serve`` without importing the modules of other commands, which would stay in
    the memory of the service.
    """
    from app.runtime.heap import begin_heap

    begin_heap()
    from app.cli import serving

    given = serving.parse_plain_arguments(sys.argv[2:])
    if given is not None:
        serving.serve(given)
        return
    from app.cli import serve, verbs  # noqa: F401 - registers itself

    verbs.root()


def _report(error: Exception) -> int:
    """Print the error and return its exit code."""
    from app.cli import exits, printing
    from app.errors import SetupError

    if isinstance(error, SetupError):
        findings = getattr(error, "findings", None)
        if findings is not None:  # an invalid configuration: print every finding
            printing.print_error(getattr(error, "head", ""), details=map(str, findings))
        else:
            where = f"{error.setting}: " if error.setting else ""
            printing.print_error(f"{where}{error.args[0]}", error.cure)
    else:
        printing.print_error(str(error))
    return exits.code_of(error)
