"""Build actionlint, the linter of GitHub workflows, with Go. Repeated calls build nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

from go_install import go
from kafka_install import SERVERS, one_at_a_time

VERSION = "v1.7.7"  # the last one that Debian 12's Go 1.19 can build
PROGRAM = SERVERS / f"actionlint-{VERSION}" / "actionlint"


def install() -> Path:
    """Return the path of ``actionlint``, built if necessary. Raises Missing without Go or the module proxy."""
    with one_at_a_time("actionlint"):
        if not PROGRAM.is_file():
            fresh = PROGRAM.parent.with_suffix(".building")
            shutil.rmtree(fresh, ignore_errors=True)
            go("install", f"github.com/rhysd/actionlint/cmd/actionlint@{VERSION}", GOBIN=str(fresh))
            fresh.rename(PROGRAM.parent)
    return PROGRAM
