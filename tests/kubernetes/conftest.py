"""Let tests of this folder import its modules, and the tables of ``tests/bench``."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path += [str(_HERE), str(_HERE.parent / "bench")]
