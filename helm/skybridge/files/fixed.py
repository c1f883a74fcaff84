# ruff: noqa: INP001, T201 - a program of its own, in a pod that has nothing else
"""Refuse an upgrade that changes what Kubernetes cannot change, before the upgrade begins.

python fixed.py RUNNING NEW: both files are what the chart records of a release. Prints each change
that the API server would refuse, or that would start a pod on an empty volume, with its cure. Ends
with 1 if there is one. A release without a record is new, or comes from an older chart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]
ORPHAN = (
    "`kubectl -n {space} delete statefulset/{name} configmap/{record} --cascade=orphan`, "
    "which keeps pods and volumes, then this upgrade"
)
UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
UNITS |= {f"{name}i": 1024**power for power, name in enumerate(("K", "M", "G", "T"), 1)}


def refusals(running: Record, new: Record) -> Iterator[str]:
    """Yield a sentence with its cure for each change that is refused."""
    for role, each in running["roles"].items():
        after = new["roles"].get(role)
        if after is None:  # another topology
            continue
        before = {**each, "space": running["namespace"], "record": running["record"]}
        if before["name"] != after["name"]:
            yield from _renamed(before, after)
        elif before["kind"] == after["kind"]:
            yield from _changed(before, after)


def _renamed(before: Record, after: Record) -> Iterator[str]:
    old, new = before["claim"], after["claim"]
    if old and not after["named"]:
        yield (
            f"The pod would start on the empty volume {new}, because nameOverride or fullnameOverride changes its name. "
            f"The data of this release is on {old}. Cure: persistence.existingClaim: {old}; or the former name."
        )
    elif old == new and before["whenDeleted"] == "Delete":
        yield (
            f"persistence.whenDeleted is Delete, so {old} would be deleted with StatefulSet {before['name']}. "
            "Cure: an upgrade with persistence.whenDeleted: Retain and the former name, then this one."
        )
    elif not old and before["volume"]:
        yield (
            f"Events may wait on the volumes of StatefulSet {before['name']}, and {after['name']} would begin with empty "
            f"ones. Cure: fullnameOverride: {before['name'].removesuffix('-gateway')}."
        )


def _changed(before: Record, after: Record) -> Iterator[str]:
    orphan = ORPHAN.format_map(before)
    what = f"{before['kind']} {before['name']}"
    if before["app"] != after["app"]:
        yield f"nameOverride: the labels by which {what} finds its pods cannot change. Cure: nameOverride: {before['app']}."
    if before["policy"] != after["policy"]:
        yield (
            f"single.podManagementPolicy: {what} has {before['policy']}, which cannot change. "
            f"Cure: {before['policy']}; or {orphan}."
        )
    if before["volume"] and not after["volume"]:
        yield (
            f"persistence.existingClaim: {what} makes its own volume {before['claim']}, and cannot use another. "
            f"Cure: no existingClaim; or {orphan}."
        )
        return
    for setting, old in before["volume"].items():
        if old != after["volume"][setting]:
            cure = _cure(setting, before, after["volume"][setting], orphan)
            yield f"{setting}: the volume of {what} has {old or 'none'}, which an upgrade cannot change. Cure: {cure}."


def _cure(setting: str, before: Record, new: Any, orphan: str) -> str:
    claim = before["claim"] or f"data-{before['name']}-0"
    several = "" if before["claim"] else " (and so for each pod)"
    if setting == "persistence.size" and _bytes(new) > _bytes(before["volume"][setting]):
        patch = json.dumps({"spec": {"resources": {"requests": {"storage": new}}}})
        return f"`kubectl -n {before['space']} patch pvc {claim} --patch '{patch}'`{several}, if the class allows it; then {orphan}"
    if setting == "persistence.annotations":
        words = " ".join(f"{name}={value}" for name, value in (new or {}).items())
        return (
            f"`kubectl -n {before['space']} annotate pvc {claim} {words}`{several}; then {orphan}"
        )
    if before["claim"]:
        return (
            "back up, restore onto a volume of your own, and name it in persistence.existingClaim"
        )
    return "let the spools drain, then install another release; or keep the value"


def _bytes(size: str) -> float:
    number = size.rstrip("".join(UNITS))
    return float(number) * UNITS[size.removeprefix(number)]


def main(running: Path, new: Path) -> int:
    """Print the refusals and return the exit code."""
    if not running.is_file():
        return 0
    found = [*refusals(json.loads(running.read_text()), json.loads(new.read_text()))]
    for each in found:
        print(each)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
