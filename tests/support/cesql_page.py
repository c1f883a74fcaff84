"""Write the section of docs/opinions.md on CloudEvents SQL: the counts and every class of
disagreement.
"""

from __future__ import annotations

from collections.abc import Sequence

from cesql_opinion import Comparison, Disagreement, classes_of, compare_all
from cesql_table import table
from opinion_install import CESQL

_OURS = {"data", "times"}  # files of the table with functions that no other engine has

_SECTION = """
## CloudEvents SQL

The engine of the Java SDK ({release}) is given the {asked} expressions of the project's own
[table](../tests/corpus/README.md), each with its event, and 20,000 expressions made by chance. `make nightly` runs
this. Compared are the value, or the first error. On the table it agrees in {agreeing}; each of the
others belongs to a class below, with the clause of the specification that decides. A test fails when it
disagrees in a way that no class explains, or no longer does where the list has a class.

| about | decided by | right | what the SDK does | cases |
|---|---|---|---|---|
"""


def on_the_table() -> list[Comparison]:
    """Compare all cases of the table, except functions that only Skybridge has. Raises Missing
    without the Java engine.
    """
    return list(
        compare_all(case for name, cases in table().items() if name not in _OURS for case in cases)
    )


def section(found: Sequence[Comparison], known: Sequence[Disagreement]) -> str:
    differing = [each for each in found if not each.agrees]
    classes = [each for one in differing for each in classes_of(one, list(known))]
    head = _SECTION.format(
        release=CESQL.release, asked=len(found), agreeing=len(found) - len(differing)
    )
    rows = (_row(each, sum(each is one for one in classes)) for each in known)
    return head + "\n".join(rows) + "\n"


def _row(each: Disagreement, count: int) -> str:
    cells = (f"**{each.about}.** {each.cause}", each.clause, each.right, each.does, str(count))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
