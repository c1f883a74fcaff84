"""Let tests of this folder import its modules, as the package ``proof``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
