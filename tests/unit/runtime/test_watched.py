"""What ``/metrics`` tells of volumes and certificates."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import trustme

from app.config.model.config import Config
from app.features.certificates import Expiries, certificates_of
from app.features.disks import disks, folders_of
from app.model.subscription import Subscription

ENDS = dt.datetime(2031, 5, 6, 7, 8, 9, tzinfo=dt.UTC)


def certificate(folder: Path, name: str, ends: dt.datetime = ENDS) -> dict[str, str]:
    issued = trustme.CA().issue_cert("localhost", not_after=ends)
    issued.private_key_and_cert_chain_pem.write_to_path(folder / name)
    return {"cert": str(folder / name), "key": str(folder / name)}


def configuration(folder: Path) -> Config:
    return Config.model_validate(
        {
            "version": 1,
            "server": {"events": {"tls": certificate(folder, "events.pem")}},
            "store": {"kind": "sqlite", "path": str(folder / "store.db")},
            "brokers": {
                "log": {
                    "kind": "embedded",
                    "path": str(folder),
                    "kafka_listener": {
                        "listen": "127.0.0.1:0",
                        "tls": certificate(folder, "listener.pem"),
                    },
                },
                "main": {
                    "kind": "kafka",
                    "bootstrap_servers": "127.0.0.1:9092",
                    "security": {"tls": certificate(folder, "kafka.pem")},
                },
                "plain": {"kind": "rabbitmq", "addresses": "127.0.0.1:5672"},
            },
        }
    )


async def test_every_certificate_that_we_show_is_told_with_its_end(tmp_path):
    """By the setting that names it: that is what an operator looks for."""
    billing = Subscription.model_validate(
        {
            "id": "billing",
            "source": {"broker": "log", "topics": ["events"]},
            "sink": "https://b.example/hook",
            "tls": certificate(tmp_path, "hook.pem"),
        }
    )
    found = await Expiries().of(certificates_of(configuration(tmp_path), [billing]))
    assert found == dict.fromkeys(
        (
            "server.events.tls.cert",
            "brokers.log.kafka_listener.tls.cert",
            "brokers.main.security.tls.cert",
            "subscriptions.billing.tls.cert",
        ),
        ENDS.timestamp(),
    )


async def test_a_certificate_that_is_renewed_is_read_again(tmp_path):
    """The alert ends with the next scrape (runbook certificate-expiry); one that is gone hides no other."""
    certificate(tmp_path, "a.pem")
    expiries, files = Expiries(), {"a": tmp_path / "a.pem", "gone": tmp_path / "gone.pem"}
    assert await expiries.of(files) == {"a": ENDS.timestamp()}
    later = ENDS + dt.timedelta(days=90)
    certificate(tmp_path, "a.pem", later)
    os.utime(tmp_path / "a.pem", (1, 1))
    assert await expiries.of(files) == {"a": later.timestamp()}


async def test_volumes_are_those_of_logs_and_store(tmp_path):
    """Told by folder; one folder for both is told once, one that is not there yet not at all."""
    config = configuration(tmp_path)
    assert folders_of(config) == (tmp_path,)
    found = await disks((*folders_of(config), tmp_path / "gone"))
    assert list(found) == [str(tmp_path)]
    assert 0 < found[str(tmp_path)].free < found[str(tmp_path)].size
