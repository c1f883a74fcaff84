"""Write the table of APIs in docs/embedded-log.md from the table of the Kafka listener."""

from __future__ import annotations

from pathlib import Path

from app.kafka_listener.apis import APIS

PAGE = Path(__file__).parents[2] / "docs" / "embedded-log.md"
BEGIN, END = "<!-- table of APIs -->\n", "<!-- end of the table -->\n"


def table() -> str:
    rows = [
        f"| {api.name} | {api.key} | {_versions(api.oldest, api.newest)} |"
        for api in sorted(APIS.values(), key=lambda api: api.key)
    ]
    return "\n".join(["| API | key | versions |", "|---|---|---|", *rows, ""])


def _versions(oldest: int, newest: int) -> str:
    return str(oldest) if oldest == newest else f"{oldest} to {newest}"


def with_table(page: str) -> str:
    """Return the page with its table replaced by the present one."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
