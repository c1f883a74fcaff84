"""The chart as Helm renders it. ``make chart`` writes the golden renderings anew, and what the schema says of secrets.

Each file of ``tests/helm/values`` is a way to run it, told in its first line; what comes of it stands under the
same name in ``tests/helm/golden``.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

import chart_secrets
import helm_install
from pages import CHECKOUT

CHART = CHECKOUT / "helm" / "skybridge"
CASES = sorted((CHECKOUT / "tests" / "helm" / "values").glob("*.yaml"))
GOLDEN = CHECKOUT / "tests" / "helm" / "golden"
_RELEASE = ("bridge", str(CHART), "--namespace", "shops")


class Refused(Exception):
    """What Helm says of values that it does not render."""


def helm(*words: str, stdin: str = "") -> str:
    """Its output. Raises Refused, and Missing where there is no Helm."""
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
def rendered(case: Path) -> str:
    """Every document of a case, as text, hooks included."""
    return helm("template", *_RELEASE, "--values", str(case))


def rendered_with(values: Any) -> str:
    """The same for values that stand in no file. JSON is YAML that nobody reads in two ways."""
    return helm("template", *_RELEASE, "--values", "-", stdin=json.dumps(values))


def documents(text: str) -> list[dict[str, Any]]:
    """Read as Kubernetes reads them: YAML 1.1, and no key twice."""
    found = yaml.load_all(text, Loader=_Strict)
    return [each for each in found if each]


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
    GOLDEN.mkdir(exist_ok=True)
    for stale in {*GOLDEN.glob("*.yaml")} - {golden(case) for case in CASES}:
        stale.unlink()
    for case in CASES:
        golden(case).write_text(rendered(case))
    return 0


if __name__ == "__main__":
    sys.exit(main())
