"""The examples of tests/README.md are tests: they run as a newcomer would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pages import CHECKOUT, blocks


def test_the_examples_run(tmp_path: Path) -> None:
    examples = [each for each in blocks(CHECKOUT / "tests/README.md") if each.language == "python"]
    assert len(examples) == 3
    for number, example in enumerate(examples):
        (tmp_path / f"test_example_{number}.py").write_text(example.text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(CHECKOUT / "pyproject.toml")]
    paths = os.pathsep.join((str(CHECKOUT / "tests/support"), str(CHECKOUT)))
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
