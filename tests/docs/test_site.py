"""The site of the documentation: navigation, links, and a build that refuses faults."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pages import CHECKOUT
from site_build import CONFIGURATION, Broken, build
from site_links import faults
from site_pages import files, listed, navigation

TASKS = "Start, Send, Deliver, Operate, Secure, The lake, Reference, Why it works so, Contribute"


def test_the_navigation_is_by_task():
    assert ", ".join(title for section in navigation() for title in section) == TASKS


def test_every_page_is_in_the_navigation_once():
    """Cure: add the page to the table of its task in docs/README.md."""
    pages = Counter(str(each) for each in files() if each.suffix == ".md")
    entries = Counter(listed(navigation()))
    assert sorted(pages - entries) == []
    assert sorted(entries - pages) == []


def checkout(folder: Path, **pages: str) -> Path:
    """Write a checkout with a README, a list of pages, and pages below ``docs``."""
    rows = "".join(f"| [{name}]({name}.md) | {name} |\n" for name in pages)
    written = {f"docs/{name}.md": f"# {name}\n\n{text}\n" for name, text in pages.items()}
    written["README.md"] = "# Root\n\n[pages](docs/README.md)\n"
    table = f"| page | for |\n|---|---|\n| [Root](../README.md) | root |\n{rows}"
    written["docs/README.md"] = f"# Pages\n\n## Start\n\n{table}"
    written |= {
        str(CONFIGURATION.with_name(name)): (CHECKOUT / CONFIGURATION.with_name(name)).read_text()
        for name in ("zensical.toml", "site.css", "scheme.js", "tables.js")
    }
    for path, text in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_page_and_the_files_that_it_links_to_are_built(tmp_path):
    """Also a file outside of docs: a link from a plain page leads there as well."""
    here = checkout(
        tmp_path / "checkout", Kafka="Read [the license](../LICENSE) and [top](#kafka)."
    )
    (here / "LICENSE").write_text("free")
    site = build(tmp_path / "place", here)
    assert (site / "index.html").is_file()
    assert (site / "LICENSE").read_text() == "free"
    assert 'href="../LICENSE"' in (site / "docs" / "Kafka.html").read_text()
    items = json.loads((site / "search.json").read_text())["items"]
    assert ("Kafka", ["Start", "Kafka"]) in [(each["title"], each["path"]) for each in items]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[away](away.md)", "page does not exist"),
        ("[here](README.md#away)", "anchor does not exist"),
    ],
)
def test_a_link_between_pages_that_leads_nowhere_breaks_the_build(tmp_path, text, fault):
    with pytest.raises(Broken, match=fault):
        build(tmp_path / "place", checkout(tmp_path / "checkout", Kafka=text))


def test_what_zensical_does_not_check_breaks_the_build(tmp_path):
    """Files that are not pages, raw HTML, files of other hosts, and lists that Zensical did not recognize."""
    texts = [
        "[file](away.yaml)",
        '<picture><source srcset="away.png"></picture>',
        "![x](https://example.com/x.png)",
        "a list:\n- one",
    ]
    with pytest.raises(Broken) as broken:
        build(tmp_path / "place", checkout(tmp_path / "checkout", Kafka="\n\n".join(texts)))
    assert [line.partition(". Cure")[0] for line in str(broken.value).splitlines()] == [
        "docs/Kafka.html: the link away.yaml leads to no file",
        "docs/Kafka.html: the link away.png leads to no file",
        "docs/Kafka.html: <img> loads https://example.com/x.png from another host",
        "docs/Kafka.html: Markdown is left: - one</p>",
    ]


def test_a_bar_in_the_code_of_a_table_is_no_cell(tmp_path):
    """As GitHub and other viewers read a table; Zensical would show the backslash as well."""
    table = "| option |\n|---|\n| `--role` \\| `<gateway\\|worker>` |"
    site = build(tmp_path / "place", checkout(tmp_path / "checkout", Kafka=table))
    text = (site / "docs" / "Kafka.html").read_text()
    assert "<code>--role</code> | <code>&lt;gateway|worker&gt;</code></td>" in text.replace(
        "&#124;", "|"
    )


def test_a_link_to_a_hidden_folder_is_its_text_on_the_site(tmp_path):
    """GitHub Pages publishes no folder whose name begins with a dot."""
    here = checkout(tmp_path / "checkout", Kafka="See [the `gate`](../.ci/run).")
    (here / ".ci").mkdir()
    (here / ".ci" / "run").touch()
    text = (build(tmp_path / "place", here) / "docs" / "Kafka.html").read_text()
    assert "<p>See the <code>gate</code>.</p>" in text


def test_an_anchor_of_raw_html_is_checked(tmp_path):
    """Zensical looks at links of Markdown only."""
    (tmp_path / "other.html").write_text('<h2 id="there">There</h2>')
    (tmp_path / "index.html").write_text(
        '<a href="other.html#there"></a><a href=other.html#away></a>'
    )
    assert faults(tmp_path) == ["index.html: the link other.html#away leads to no heading"]
