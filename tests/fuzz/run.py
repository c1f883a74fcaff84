"""``make fuzz``: change inputs of pure parsers, guided by the code that they reach, until a check fails.

::

    make fuzz ARGS="--list"
    make fuzz ARGS="--target cesql --seconds 300"
    make fuzz ARGS="--seconds 60 --write docs/proof.md"     all targets; also as rows of the page
    make fuzz ARGS="--target cesql --kept"     the kept inputs alone, with the failures in full

The inputs that a run has found stay in ``.servers/fuzz``, and the next run begins with them. An input that makes a
check fail is shortened and added to ``tests/corpus/fuzz``, which the gate replays: correct the code, and commit both.
``--keep`` adds as many short inputs that together reach everything that was reached.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import atheris

from fuzz.corpus import keep, kept
from fuzz.page import write
from fuzz.shortest import failure_of, shortest
from fuzz.target import MODULES, target
from kafka_install import SERVERS

LONGEST = 4096  # bytes of an input
SLOW = 5  # seconds for one input
MEMORY = 2048  # MB of the process
_TRIED = re.compile(r"number_of_executed_units: (\d+)")
_FOUND = "-artifact_prefix="
SHORT = 300  # bytes of an input that is kept for what it reaches


def folder_of(name: str) -> Path:
    """Return the folder of the inputs that runs of a target have found."""
    folder = SERVERS / "fuzz" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(name: str, seconds: int, page: Path | None = None) -> bool:
    """Run a target, and add the run to the page. Return True if no check has failed."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        artifacts = Path(place)
        flags = (f"-max_total_time={seconds}", f"{_FOUND}{artifacts}/", f"-timeout={SLOW}")
        code, said = _fuzz(name, *flags)
        found = [file.read_bytes() for file in sorted(artifacts.iterdir())]
    for data in dict.fromkeys(found):
        check = target(name).check
        short = shortest(check, data) if failure_of(check, data) else data
        keep(name, [short])
        print(f"{name}: {failure_of(check, short) or 'slow, or too much memory'}: {short!r}")
    tried = sum(map(int, _TRIED.findall(said)))
    print(f"{name}: {tried:,} inputs, log in {_log(name)}", flush=True)
    if page is not None:
        write(page, name, tried, round(time.monotonic() - begun))
    return not code and not found


def keep_coverage(name: str, most: int) -> None:
    """Keep the shortest inputs that together reach what all inputs of the target reach, at most so many."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        _fuzz(name, "-merge=1", into=Path(place))
        found = sorted((file.read_bytes() for file in Path(place).iterdir()), key=len)
    keep(name, [each for each in found[:most] if len(each) <= SHORT])


def replay(name: str) -> bool:
    """Check the kept inputs of a target, and print each failure. Return True if there is none."""
    check, failed = target(name).check, False
    for data in kept(name):
        try:
            check(data)
        except Exception:  # noqa: BLE001 - every one is a finding
            failed = True
            print(repr(data))
            traceback.print_exc()
    return not failed


def _log(name: str) -> Path:
    return folder_of(name).with_suffix(".log")


def _fuzz(name: str, *flags: str, into: Path | None = None) -> tuple[int, str]:
    """Run the fuzzer in a process of its own, because it ends its process. Return its exit code and what it printed."""
    corpus = [str(each) for each in (into, folder_of(name)) if each is not None]
    command = [sys.executable, "-m", "fuzz.run", "--inside", name, "--", *flags, *corpus]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with _log(name).open("wb") as log:
        done = subprocess.run(command, check=False, stdout=log, stderr=log, env=environ)
    return done.returncode, _log(name).read_text(errors="replace")


def _inside(name: str, flags: Sequence[str]) -> None:
    """Fuzz a target in this process. This never returns."""
    with atheris.instrument_imports(include=["app"]):
        chosen = target(name)

    def check(data: bytes) -> None:
        try:
            chosen.check(data)
        except Exception:  # the fuzzer itself does not always write the input
            (found / f"failed-{hash(data)}").write_bytes(data)
            raise

    found = Path(next((flag.partition("=")[2] for flag in flags if flag.startswith(_FOUND)), "."))
    corpus = Path(flags[-1])
    for number, seed in enumerate([*chosen.seeds, *kept(name)]):
        (corpus / f"seed{number}").write_bytes(seed)
    words = ["fuzz", *flags, f"-max_len={LONGEST}", f"-rss_limit_mb={MEMORY}"]
    if chosen.tokens:
        dictionary = corpus.with_suffix(".dict")
        dictionary.write_text("".join(f'"{_escaped(token)}"\n' for token in chosen.tokens))
        words.append(f"-dict={dictionary}")
    atheris.Setup([*words, "-print_final_stats=1", "-verbosity=0"], check)
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--target", choices=MODULES, action="append", help="by default all")
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--list", action="store_true", help="print the targets")
    parser.add_argument("--kept", action="store_true", help="check the kept inputs alone")
    parser.add_argument("--keep", type=int, help="run nothing; keep at most so many inputs")
    parser.add_argument("--write", type=Path, help="add the runs to this page")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("flags", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.list:
        print("\n".join(MODULES))
        return 0
    if asked.inside:
        _inside(asked.inside, asked.flags)
    if asked.keep:
        for name in asked.target or MODULES:
            keep_coverage(name, asked.keep)
        return 0
    does = replay if asked.kept else lambda name: run(name, asked.seconds, asked.write)
    results = {name: does(name) for name in asked.target or MODULES}
    print(json.dumps({"failed": [name for name, passed in results.items() if not passed]}))
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
