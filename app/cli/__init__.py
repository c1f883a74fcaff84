"""Shell. The commands, one module each; heavy parts are imported inside the command."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as a shell has it


def main() -> None:
    """The console script. Expected errors become one sentence and an exit code, never a traceback."""
    try:
        if sys.argv[1:2] == ["serve"]:
            _serve()
        else:
            from app.cli import commands

            commands.app()
    except KeyboardInterrupt:  # before the command heeds signals
        sys.exit(INTERRUPTED)
    except Exception as error:
        from app.errors import SkybridgeError

        if not isinstance(error, SkybridgeError):
            raise
        sys.exit(_translated(error))


def _serve() -> None:
    """Alone: the service would keep the memory of the other commands."""
    from app.runtime.heap import begin_heap

    begin_heap()
    from app.cli import serving

    given = serving.plain(sys.argv[2:])
    if given is not None:
        serving.serve(given)
        return
    from app.cli import serve, verbs  # noqa: F401 - registers itself

    verbs.root()


def _translated(error: Exception) -> int:
    """Say it, and the exit code it makes."""
    from app.cli import exits, printing
    from app.errors import BrokerUnavailable, SetupError

    if isinstance(error, SetupError):
        findings = getattr(error, "findings", None)
        if findings is not None:  # a configuration: every line that is wrong
            printing.print_error(getattr(error, "head", ""), details=map(str, findings))
        else:
            where = f"{error.setting}: " if error.setting else ""
            printing.print_error(f"{where}{error.args[0]}", error.cure)
        return exits.SETUP
    printing.print_error(str(error))
    return exits.UNREACHABLE if isinstance(error, BrokerUnavailable) else exits.FAILED
