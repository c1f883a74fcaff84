"""Write into a page how many inputs each target was tried with, between two markers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from fuzz.corpus import kept
from kafka_install import one_at_a_time
from proof.page import commit

BEGIN, END = "<!-- fuzz -->", "<!-- end of fuzz -->"
HEADINGS = ("target", "inputs tried", "seconds", "inputs kept", "commit, date of the last run")
_ROW = re.compile(r"^\| `([\w-]+)` \| ([\d,]+) \| ([\d,]+) \|.*$", re.MULTILINE)


def write(page: Path, name: str, inputs: int, seconds: int) -> None:
    """Add a run of a target to its row."""
    with one_at_a_time("proof-page"):
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        known, _, after = rest.partition(END)
        rows = {match[1]: match for match in _ROW.finditer(known)}
        texts = {target: match[0] for target, match in rows.items()}
        if name in rows:
            inputs += int(rows[name][2].replace(",", ""))
            seconds += int(rows[name][3].replace(",", ""))
        last = f"{commit()}, {datetime.now(UTC):%Y-%m-%d}"
        texts[name] = f"| `{name}` | {inputs:,} | {seconds:,} | {len(kept(name))} | {last} |"
        head = f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}\n"
        lines = "".join(f"{texts[target]}\n" for target in sorted(texts))
        page.write_text(f"{before}{BEGIN}\n\n{head}{lines}\n{END}{after}", encoding="utf-8")
