"""``make bench``: what one event costs, beside plain floors measured in the same run.

CPU time of the service process, not wall time. Rounds of the service and of its floor alternate, so
that a busy machine disturbs both alike. Nothing here is a test: a missed target is printed.

::

    python tests/bench/run.py                            every part, in hours
    python tests/bench/run.py --http --half              these parts; --help lists all
    python tests/bench/run.py --short                    does it work?
    python tests/bench/run.py --curves --sizes routes=1,10,100,1000
    python tests/bench/run.py --beside NAME --url http://127.0.0.1:9090/ --log kafka -- COMMAND {address}
    python tests/bench/run.py --write docs/figures.md    also as parts of the page
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import beside
import curves
import logs
from bench_events import BATCH, BODY_SIZE
from parts import FULL, PARTS, SHORT, Part, Size, measured


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for part in PARTS:
        parser.add_argument(f"--{part.option}", action="store_true", help=part.help)
    parser.add_argument("--short", action="store_true", help="does it work? in seconds a part")
    parser.add_argument("--write", type=Path, help="write the parts into this page of figures")
    parser.add_argument("--sizes", action="append", default=[], help="of a curve: routes=1,10,100")
    peer = parser.add_argument_group("a peer beside Skybridge")
    peer.add_argument("--beside", metavar="NAME", help="measure this peer")
    peer.add_argument("--url", help="where it takes events: http://127.0.0.1:PORT/PATH")
    peer.add_argument("--log", choices=logs.NAMES, default="embedded", help="Skybridge's, and its")
    peer.add_argument("--shape", choices=["single", "batch"], default="single")
    peer.add_argument("--body", type=int, default=BODY_SIZE, help="bytes of data, of single events")
    peer.add_argument("--connections", type=int, default=64)
    peer.add_argument(
        "command", nargs="*", help="behind --: starts the peer, and ends when it does"
    )
    options = parser.parse_args(arguments)
    if bool(options.beside) != bool(options.url and options.command):
        parser.error("a peer takes --beside NAME, --url URL and, behind --, its COMMAND")
    try:
        options.sizes = curves.sizes_of(options.sizes)
    except ValueError as error:
        parser.error(str(error))
    return options


def chosen(options: argparse.Namespace) -> list[Part]:
    """The parts that are asked for; all, where none is."""
    if options.beside:
        return [peer_of(options)]
    named = [part for part in PARTS if vars(options)[part.option.replace("-", "_")]]
    return named or list(PARTS)


def peer_of(options: argparse.Namespace) -> Part:
    words = (f"--body={options.body}", f"--connections={options.connections}")
    asked = beside.Asked(
        options.beside, options.url, options.command, options.log, options.shape, words
    )
    batch = options.shape == "batch"
    shape = f"batches of {BATCH}" if batch else f"single events of {options.body:,} bytes"
    return Part(
        "beside",
        f"beside {options.beside}",
        "",
        beside.PREFACE.format(
            name=options.beside,
            log=logs.NAMES[options.log],
            shape=f"{shape} from {options.connections} connections",
        ),
        beside.HEADINGS,
        lambda folder, size: beside.measure(
            folder, asked, size.rounds, size.batches if batch else size.events
        ),
    )


def size_of(options: argparse.Namespace) -> Size:
    size = SHORT if options.short else FULL
    return replace(size, curves=options.sizes) if options.sizes else size


def main(arguments: list[str]) -> None:
    options = options_of(arguments)
    command = 'make bench ARGS="' + shlex.join(arguments) + '"'
    for part in chosen(options):
        measured(part, size_of(options), command, options.write)


if __name__ == "__main__":
    main(sys.argv[1:])
