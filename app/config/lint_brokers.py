"""Checks of brokers and store: where they keep things, and how they are reached."""

from __future__ import annotations

from pathlib import Path as FilePath

from app.config.brokers import EmbeddedBroker, KafkaBroker
from app.config.finding import Path
from app.config.lint_servers import file_exists, is_loopback
from app.config.report import Report

_FLEETING = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 - warned of, not used


def check_brokers(report: Report) -> None:
    taken: dict[FilePath, str] = {}
    for name, broker in report.config.brokers.items():
        if isinstance(broker, EmbeddedBroker):
            _embedded(report, name, broker, taken)
        else:
            _kafka(report, name, broker)
    _store(report, taken)


def _embedded(
    report: Report, name: str, broker: EmbeddedBroker, taken: dict[FilePath, str]
) -> None:
    setting: Path = ("brokers", name, "path")
    place = broker.path.resolve()
    if place in taken:
        report.error(
            setting,
            f"is the folder of broker {taken[place]!r} too",
            "give each embedded log a folder of its own",
        )
    taken.setdefault(place, name)
    if broker.path.exists() and not broker.path.is_dir():
        report.error(setting, "is a file", "name a folder; it is made where it is not there")
    _lasts(report, setting, broker.path)


def _store(report: Report, taken: dict[FilePath, str]) -> None:
    path = report.config.store.path
    if path.resolve() in taken or path.is_dir():
        report.error(
            ("store", "path"), "is a folder", "name a file, for example ./skybridge-data/store.db"
        )
    _lasts(report, ("store", "path"), path)


def _lasts(report: Report, setting: Path, path: FilePath) -> None:
    if any(path.resolve().is_relative_to(fleeting) for fleeting in _FLEETING):
        report.warning(
            setting,
            "is in a place that may be emptied: acknowledged events would be gone",
            "choose a folder on a disk that stays",
        )


def _kafka(report: Report, name: str, broker: KafkaBroker) -> None:
    security = broker.security
    setting: Path = ("brokers", name, "security")
    if security.sasl is not None and security.encryption is None and not _all_local(broker):
        report.warning(
            (*setting, "sasl"), "the password crosses the network without TLS", "add tls: {}"
        )
    if security.tls is not None:
        for part in ("ca", "cert", "key"):
            path = getattr(security.tls, part)
            if path is not None:
                file_exists(report, (*setting, "tls", part), path)


def _all_local(broker: KafkaBroker) -> bool:
    hosts = [server.strip().rpartition(":")[0] for server in broker.bootstrap_servers.split(",")]
    return all(is_loopback(host) for host in hosts)
