"""Run the service of ``skybridge serve``. Parse a command line with only its usual options without
typer.

Typer would stay in the memory of the service. It needs 4 MB, and a tenth of the start time.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from app.cli import exits
from app.cli.early_log import begin_log
from app.telemetry import logs_json
from app.telemetry.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.config.load.finding import Finding
    from app.config.model.config import Config
    from app.features.component import Role
    from app.runtime.service import Service

CONFIG = "SKYBRIDGE_CONFIG"
WAITS = "--wait-for-config"
WAITS_VARIABLE = "SKYBRIDGE_WAIT_FOR_CONFIG"  # which the Helm chart sets: an older image ignores it
ROLES: tuple[Role, ...] = ("gateway", "worker")

_log = logging.getLogger("skybridge.serve")


class ServeArguments(NamedTuple):
    """The options of ``skybridge serve``: the configuration file and the roles. ``waits`` means that
    the process waits for a configuration that it can use.
    """

    config: Path | None
    roles: tuple[Role, ...]
    waits: bool = False


def parse_plain_arguments(words: Sequence[str]) -> ServeArguments | None:
    """Parse a command line with only the options --config, --role and --wait-for-config. Return None
    for any other command line, which typer must parse.
    """
    file, left = os.environ.get(CONFIG) or None, iter(words)
    roles: list[Role] = []
    waits = os.environ.get(WAITS_VARIABLE, "").strip().lower() in {"1", "true", "yes", "on"}
    for word in left:
        if word == WAITS:
            waits = True
            continue
        name, equals, value = word.partition("=")
        if name not in {"--config", "--role", "-c"} or (equals and name == "-c"):
            return None
        value = value if equals else next(left, "")
        if not value or value.startswith("-"):
            return None
        if name != "--role":
            file = value
        elif (role := _role(value)) is None:
            return None
        else:
            roles.append(role)
    return ServeArguments(None if file is None else Path(file), tuple(roles) or ROLES, waits)


def _role(text: str) -> Role | None:
    return next((each for each in ROLES if each == text), None)


def serve(given: ServeArguments, announce: Callable[[Service], None] | None = None) -> None:
    """Run the service until a signal stops it. If ``announce`` is set, call it at the start instead
    of reporting the start.

    With ``log.format: json`` an expected error is an entry of the log. Otherwise it is raised, and
    the caller prints it.
    """
    from app.errors import SkybridgeError

    begin_log(given.config, os.environ)
    try:
        _serve(given, announce)
    except SkybridgeError as error:
        if not logs_json():
            raise
        _log_error(error)
        sys.exit(exits.code_of(error))


def _serve(given: ServeArguments, announce: Callable[[Service], None] | None) -> None:
    from app.config.check.source import ConfigSource
    from app.runtime.run import run, run_when_valid

    source = ConfigSource(given.config, dict(os.environ))
    if given.waits:
        run_when_valid(source, roles=given.roles, announce=announce or _announce, warn=_warn)
        return
    loaded, findings = source.judge(source.read())
    _warn(findings)
    warnings = [str(each) for each in findings]
    run(
        loaded,
        roles=given.roles,
        announce=announce or _announce,
        source=source,
        warnings=warnings,
    )


def _log_error(error: Exception) -> None:
    """Log the error that ends the process, with its findings, or its setting and cure."""
    findings = [str(each) for each in getattr(error, "findings", ())]
    if findings:
        message = f"{getattr(error, 'head', '')}: {'; '.join(findings)}"
        _log.error("%s", message, extra={"findings": findings})
        return
    about = {name: getattr(error, name, None) for name in ("setting", "cure")}
    extra = {name: text for name, text in about.items() if text}
    _log.error("%s", error.args[0] if error.args else error, extra=extra)


def _warn(findings: Sequence[Finding]) -> None:
    """Report the warnings of the configuration."""
    for finding in findings:
        if logs_json():
            about = {"setting": finding.setting, "line": finding.line, "cure": finding.cure}
            _log.warning("%s", finding.message, extra=about)
        else:
            print(_styled(str(finding), "33"), file=sys.stderr)


def console_url(service: Service) -> str | None:
    """Return the URL of the web console, or None if the console is switched off or not built."""
    if not service.console.shown or service.console.missing:
        return None
    return f"{service.admin_url}/console/"


def _announce(service: Service) -> None:
    """Report the addresses, routes and subscriptions."""
    (_log_start if logs_json() else _print_start)(service)


def _log_start(service: Service) -> None:
    """Log one entry with the addresses, routes, subscriptions and paths."""
    from app.config.check.paths import named_paths

    config = service.config
    about = {
        "roles": service.roles,
        "events": f"{service.events_url}/events" if service.events_url else None,
        "admin": service.admin_url,
        "console": console_url(service),
        "routes": _routes(config) if service.events_url else [],
        "subscriptions": _subscriptions(config) if "worker" in service.roles else [],
        "paths": [str(each) for each in named_paths(config)],
    }
    _log.info("the service accepts requests", extra=about)


def _print_start(service: Service) -> None:
    """Print the addresses, routes, subscriptions and an example. Rich is not used, because the
    service would keep its memory.
    """
    from app.cli.example_request import example_command
    from app.config.check.paths import named_paths

    config = service.config
    if service.events_url:
        _print_line("events", f"{service.events_url}/events")
    _print_line("admin", f"{service.admin_url}  (status, metrics, docs)")
    if url := console_url(service):
        _print_line("console", url)
    elif service.console.shown:
        _print_line("console", service.console.missing)
    for path in named_paths(config):
        print(printable(str(path)), file=sys.stderr)
    for line in _routes(config) if service.events_url else ():
        print(printable(f"route   {line}"), file=sys.stderr)
    for line in _subscriptions(config) if "worker" in service.roles else ():
        print(printable(f"to      {line}"), file=sys.stderr)
    if service.events_url and (request := example_command(config, service.events_url)):
        print(file=sys.stderr)
        _print_line("try", f"{request}\n")


def _print_line(name: str, text: str) -> None:
    print(f"{_styled(f'{name:<7}', '1')} {text}", file=sys.stderr)


def _styled(text: str, style: str) -> str:
    """Return the text with a terminal style, given by its SGR number, if standard error is a
    terminal.
    """
    plainly = not sys.stderr.isatty() or os.environ.get("NO_COLOR")
    return text if plainly else f"\x1b[{style}m{text}\x1b[0m"


def _routes(config: Config) -> list[str]:
    return [
        f"{route.name} -> " + ", ".join(f"{to.broker}/{to.place}" for to in route.to)
        for route in config.routes
    ]


def _subscriptions(config: Config) -> list[str]:
    return [
        f"{each.id}: {each.source.broker}/{','.join(each.source.topics)} -> {each.sink_text}"
        for each in config.subscriptions
    ]
