"""The examples of tests/README.md are tests: pytest collects them here, in the process of the others."""

from __future__ import annotations

from typing import Any

from pages import CHECKOUT, blocks

EXAMPLES = [each for each in blocks(CHECKOUT / "tests/README.md") if each.language == "python"]


def _tests(source: str) -> dict[str, Any]:
    """Run the module that an example is, and return its tests by name."""
    module: dict[str, Any] = {"__name__": __name__}
    exec(source, module)
    return {name: value for name, value in module.items() if name.startswith("test_")}


for example in EXAMPLES:
    globals().update(_tests(example.text))


def test_each_example_is_a_test() -> None:
    assert len([name for name in globals() if name.startswith("test_")]) == len(EXAMPLES) + 1 == 4
