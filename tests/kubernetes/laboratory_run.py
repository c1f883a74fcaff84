"""Run the service in Kubernetes, under load, through all that happens to it there.

::

    make kubernetes                                    all scenarios, on a cluster of this machine
    make kubernetes ARGS="--list"                      the names of the scenarios
    make kubernetes ARGS="--only single-killed"        one of them
    make kubernetes ARGS="--write docs/guides/deploy.md"
    make kubernetes ARGS="--context kind-kind --image registry.example/skybridge:dev"

The first run builds Kubernetes. Without a context, it needs Linux, root and Debian's packages.
"""

from __future__ import annotations

import argparse
import functools
import json
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import figures_page
import go_build
import image_build
import scenarios_backups
import scenarios_changes
import scenarios_examples
import scenarios_faults
import scenarios_helm
import scenarios_operator
import scenarios_pods
import scenarios_tenants
from cluster import Cluster
from laboratory import Laboratory, check_machine, laboratory
from place import Site
from scenarios import ENTRIES, Entry
from traffic import Row

from checkout import git
from kafka_install import Missing

EARLIER = "earlier"
"""The tag of the image of the earlier release."""
_PARTS = (
    scenarios_helm,
    scenarios_faults,
    scenarios_pods,
    scenarios_changes,
    scenarios_backups,
    scenarios_examples,
    scenarios_operator,
    scenarios_tenants,
)


def chosen(asked: argparse.Namespace) -> list[Entry]:
    """Return the scenarios to run."""
    every = [each for each in ENTRIES if not asked.short or each.short]
    if asked.only:
        every = [each for only in asked.only for each in ENTRIES if each.name.startswith(only)]
    return [each for each in every if asked.context is None or not each.own]


@contextmanager
def site(asked: argparse.Namespace) -> Iterator[Site]:
    """Yield the cluster to run on: that of a context, or one of this machine.

    Raises:
        Missing: This machine cannot run a cluster.
        Broken: The image does not build.
    """
    if asked.context is not None:
        image = asked.image or f"{image_build.REPOSITORY}:dev"
        there = Site(Cluster.of_context(asked.context), None, image, lambda: image)
        try:
            yield there
        finally:
            there.stop_servers()
        return
    check_machine()
    go_build.build()
    image = asked.image or image_build.build("dev")
    with laboratory(asked.nodes) as (lab, cluster):
        _import(lab, image)
        here = Site(cluster, lab, image, functools.cache(lambda: _earlier(lab, asked.earlier)))
        try:
            yield here
        finally:
            here.stop_servers()


def _earlier(lab: Laboratory, commit: str | None) -> str:
    """Build the image of an earlier commit, and import it."""
    commit = commit or git("rev-list", "-1", "--before=24 hours ago", "HEAD").strip()
    name = image_build.build(EARLIER, commit)
    _import(lab, name)
    return name


def _import(lab: Laboratory, name: str) -> None:
    file = lab.folder / "image.tar"
    image_build.save(name, file)
    lab.import_image(file)
    file.unlink()


def run(here: Site, entry: Entry, page: Path | None, commit: str = "") -> list[Row]:
    """Run one scenario, print its rows, and write them into the page. Return them."""
    began, rows = time.monotonic(), []
    print(f"{entry.name} ...", flush=True)
    for row in entry.run(here):
        rows.append(row)
        print(f"  {figures_page.line(row)}", flush=True)
        if row.faults():
            print("".join(f"    {each}\n" for each in row.refusals), end="", flush=True)
        if page is not None:
            figures_page.write(page, [row], commit)
    print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return rows


def main(words: Sequence[str]) -> int:
    asked = options(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the nodes end in order
    entries = chosen(asked)
    if asked.list:
        print("\n".join(f"{each.name:32}{_first_line(each)}".rstrip() for each in entries))
        return 0
    failed, rows = [], []
    try:
        with site(asked) as here:
            commit = "" if here.lab is None else image_build.revision(here.image)
            for entry in entries:
                try:
                    rows += run(here, entry, asked.write, commit)
                except Exception:  # noqa: BLE001 - the next scenario has a namespace of its own
                    traceback.print_exc()
                    failed.append(entry.name)
    except (Missing, image_build.Broken) as why:
        print(f"Not run: {why}", file=sys.stderr)
        return 3
    broken = [
        f"{row.scenario} ({row.topology}): {', '.join(row.faults())}"
        for row in rows
        if row.faults()
    ]
    if asked.json:
        asked.json.write_text(
            json.dumps(
                {"rows": [row._asdict() for row in rows], "broken": broken, "failed": failed}
            )
        )
    for each in broken:
        print(f"A promise was broken in {each}")
    for name in failed:
        print(f"{name} did not come to its end; the error is above")
    return int(bool(broken or failed))


def _first_line(entry: Entry) -> str:
    return (entry.run.__doc__ or "").strip().partition(".")[0]


def options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kubernetes", description=__doc__.partition("\n")[0])
    parser.add_argument("--context", help="run on the cluster of this context of kubectl")
    parser.add_argument("--image", help="image of the service; default: build it from the checkout")
    parser.add_argument("--earlier", help="commit of the earlier release; default: of a day ago")
    parser.add_argument(
        "--nodes", type=int, choices=(1, 2), default=2, help="nodes of the laboratory"
    )
    parser.add_argument(
        "--only", action="append", help="scenarios whose names begin with this, in this order"
    )
    parser.add_argument("--short", action="store_true", help="the short form, for make test")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios")
    parser.add_argument("--write", type=Path, help="write the rows into this page")
    parser.add_argument("--json", type=Path, help="write the rows into this file")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
