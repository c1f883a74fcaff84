"""Build the programs of the node with Go, once, into the folder that ``versions.cache`` names.

The build runs at low priority and shows how far it is. Go's own caches (7 GB) lie below the same
folder while the build runs, and are removed after it: the programs are 280 MB.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import go_modules
from versions import COREDNS, HERE, KUBERNETES, NETWORK_POLICIES, RUNTIME_SPEC, cache

from kafka_install import Missing, one_at_a_time

NEEDED = "Building Kubernetes takes about 10 minutes and 7 GB of disk, once; 420 MB remain."
_SPACE = 8 << 30  # bytes
_SOURCES = HERE / "go"
_SHOWN_EVERY = 15.0  # seconds
_VERSION = "k8s.io/component-base/version"
_KUBERNETES_FLAGS = " ".join(
    [
        *(
            f"-X {_VERSION}.{name}={value}"
            for name, value in (
                ("gitVersion", f"v{KUBERNETES}"),
                ("gitMajor", KUBERNETES.split(".")[0]),
                ("gitMinor", KUBERNETES.split(".")[1]),
                ("gitTreeState", "clean"),
            )
        ),
        f"-X k8s.io/client-go/pkg/version.gitVersion=v{KUBERNETES}",
    ]
)


class Program(NamedTuple):
    """A program to build: its name, its package, the flags of its linker, and its go.mod."""

    name: str
    package: str
    flags: str
    module: Callable[[], str]


def _kubernetes() -> str:
    return go_modules.of_kubernetes(KUBERNETES, _description_of_kubernetes(), "node")


def _network_policies() -> str:
    """Return a go.mod that pins the libraries to those of the same Kubernetes."""
    described = json.loads(_description_of_kubernetes())
    version = go_modules.library_version(KUBERNETES)
    pinned = [(each, each, version) for each in go_modules.staged(described)]
    spec = "github.com/opencontainers/runtime-spec"
    return go_modules.written(
        "policies",
        described["Go"],
        [("sigs.k8s.io/kube-network-policies", f"v{NETWORK_POLICIES}")],
        [*pinned, (spec, spec, f"v{RUNTIME_SPEC}")],
    )


def _coredns() -> str:
    return go_modules.written("coredns", "1.26.0", [("github.com/coredns/coredns", f"v{COREDNS}")])


def _pause() -> str:
    return go_modules.written("pause", "1.26.0", [])


PROGRAMS = (
    Program("pause", ".", "", _pause),
    Program("coredns", ".", "", _coredns),
    Program("node", ".", _KUBERNETES_FLAGS, _kubernetes),
    Program("policies", "sigs.k8s.io/kube-network-policies/cmd", "", _network_policies),
)


def built(program: Program) -> Path:
    """Return the path that a program has once it is built."""
    sources = b"".join(each.read_bytes() for each in sorted((_SOURCES / program.name).glob("*.go")))
    versions = repr((program[:3], KUBERNETES, COREDNS, NETWORK_POLICIES, RUNTIME_SPEC)).encode()
    digest = hashlib.sha256(sources + versions).hexdigest()[:12]
    return cache() / f"{program.name}-{digest}"


def complete() -> bool:
    """Return True if all programs are built."""
    return all(built(program).is_file() for program in PROGRAMS)


def build() -> dict[str, Path]:
    """Return the paths of the programs by name, built if necessary. Raises Missing without Go or
    without enough disk.
    """
    if not complete():
        cache().mkdir(parents=True, exist_ok=True)
        _check_machine()
        with one_at_a_time("build", cache()):
            if not complete():
                print(NEEDED, flush=True)
                for program in PROGRAMS:
                    if not built(program).is_file():
                        _build(program)
                _remove_caches()
    return {program.name: built(program) for program in PROGRAMS}


def _check_machine() -> None:
    if shutil.which("go") is None:
        raise Missing("go is not on the path. Cure: install Go 1.26 or newer")
    free = shutil.disk_usage(cache()).free
    if free < _SPACE:
        raise Missing(f"{cache()} has {free >> 30} GB free. Cure: free 8 GB, or set XDG_CACHE_HOME")


def _build(program: Program) -> None:
    """Build one program into the cache folder, and print its progress."""
    began, folder = time.monotonic(), _work() / program.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(program.module())
    own = _SOURCES / program.name
    if own.is_dir():
        shutil.copytree(own, folder, dirs_exist_ok=True)
    else:
        (folder / "empty.go").write_text(f"package {program.name}\n")
        _go(folder, "get", program.package)
    print(f"{program.name}: fetching modules", flush=True)
    packages = len(_go(folder, "list", "-deps", program.package).split())
    fresh = built(program).with_suffix(".building")
    words = ("build", "-v", "-ldflags", f"-s -w {program.flags}", "-o", str(fresh), program.package)
    for done in _compiled(folder, words):
        print(f"{program.name}: {done} of {packages} packages compiled", flush=True)
    fresh.rename(built(program))
    size = built(program).stat().st_size >> 20
    print(f"{program.name}: {size} MB in {time.monotonic() - began:.0f} s", flush=True)


def _compiled(folder: Path, words: Sequence[str]) -> Iterator[int]:
    """Run ``go build -v``, and yield now and then how many packages it has compiled."""
    log = folder / "build.log"
    with log.open("w") as kept, _started(folder, words) as process:
        assert process.stderr is not None
        shown, count = time.monotonic(), 0
        for count, line in enumerate(process.stderr, 1):
            kept.write(line)
            if time.monotonic() - shown > _SHOWN_EVERY:
                shown = time.monotonic()
                yield count
    if process.returncode:
        raise Missing(f"go could not build {folder.name}: {log.read_text()[-800:]}")


@contextmanager
def _started(folder: Path, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = ["nice", "-n", "19", "go", *words]
    with subprocess.Popen(
        command, cwd=folder, env=_environ(), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


def _go(folder: Path, *words: str) -> str:
    command = ["nice", "-n", "19", "go", *words]
    done = subprocess.run(
        command, cwd=folder, env=_environ(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = " ".join(done.stderr.split())[-800:]
        raise Missing(f"go {words[0]} failed in {folder.name}: {said}")
    return done.stdout


def _description_of_kubernetes() -> str:
    """Return Kubernetes' own go.mod as JSON."""
    _work().mkdir(parents=True, exist_ok=True)
    said = _go(_work(), "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}")
    return _go(_work(), "mod", "edit", "-json", json.loads(said)["GoMod"])


def _environ() -> dict[str, str]:
    own = {
        "GOPATH": str(_work() / "path"),
        "GOCACHE": str(_work() / "cache"),
        "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false",
        "CGO_ENABLED": "0",
    }
    return {**os.environ, **own}


def _work() -> Path:
    return cache() / "building"


def _remove_caches() -> None:
    if not os.environ.get("SKYBRIDGE_KEEP_GO_CACHES"):
        shutil.rmtree(_work())


if __name__ == "__main__":
    try:
        for name, path in build().items():
            print(f"{name}: {path}")
    except Missing as missing:
        sys.exit(f"Kubernetes was not built: {missing}")
