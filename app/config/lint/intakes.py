"""Checks of intakes: their routes exist, their templates are valid, and their secrets are usable
keys.
"""

from __future__ import annotations

from app.config.lint.report import LintReport
from app.config.load.finding import Path, did_you_mean
from app.errors import SetupError
from app.gateway.port import is_loopback
from app.intakes.compiled import compile_intake, compile_verifiers, secrets_of
from app.model.intake import Intake, VerifyNothing


def check_intakes(report: LintReport) -> None:
    intakes = report.config.intakes
    report.duplicates("intakes", "name", [each.name for each in intakes])
    for n, intake in enumerate(intakes):
        path: Path = ("intakes", n)
        _route(report, path, intake)
        _compiles(report, path, intake)
        if isinstance(intake.verify, VerifyNothing):
            _only_on_loopback(report, path)


def _route(report: LintReport, path: Path, intake: Intake) -> None:
    names = [route.name for route in report.config.routes]
    if intake.route is not None and intake.route not in names:
        message = f"The route {intake.route!r} does not exist."
        report.error((*path, "route"), message, did_you_mean(intake.route, names))


def _compiles(report: LintReport, path: Path, intake: Intake) -> None:
    try:
        compiled = compile_intake(intake)
        secrets = [secret.get_secret_value() for secret in secrets_of(intake)]
        verifiers = compile_verifiers(compiled, secrets, intake.max_age)
    except SetupError as error:
        below = ("verify",) if error.setting == "secret" and intake.verify is not None else ()
        report.refused((*path, *below, *error.setting.split(".")), error)
    else:
        if any(scheme.header and not scheme.signs for scheme, _ in verifiers):
            _check_encryption(report, path)


def _check_encryption(report: LintReport, path: Path) -> None:
    """Warn if requests to the intake carry a key or password over an unencrypted connection.
    Signatures need no encryption, because they reveal no secret.
    """
    events = report.config.server.events
    if not is_loopback(events.host) and events.tls is None:
        report.warning(
            path,
            "The key or password of the intake crosses the network unencrypted.",
            "Set server.events.tls, or put a proxy with TLS in front of the events listener.",
        )


def _only_on_loopback(report: LintReport, path: Path) -> None:
    host = report.config.server.events.host
    if not is_loopback(host):
        report.error(
            (*path, "verify", "kind"),
            f"The kind none accepts every request, and other machines can reach the events listener on {host}.",
            "Verify a signature or a key, or set server.events.host to 127.0.0.1.",
        )
