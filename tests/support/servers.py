"""``make servers``: brings what tests run against, and says what is missing and how to cure it.

What is missing is no error on a laptop, where the tests that need it skip; with ``CI=true`` it is.

::

    make servers                 bring them; print the configuration of those that run
    make servers ARGS=--start    start them too, for a person; they stay
    make servers ARGS=--stop     end them
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncapi_install
import class_data
import helm_install
import kafka_install
import kafka_server
import opinion_install
import postgres_server
import pulsar_install
import pulsar_server
import rabbitmq_server
import spark_install
import spark_session
from app.cli.feed import payloads
from app.errors import SetupError

PARTS: Mapping[str, Callable[[], object]] = {
    "Apache Kafka": kafka_install.install,
    "Apache Pulsar": pulsar_install.install,
    "RabbitMQ": rabbitmq_server.install,
    "PostgreSQL": postgres_server.install,
    "The official SDKs": opinion_install.install,
    "Helm": helm_install.install,
    "The schema of AsyncAPI": asyncapi_install.install,
    "Spark: Java and its jars": spark_install.install,
    "GitHub's example payloads": lambda: payloads.payloads(payloads.cache_folder(os.environ)),
}


def missing(part: str, bring: Callable[[], object]) -> bool:
    try:
        bring()
    except (kafka_install.Missing, SetupError) as why:
        print(f"{part}: missing. {why}", file=sys.stderr)
        return True
    return False


def keep_classes() -> None:
    """Once in a checkout, so that every later JVM starts sooner; a server that is missing is told elsewhere."""
    made: Mapping[Path, Callable[[Path], object]] = {
        kafka_server.CLASSES: lambda archive: class_data.keep(archive, kafka_server.KafkaServer),
        pulsar_server.CLASSES: lambda archive: class_data.keep(archive, pulsar_server.PulsarServer),
        class_data.SPARK: spark_session.keep_classes,
    }
    absent = [archive for archive in made if not archive.exists()]
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(made[archive], archive) for archive in absent]
    for each in waiting:
        with contextlib.suppress(kafka_install.Missing):
            each.result()


def configuration() -> Iterator[str]:
    """The entries under ``brokers`` of those that run, to be pasted."""
    if address := kafka_server.running():
        yield f'main: {{kind: kafka, bootstrap_servers: "{address}", topics: {{create: true}}}}'
    if address := rabbitmq_server.running():
        yield f'rabbit: {{kind: rabbitmq, addresses: "{address}", topics: {{create: true}}}}'
    if addresses := pulsar_server.running():
        service, admin = addresses
        urls = f'service_url: "{service}", admin_url: "{admin}"'
        yield f"pulsar: {{kind: pulsar, {urls}, topics: {{create: true}}}}"


def tell(verb: str) -> bool:
    """Whether a server could not be started or stopped; the others are told all the same."""
    programs = (kafka_server, rabbitmq_server, pulsar_server, postgres_server)
    commands = [[sys.executable, str(Path(each.__file__)), verb] for each in programs]
    failures = [subprocess.run(command, check=False).returncode for command in commands]
    return any(failures)


def main() -> int:
    parser = argparse.ArgumentParser(prog="servers", description="The servers that tests need.")
    verbs = parser.add_mutually_exclusive_group()
    verbs.add_argument("--start", action="store_true", help="start them, for a person")
    verbs.add_argument("--stop", action="store_true", help="end those of --start")
    asked = parser.parse_args()
    if asked.stop:
        return int(tell("stop"))
    lacking = [part for part, bring in PARTS.items() if missing(part, bring)]
    keep_classes()
    failed = asked.start and tell("start")
    if dsn := postgres_server.running():
        print(f'\n# To paste into skybridge.yaml:\nstore: {{kind: postgresql, dsn: "{dsn}"}}')
    if entries := list(configuration()):
        print("\n# To paste under brokers in skybridge.yaml:\nbrokers:")
        print("\n".join(f"  {entry}" for entry in entries))
    return int(failed or (bool(lacking) and os.environ.get("CI") == "true"))


if __name__ == "__main__":
    sys.exit(main())
