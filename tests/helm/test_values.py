"""Every value does something, stands in the schema, and is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

import chart
from pages import CHECKOUT, blocks

pytestmark = pytest.mark.usefixtures("helm_program")

VALUES = yaml.safe_load((chart.CHART / "values.yaml").read_text())
GUIDE = CHECKOUT / "docs" / "guides" / "deploy.md"


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, dict) and value and name not in {"labels", "requests", "limits"}:
            yield from leaves(value, here)
        else:
            yield here


def at(values: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if not isinstance(values, dict) or step not in values:
            return None
        values = values[step]
    return values


def without(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    step, *rest = path
    kept = dict(values)
    if rest:
        kept[step] = without(kept[step], tuple(rest))
    else:
        del kept[step]
    return kept


SETS = {case: yaml.safe_load(case.read_text()) for case in chart.CASES}


def _setting(path: tuple[str, ...]) -> Iterator[Any]:
    """The cases that set a value to something else than it is by default."""
    for case, values in SETS.items():
        given = at(values, path)
        if given is not None and given != at(VALUES, path):
            yield case, values


def test_every_value_is_named_by_a_template_and_set_by_a_case():
    """The quick half of the next one, which renders a hundred times."""
    templates = "".join(path.read_text() for path in (chart.CHART / "templates").rglob("*.*"))
    alerts = (chart.CHART / "files/alerts.yaml").read_text()
    unnamed = [
        path
        for path in leaves(VALUES)
        if not re.search(rf"[.]{path[-1]}\b", templates)
        and f"$({path[-1]})" not in alerts
        and not re.search(rf"[.]{path[0]}\b", templates)
    ]
    assert unnamed == []
    assert [".".join(path) for path in leaves(VALUES) if not any(_setting(path))] == []


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_value_changes_what_is_rendered():
    """A value that nothing reads misleads (issue 9). Where a case of tests/helm/values sets one, the rendering
    is another without it, or is refused; and each is set by some case."""

    def is_idle(path: tuple[str, ...]) -> bool:
        return not any(_differs(case, values, path) for case, values in _setting(path))

    paths = list(leaves(VALUES))
    with ThreadPoolExecutor(2) as pool:  # each waits for its Helm
        idle = list(pool.map(is_idle, paths))
    assert [".".join(path) for path, each in zip(paths, idle, strict=True) if each] == []


def _differs(case, values: dict[str, Any], path: tuple[str, ...]) -> bool:
    try:
        return chart.rendered_with(without(values, path)) != chart.rendered(case)
    except chart.Refused:
        return True


def test_a_value_that_nothing_reads_would_be_found():
    """The long one can fail: a value that is what it is by default changes nothing."""
    case = chart.case("single")
    idle = {**SETS[case], "preStopSeconds": VALUES["preStopSeconds"]}
    assert not _differs(case, idle, ("preStopSeconds",))
    told = {**SETS[case], "preStopSeconds": VALUES["preStopSeconds"] + 1}
    assert chart.rendered_with(told) != chart.rendered(case)


def test_the_schema_names_every_value_and_no_other():
    """Else a value cannot be set, or a misspelt one passes."""
    schema = json.loads((chart.CHART / "values.schema.json").read_text())

    def named(of: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if "properties" not in of:
            yield path
            return
        assert of["additionalProperties"] is False, path
        for name, each in of["properties"].items():
            yield from named(each, (*path, name))

    def trimmed(path: tuple[str, ...]) -> tuple[str, ...]:
        return path[: path.index("resources") + 1] if "resources" in path else path

    in_schema = {trimmed(path) for path in named(schema, ())} - {("global",)}
    assert in_schema == {trimmed(path) for path in leaves(VALUES)}


def test_the_values_keep_to_their_schema():
    """`helm lint` with nothing chosen."""
    assert chart.helm("lint", "--strict", "--quiet", str(chart.CHART)) == ""


def test_every_group_of_values_is_told():
    """In the guide, as the answer to a question."""
    guide = GUIDE.read_text()
    named = set(re.findall(r"`([a-zA-Z]+)[.`=:]", guide))
    assert sorted(set(VALUES) - named) == []


def test_the_values_of_the_guide_are_rendered():
    """What a newcomer pastes first must work."""
    examples = [block for block in blocks(GUIDE) if "tests/helm renders" in block.reason]
    assert examples
    for example in examples:
        assert chart.rendered_with(yaml.safe_load(example.text))
