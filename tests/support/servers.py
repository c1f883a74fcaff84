"""Install the servers and tools that tests run against, and report missing ones with the cure.

A missing server is no error on a laptop, where the tests that need it skip. It is an error with ``CI=true``.

::

    make servers                 install them; print the configuration of those that run
    make servers ARGS=--start    start them too; they keep running
    make servers ARGS=--stop     end them
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import asyncapi_install
import helm_install
import kafka_install
import kafka_server
import opinion_install
import postgres_server
import pulsar_install
import pulsar_server
import rabbitmq_server
import spark_install
from app.cli.feed import payloads
from app.errors import SetupError

TOLD_FROM = 1.0  # seconds: a faster installation was there already and is not reported

Part = tuple[str, Callable[[], object]]
MAVENS: Sequence[Part] = (  # one after the other, because the Maven cache allows one writer
    ("Apache Kafka", kafka_install.install),
    ("Apache Pulsar", pulsar_install.install),
    *((sdk.release, partial(opinion_install.installed, sdk)) for sdk in opinion_install.OF_MAVEN),
)
OTHERS: Sequence[Part] = (
    ("RabbitMQ", rabbitmq_server.install),
    ("PostgreSQL", postgres_server.install),
    ("Spark: Java and its jars", spark_install.install),
    *((sdk.release, partial(opinion_install.installed, sdk)) for sdk in opinion_install.OF_NPM),
    ("Helm, and the schemas for its chart", helm_install.install),
    ("The schema of AsyncAPI", asyncapi_install.install),
    ("GitHub's example payloads", lambda: payloads.payloads(payloads.cache_folder(os.environ))),
)


def bring_all() -> bool:
    """Install everything, two at a time, and report each one. Return True if nothing is missing."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(max_workers=2) as pool,
    ):
        there = list(pool.map(lambda parts: _bring(parts, progress), (MAVENS, OTHERS)))
    return all(there)


def _bring(parts: Sequence[Part], progress: Progress) -> bool:
    there = [_is_there(name, bring, progress) for name, bring in parts]
    return all(there)


def _is_there(name: str, bring: Callable[[], object], progress: Progress) -> bool:
    task = progress.add_task(name, total=1)
    begun = time.monotonic()
    try:
        bring()
    except (kafka_install.Missing, SetupError) as why:
        progress.console.print(f"{name}: missing. {why}", highlight=False)
        return False
    finally:
        progress.remove_task(task)
    if (took := time.monotonic() - begun) > TOLD_FROM:
        progress.console.print(f"{name}: installed in {took:.0f} s", highlight=False)
    return True


def configuration() -> Iterator[str]:
    """Yield the entries under ``brokers`` of the servers that run, ready to paste."""
    if address := kafka_server.running():
        yield f'main: {{kind: kafka, bootstrap_servers: "{address}", topics: {{create: true}}}}'
    if address := rabbitmq_server.running():
        yield f'rabbit: {{kind: rabbitmq, addresses: "{address}", topics: {{create: true}}}}'
    if addresses := pulsar_server.running():
        service, admin = addresses
        urls = f'service_url: "{service}", admin_url: "{admin}"'
        yield f"pulsar: {{kind: pulsar, {urls}, topics: {{create: true}}}}"


def run_all(verb: str) -> bool:
    """Run ``start`` or ``stop`` for each server. Return True if it failed for one of them."""
    programs = (kafka_server, rabbitmq_server, pulsar_server, postgres_server)
    commands = [[sys.executable, str(Path(each.__file__)), verb] for each in programs]
    failures = [subprocess.run(command, check=False).returncode for command in commands]
    return any(failures)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="servers", description="Install, start or stop the servers that tests need."
    )
    verbs = parser.add_mutually_exclusive_group()
    verbs.add_argument("--start", action="store_true", help="start them; they keep running")
    verbs.add_argument("--stop", action="store_true", help="end the servers that --start started")
    asked = parser.parse_args()
    if asked.stop:
        return int(run_all("stop"))
    complete = bring_all()
    failed = asked.start and run_all("start")
    if dsn := postgres_server.running():
        print(f'\n# To paste into skybridge.yaml:\nstore: {{kind: postgresql, dsn: "{dsn}"}}')
    if entries := list(configuration()):
        print("\n# To paste under brokers in skybridge.yaml:\nbrokers:")
        print("\n".join(f"  {entry}" for entry in entries))
    return int(failed or (not complete and os.environ.get("CI") == "true"))


if __name__ == "__main__":
    sys.exit(main())
