// The search of this book, in the sections of all its pages.
{
  const MOST = { found: 20, ofAPage: 3, words: 30, letters: 250 };
  const SMALL = new Set(
    (
      "a an and any are as at be been but by can do does for from get got " +
      "has have how i if in is it its me my no not of on or so than that " +
      "the then there this to was we what when where which why will with you"
    ).split(" "),
  );
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const { sections: address } = document.currentScript.dataset;
  let sections;

  // Whether a text has a word, or several in a row, with any endings.
  const patterns = new Map();
  function has(text, words) {
    if (!patterns.has(words)) {
      const stems = [words].flat().map((word) => {
        const stem = word.replace(/(ing|ism|ed|es|s)$/, "");
        return (stem.length > 3 ? stem : word).replaceAll(".", "\\.");
      });
      const row = stems.join("[a-z]*[^a-z0-9]+");
      patterns.set(words, new RegExp(`(?<![a-z0-9])${row}`, "i"));
    }
    return patterns.get(words).test(text);
  }
  const hasAll = (text, words) => words.every((word) => has(text, word));
  const isKnown = (word) => sections.some(({ all }) => has(all, word));
  // A name of an API, or one of the reader's own.
  const isName = (word) => /[._\d]|[a-z][A-Z]/.test(word);

  // The words of a name that tell it from others.
  const content = (text) =>
    (text.toLowerCase().match(/\w+/g) ?? [])
      .filter((word) => !SMALL.has(word))
      .join("");

  // A pasted message has the reader's numbers, quotes and line breaks.
  const letters = (text) => text.toLowerCase().replace(/[^a-z]/g, "");
  const explains = ({ messages }) =>
    messages.some((message) => letters(query).includes(letters(message)));

  // How well a section fits words that belong together; 0 if it does not.
  function fit({ on, title, called, text }, row, words) {
    const isIt = (name) => content(name) === content(row.join(" "));
    // Earlier names tell more: the title, then keywords, then tags.
    const it = called.findIndex(isIt);
    if (it >= 0) return 9 - it / 100;
    const within = called.findIndex((name) => has(name, row));
    if (within >= 0) return 7 - within / 100;
    if (hasAll(title, words)) return 5;
    const mentions = text.filter((block) => has(block, row)).length;
    if (mentions) return 4 + mentions / 1000;
    const near = (line) => hasAll(`${on}\n${title}\n${line}`, words);
    return text.join("\n").split("\n").some(near) ? 3 : 0;
  }

  // How much a section has of many words, of which the rare ones tell more.
  function overlap(words) {
    const weights = new Map(
      words.map((word) => {
        const { length } = sections.filter(({ all }) => has(all, word));
        return [word, Math.log(sections.length / length)];
      }),
    );
    const weigh = (some) => some.reduce((sum, w) => sum + weights.get(w), 0);
    return ({ all }) => {
      const share = weigh(words.filter((w) => has(all, w))) / weigh(words);
      return share > 0.6 ? share : 0;
    };
  }

  // The sections that rate best, a few of each page.
  function best(rate) {
    const ofAPage = {};
    return sections
      .map((section) => [rate(section), section])
      .filter(([rating]) => rating)
      .sort(([a], [b]) => b - a)
      .map(([, section]) => section)
      .filter(({ page }) => {
        ofAPage[page] = (ofAPage[page] ?? 0) + 1;
        return ofAPage[page] <= MOST.ofAPage;
      })
      .slice(0, MOST.found);
  }

  // The first sentences of a section, or those that have the words.
  function summary({ title, text }, words) {
    const count = (line) => words.filter((w) => has(line, w)).length;
    const wanted = hasAll(title, words) ? 0 : Math.max(...text.map(count));
    const lines = text.find((block) => count(block) >= wanted)?.split("\n");
    if (!lines) return "";
    const counts = lines.map(count);
    const start = wanted && counts.indexOf(Math.max(...counts));
    const whole = lines.slice(start).join(" ");
    const short = whole.slice(0, MOST.letters).replace(/\S*$/, "…");
    return whole.length > MOST.letters ? short : whole;
  }

  function add(parent, tag, properties) {
    const element = Object.assign(document.createElement(tag), properties);
    parent.append(element);
    return element;
  }

  function search() {
    const given = [...new Set(query.match(/\w+(?:\.\w+)*/g))];
    const foreign = given.filter((w) => !isName(w) && !isKnown(w));
    const row = given.filter(isKnown).slice(0, MOST.words);
    const words = row.filter(
      (w) => /[a-z]/i.test(w) && !SMALL.has(w.toLowerCase()),
    );
    const explained = sections.filter(explains);
    // What is left of "pipeline parallelism" is something else.
    const few = foreign.length && words.length < 2 && !words.some(isName);
    let found = few || !words.length ? [] : best((s) => fit(s, row, words));
    if (!found.length && !explained.length && words.length > 2) {
      found = best(overlap(words));
    }
    found = [...new Set([...explained, ...found])];

    const out = document.querySelector("#search-results");
    add(out, "h2", { textContent: "Search results" });
    const said = add(out, "p", { className: "search-summary" });
    if (found.length) said.append(`Sections found: ${found.length}. `);
    const several = foreign.length + words.length > 1;
    const missing = found.length || several ? foreign : words;
    if (missing.length) said.append(`No page has “${missing.join("”, “")}”. `);
    else if (!found.length) said.append("No section has all of these words. ");
    if (!found.length && several && words.length) {
      said.append("Look for ");
      words.forEach((word, number) => {
        if (number) said.append(" or ");
        const href = `?q=${encodeURIComponent(word)}`;
        add(said, "a", { href, textContent: word });
      });
      said.append(" alone.");
    }
    const list = add(out, "ul", { className: "search" });
    for (const section of found) {
      const { page, on, id, title } = section;
      const item = add(list, "li");
      add(item, "a", {
        href: `${page}.html${id && "#"}${id}`,
        textContent: id ? `${on} > ${title}` : title,
      });
      const shown = explains(section) ? [] : words;
      add(item, "p", {
        className: "context",
        textContent: summary(section, shown),
      });
    }
  }

  for (const field of document.querySelectorAll("input[name=q]")) {
    field.value = query;
  }
  // Only who searches loads the text of all pages, and only once.
  if (query) {
    const script = add(document.head, "script", { src: address });
    script.addEventListener("load", () => {
      sections = SECTIONS;
      for (const section of sections) {
        const { title, names, messages, text } = section;
        section.called = [title, ...names, ...messages];
        section.all = [...section.called, ...text].join("\n");
      }
      search();
    });
  }
}
