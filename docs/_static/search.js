// The search of this book: on Sphinx's own, with two changes.
{
  // A pasted message leads to its section of the guide to errors.
  const messages = JSON.parse(document.querySelector("#messages").textContent);
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const guide = "guides/errors";
  const find = Search.performTermsSearch;

  // Sphinx lists what is found by its score, and this is above all others.
  function sections() {
    const found = Object.entries(messages).filter(([words]) => query.includes(words));
    return [...new Set(found.map(([, title]) => title))].flatMap((title) => {
      const page = Search._index.docnames.indexOf(guide);
      const places = Search._index.alltitles[title] ?? [];
      return places
        .filter(([number]) => number === page)
        .map(([, id]) => [
          guide,
          `${Search._index.titles[page]} > ${title}`,
          `#${id}`,
          null,
          1000,
          Search._index.filenames[page],
          "title",
        ]);
    });
  }

  // Sphinx wants every word, but a message has names that no page has.
  Search.performTermsSearch = (terms, excluded) => {
    const known = [...terms].filter(
      (term) => find(new Set([term]), new Set()).length,
    );
    return [...find(new Set(known), excluded), ...sections()];
  };

  // A result shows the text of its page, without menu and contents.
  const { htmlToText } = Search;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const around = ".bd-header-article, .onlyprint";
    page.querySelectorAll(around).forEach((part) => part.remove());
    return htmlToText(page.documentElement.outerHTML, anchor);
  };
}
