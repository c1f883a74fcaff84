"""Render the chart with Helm. ``make chart`` rewrites the golden files, the part of the schema on
secrets, and the definition of the kind Subscription.

Each file of ``tests/helm/values`` is one way to run the chart, described in its first line. The
expected rendering has the same name in ``tests/helm/golden``.
"""

from __future__ import annotations

import functools
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

import chart_secrets
import helm_install
from app.kubernetes import crd
from pages import CHECKOUT

CHART = CHECKOUT / "helm" / "skybridge"
CASES = sorted((CHECKOUT / "tests" / "helm" / "values").glob("*.yaml"))
DEFINITION = CHART / "files" / "subscriptions.crd.yaml"
GOLDEN = CHECKOUT / "tests" / "helm" / "golden"
_NOTES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data:
  notes: |
{{ tpl (.Files.Get "files/NOTES.txt") . | indent 4 }}
"""
_RELEASE = ("bridge", str(CHART), "--namespace", "shops")


class Refused(Exception):
    """Helm refused to render the values. The text is Helm's output."""


def helm(*words: str, stdin: str = "") -> str:
    """Run Helm and return its output. Raises Refused if Helm fails, and Missing if Helm cannot be
    installed.
    """
    done = subprocess.run(
        [str(_program()), *words], input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


@functools.cache
def _program() -> Path:
    return helm_install.install()


@functools.cache
def render(case: Path) -> str:
    """Render a case with Helm once, and return all documents and hooks as text."""
    return helm("template", *_RELEASE, "--values", str(case))


@functools.cache
def rendered(case: Path) -> str:
    """Return the golden rendering of a case. One test compares it with Helm's, so the other tests need no Helm."""
    return golden(case).read_text(encoding="utf-8")


def rendered_with(values: Any, *words: str, release: str = "bridge") -> str:
    """Return the rendering for these values, which are passed to Helm as JSON on standard input.
    ``words`` are further options of ``helm template``.
    """
    return _rendered_with(json.dumps(values), words, release)


@functools.cache
def _rendered_with(values: str, words: tuple[str, ...], release: str) -> str:
    return helm("template", release, *_RELEASE[1:], "--values", "-", *words, stdin=values)


def notes(values: Any) -> str:
    """Return what Helm prints after an installation. ``helm template`` does not print it, so it is
    rendered in a ConfigMap of a copy of the chart.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "skybridge"
        shutil.copytree(CHART, copy)
        (copy / "templates" / "NOTES.txt").rename(copy / "files" / "NOTES.txt")
        (copy / "templates" / "notes.yaml").write_text(_NOTES)
        words = ("template", _RELEASE[0], str(copy), *_RELEASE[2:], "--values", "-")
        text = helm(*words, "--show-only", "templates/notes.yaml", stdin=json.dumps(values))
    (document,) = documents(text)
    return str(document["data"]["notes"])


def documents(text: str) -> list[dict[str, Any]]:
    """Parse rendered documents as Kubernetes does: as YAML 1.1. A repeated key is an error.

    The caller may change what is returned.
    """
    found: list[dict[str, Any]] = pickle.loads(_parsed(text))
    return found


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> bytes:
    """Parse a rendering once: many tests read the same, and to unpickle takes a fortieth of the time."""
    found = yaml.load_all(text, Loader=_Strict)
    return pickle.dumps([each for each in found if each])


def of_kind(text: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in documents(text) if each["kind"] == kind]


class _Strict(yaml.CSafeLoader):
    pass


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise yaml.constructor.ConstructorError(None, None, f"{twice} twice", node.start_mark)
    return dict(
        zip(keys, (loader.construct_object(v, deep=True) for _, v in node.value), strict=True)
    )


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def case(name: str) -> Path:
    return next(each for each in CASES if each.stem == name)


def golden(case: Path) -> Path:
    return GOLDEN / case.name


def main() -> int:
    chart_secrets.write(CHART / "values.schema.json")
    DEFINITION.write_text(crd.as_yaml())
    GOLDEN.mkdir(exist_ok=True)
    for stale in {*GOLDEN.glob("*.yaml")} - {golden(case) for case in CASES}:
        stale.unlink()
    for case in CASES:
        golden(case).write_text(render(case))
    return 0


if __name__ == "__main__":
    sys.exit(main())
