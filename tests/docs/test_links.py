"""Links between pages, and from pages to files, lead somewhere."""

from __future__ import annotations

import pytest

from pages import CHECKOUT, PAGES, links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_the_links_of_a_page_lead_to_files_that_exist(page):
    """A reader who follows a link arrives."""
    assert [target for target in links(page) if not (page.parent / target).exists()] == []
