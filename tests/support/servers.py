"""Install and start the servers and tools that tests run against, and report missing ones with the cure.

A missing server is no error on a laptop, where the tests that need it skip. It is an error with ``CI=true``, and if
it was named.

::

    make servers                           Install all, and print a configuration for those that run.
    make servers ARGS="kafka rabbitmq"     Install and start these alone. They keep running.
    make servers ARGS=--start              Install all, and start every server.
    make servers ARGS="--stop kafka"       End Kafka and delete its data; without a name, every server.
    make kafka                             Do the same as make servers ARGS=kafka.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import actionlint_install
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
from persistent_server import PersistentServer
from servers_paste import ABOUT, paste

END = "They run until: make servers ARGS=--stop"
TOLD_FROM = 1.0  # seconds: a faster installation was there already and is not reported


class Part(NamedTuple):
    """A server or tool to install, with the function that installs it."""

    title: str
    install: Callable[[], object]


class Server(NamedTuple):
    """A server that can be started and keeps running."""

    part: Part
    standing: PersistentServer


SERVERS: Mapping[str, Server] = {
    "kafka": Server(Part("Apache Kafka", kafka_install.install), kafka_server.STANDING),
    "rabbitmq": Server(Part("RabbitMQ", rabbitmq_server.install), rabbitmq_server.STANDING),
    "pulsar": Server(Part("Apache Pulsar", pulsar_install.install), pulsar_server.STANDING),
    "postgresql": Server(Part("PostgreSQL", postgres_server.install), postgres_server.STANDING),
}
MAVENS: Sequence[Part] = (  # one after the other, because the Maven cache allows one writer
    SERVERS["kafka"].part,
    SERVERS["pulsar"].part,
)
OTHERS: Sequence[Part] = (
    SERVERS["rabbitmq"].part,
    SERVERS["postgresql"].part,
    Part("Spark: Java and its jars", spark_install.install),
    *(Part(sdk.release, partial(opinion_install.installed, sdk)) for sdk in opinion_install.OF_NPM),
    Part("Helm, and the schemas for its chart", helm_install.install),
    Part("The schema of AsyncAPI", asyncapi_install.install),
    Part("actionlint, for the workflows of GitHub", actionlint_install.install),
    Part("GitHub's example payloads", lambda: payloads.payloads(payloads.cache_folder(os.environ))),
)


@contextmanager
def shown() -> Iterator[Progress]:
    """Show what runs, and for how long, if standard error is a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    terminal = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not terminal) as progress:
        yield progress


def bring(lines: Sequence[Sequence[Part]], progress: Progress) -> bool:
    """Install the parts of each line one after the other, and report each. Return True if nothing is missing."""
    with ThreadPoolExecutor(max_workers=max(1, len(lines))) as pool:
        return all(list(pool.map(lambda line: _bring(line, progress), lines)))


def _bring(parts: Sequence[Part], progress: Progress) -> bool:
    there = [_is_there(part, progress) for part in parts]
    return all(there)


def _is_there(part: Part, progress: Progress) -> bool:
    task = progress.add_task(f"{part.title}: installing", total=1)
    begun = time.monotonic()
    try:
        part.install()
    except (kafka_install.Missing, SetupError) as why:
        progress.console.print(f"{part.title}: missing. {why}", markup=False)
        return False
    finally:
        progress.remove_task(task)
    if (took := time.monotonic() - begun) > TOLD_FROM:
        progress.console.print(f"{part.title}: installed in {took:.0f} s")
    return True


def start(server: Server, progress: Progress) -> bool:
    """Start a server unless it runs, and report its address. Return True if it answers."""
    title = server.part.title
    task = progress.add_task(f"{title}: starting", total=1)
    begun = time.monotonic()
    try:
        server.standing.begin()
    except (kafka_install.Missing, RuntimeError) as why:
        progress.console.print(f"{title} is not running. {why}", markup=False)
        return False
    finally:
        progress.remove_task(task)
    took = time.monotonic() - begun
    since = f", after {took:.0f} s" if took > TOLD_FROM else ""
    progress.console.print(f"{title} answers on {server.standing.address()}{since}", markup=False)
    return True


def known(names: Sequence[str]) -> Sequence[str]:
    """Return the names of servers, or end the command if one is not known."""
    for each in names:
        if each not in SERVERS:
            sys.exit(f"There is no server {each}. Cure: name {', '.join(SERVERS)}.")
    return names


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="servers", description="Install, start or stop the servers that tests need."
    )
    parser.add_argument("names", nargs="*", help=f"start these alone: {', '.join(SERVERS)}")
    verbs = parser.add_mutually_exclusive_group()
    verbs.add_argument("--start", action="store_true", help="start them; they keep running")
    verbs.add_argument("--stop", action="store_true", help="end them, and delete their data")
    asked = parser.parse_args(words)
    chosen = [SERVERS[name] for name in known(asked.names) or SERVERS]
    if asked.stop:
        for server in chosen:
            server.standing.stop()
        return 0
    with shown() as progress:
        lines = [[server.part for server in chosen]] if asked.names else [MAVENS, OTHERS]
        complete = bring(lines, progress)
        started = [start(each, progress) for each in chosen if asked.names or asked.start]
        running = {name: server.standing.ports() for name, server in SERVERS.items()}
        if text := paste(running):
            progress.console.print(f"{END}\n{ABOUT}", markup=False)
    print(text, end="")
    required = asked.names or os.environ.get("CI") == "true"
    return int(not all(started) or (not complete and bool(required)))


if __name__ == "__main__":
    sys.exit(main())
