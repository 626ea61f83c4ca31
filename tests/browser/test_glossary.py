"""Each word of the glossary is needed, and linked at its first use."""

from collections import Counter

from playwright.sync_api import Page

ENTRIES = """
[...document.querySelectorAll("dl.glossary > dd")].map(dd => {
  const names = [];
  let dt = dd.previousElementSibling;
  for (; dt && dt.tagName === "DT"; dt = dt.previousElementSibling) {
    names.push(dt.id);
  }
  return names;
})
"""
LINKS = """
[...document.querySelectorAll("a.first-use")].map(a => a.hash.slice(1))
"""


def test_each_word_is_used_and_linked(page: Page, pages: list[str]) -> None:
    """Every entry is linked from some page, at most once from each."""
    page.goto("glossary.html")
    entries = page.evaluate(ENTRIES)
    linked = set()
    for name in pages:
        page.goto(name)
        links = page.evaluate(LINKS)
        assert max(Counter(links).values(), default=1) == 1, name
        linked.update(links)

    assert len(entries) > 15
    assert [names for names in entries if not linked & set(names)] == []
    assert linked <= {name for names in entries for name in names}
