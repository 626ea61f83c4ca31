// The search of this book, in the sections of all its pages.
{
  const MOST = { found: 20, ofAPage: 3, words: 30, names: 30, letters: 250 };
  const PAUSE = 150; // After a key, in milliseconds.
  // Words that mean the same on every page. Those for one page alone are
  // among the keywords in its front matter.
  const SAME = [
    "host, node, machine, several processes, multi-process, multi-host, " +
      "multihost, multi-node",
    "restore, resume",
    "another, other, different",
    "mixed precision, bfloat16, bf16",
    "multi-head attention, attention head",
    "out of memory, OOM, CUDA out of memory, CUDA_ERROR_OUT_OF_MEMORY",
    "all-reduce, allreduce",
    "all-gather, allgather",
    "reduce-scatter, reducescatter",
    "all-to-all, alltoall",
    "remat, rematerialization, gradient checkpointing, " +
      "activation checkpointing",
  ];
  // What a page has besides its text, for after all other pages.
  const ASIDE = new Set(["sources", "your-attempt"]);
  const SMALL = new Set(
    (
      "a an and any are as at be been but by can do does equivalent for " +
      "from get got has have how i if in is it its many me much my no not " +
      "of on or per several should so than that the then there this to two " +
      "versus vs was we what when where which why will with you"
    ).split(" "),
  );
  const { sections: address } = document.currentScript.dataset;
  const place = document.querySelector(".bd-search-container");
  const field = place.querySelector("input");
  const said = place.querySelector("[role=status]");
  const list = place.querySelector("ul");
  const nothing = place.querySelector(".search-nothing");

  const split = (text) => text.match(/\w+(?:\.\w+)*/g) ?? [];
  // "VocabParallelEmbedding" and "vocab_parallel" are several words.
  const partsOf = (word) =>
    word.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+/g) ?? [word];
  const isSmall = (word) => SMALL.has(word.toLowerCase());
  const stem = (word) =>
    word
      .toLowerCase()
      .replace(/(?<=s|x|z|ch|sh)es$|(?<![aius])s$/, "")
      .replace(/(?<=.{4})((at)?(ion|ing|ed)|ate|ism)$|(?<=.{5})e$/, "");
  // What tells a name from others.
  const content = (words) =>
    words
      .filter((word) => !isSmall(word))
      .map(stem)
      .join("");
  const NEXT = "[a-z]*[^a-z0-9]+";
  const groups = SAME.map((group) => group.split(", ").map(split));

  // The words of a query; those that mean the same are one term.
  function termsOf(given) {
    const words = [...new Set(given)];
    const begins = (phrase) =>
      phrase.every((word, at) => stem(word) === stem(words[at] ?? ""));
    const terms = [];
    while (words.length) {
      const same = groups.filter((group) => group.some(begins)).flat();
      const lengths = same.filter(begins).map(({ length }) => length);
      const own = words.splice(0, Math.max(1, ...lengths));
      const all = [own, ...same];
      const inText = (phrase) =>
        phrase.map((word) => stem(word).replaceAll(".", "\\.")).join(NEXT);
      terms.push({
        words: own.join(" "),
        own: content(own),
        any: all.map(content).join("|"),
        inText: `(?:${all.map(inText).join("|")})`,
      });
    }
    return terms;
  }
  const patternOf = (terms, joined) =>
    `(?<![a-z0-9])(?:${terms.map(({ inText }) => inText).join(joined)})`;

  // Whether a text has terms, in a row, with any endings.
  const patterns = new Map();
  function has(text, terms) {
    const pattern = patternOf(terms, NEXT);
    if (!patterns.has(pattern)) {
      patterns.set(pattern, new RegExp(pattern, "i"));
    }
    return patterns.get(pattern).test(text);
  }
  const hasAll = (text, terms) => terms.every((term) => has(text, [term]));
  // A name of an API, or one of the reader's own.
  const isName = ({ words }) => /[._\d]|[a-z][A-Z]/.test(words);

  // How well a section fits terms that belong together; 0 if it does not.
  function fitOf(row, terms) {
    // With its number: ZeRO-1 is a name of its own.
    const own = row.map((term) => term.own).join("");
    const any = row.map((term) => `(?:${term.any})`).join("");
    const alike = new RegExp(`^${any}$`);
    return ({ page, on, id, title, called, contents, text }) => {
      // Earlier names tell more: the title, then keywords, then tags. A
      // heading tells less than these, because "Checkpoints" may stand above
      // errors. So does the last part of an object's name, which is its id.
      const isObject = id === title;
      const least = id && page !== "glossary" ? Number(isObject) : -1;
      const depth = (at) => (at === least ? MOST.names : at) / 100;
      const at = isObject
        ? contents.indexOf(own)
        : contents.findIndex((name) => alike.test(name));
      if (at >= 0) return (contents[at] === own ? 9 : 8.995) - depth(at);
      const within = called.findIndex((name) => has(name, row));
      if (within >= 0) return 7 - within / 100;
      if (hasAll(called.join("\n"), terms)) return 6;
      if (hasAll(`${on}\n${title}`, terms)) return 5;
      const mentions = text.filter((block) => has(block, row)).length;
      if (mentions) return 4 + mentions / 1000;
      const share = terms.filter((term) => has(title, [term])).length;
      const near = (line) => hasAll(`${on}\n${title}\n${line}`, terms);
      const lines = text.join("\n").split("\n");
      return lines.some(near) ? 3 + share / terms.length / 2 : 0;
    };
  }

  // How much a section has of many terms, of which the rare ones tell more.
  function overlapOf(terms, sections) {
    const weights = new Map(
      terms.map((term) => {
        const { length } = sections.filter(({ all }) => has(all, [term]));
        return [term, Math.log(sections.length / length)];
      }),
    );
    const weigh = (some) => some.reduce((sum, w) => sum + weights.get(w), 0);
    return ({ all }) => {
      const there = terms.filter((term) => has(all, [term]));
      const share = weigh(there) / weigh(terms);
      return share > 0.6 ? share : 0;
    };
  }

  // The sections that rate best, a few of each page.
  function best(rate, sections) {
    const rated = sections
      .map((section) => [
        rate(section) * (ASIDE.has(section.id) ? 0.1 : 1),
        section,
      ])
      .filter(([rating]) => rating)
      .sort(([a], [b]) => b - a);
    // The page about a term comes before what the term means, also while
    // only a part of the term is typed.
    const about = rated.findIndex(
      ([rating, { page }]) => rating > rated[0][0] - 1 && page !== "glossary",
    );
    if (about > 0) rated.unshift(...rated.splice(about, 1));
    const ofAPage = {};
    const entries = new Set();
    return rated
      .map(([, section]) => section)
      .filter(({ page, text }) => {
        // Terms of one entry of the glossary have the same text.
        const entry = `${page}\n${text.join("\n")}`;
        const again = text.length > 0 && entries.has(entry);
        entries.add(entry);
        if (!again) ofAPage[page] = (ofAPage[page] ?? 0) + 1;
        return !again && ofAPage[page] <= MOST.ofAPage;
      })
      .slice(0, MOST.found);
  }

  // The first sentences of a section, or those that have the terms.
  function summary({ title, text }, terms) {
    const count = (line) => terms.filter((term) => has(line, [term])).length;
    const wanted = hasAll(title, terms) ? 0 : Math.max(...text.map(count));
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

  function addMarked(parent, text, terms) {
    const pattern = new RegExp(`(${patternOf(terms, "|")}\\w*)`, "gi");
    const parts = terms.length ? text.split(pattern) : [text];
    for (const [number, textContent] of parts.entries()) {
      if (number % 2) add(parent, "mark", { textContent });
      else parent.append(textContent);
    }
  }

  // What the book leaves out, and where to read about it.
  function addTopic({ page, id, title, elsewhere }, isLater) {
    const [parent, tag] = isLater ? [list, "li"] : [said, "p"];
    const line = add(parent, tag, { className: "search-elsewhere" });
    line.append("Not in this book: ");
    const base = new URL(`${page}.html`, document.baseURI);
    const href = `${base}#${id}`;
    add(line, "a", { href, textContent: title });
    line.append(". ");
    for (const [textContent, to] of elsewhere) {
      if (to) add(line, "a", { href: new URL(to, base), textContent });
      else line.append(textContent);
    }
  }

  // "Initialise" and "quantisation", in the spelling of the book.
  const american = (word) =>
    word.replace(/is(?=(?:e[ds]?|ers?|ing|ations?)$)/, "iz");

  function show(given, book) {
    const { sections, topics } = book;
    const isKnown = (term) => sections.some(({ all }) => has(all, [term]));
    const knows = (word) => termsOf([word]).some(isKnown);
    const query = given.replace(/\w+/g, (word) =>
      knows(word) ? word : american(word),
    );
    const written = split(query);
    const unknown = written.filter((word) => !knows(word));
    const others = written.some(
      (word) => !isSmall(word) && !unknown.includes(word),
    );
    // What no page has as written may have parts that pages have. Beside
    // other words, a name with underscores may be the reader's own.
    const isApart = (word) =>
      unknown.includes(word) &&
      !(others && /[._]/.test(word)) &&
      partsOf(word).every(knows);
    const asWritten = termsOf(
      written.flatMap((word) => (isApart(word) ? partsOf(word) : word)),
    );
    const row = asWritten.filter(isKnown).slice(0, MOST.words);
    const terms = row.filter(({ own }) => /[a-z]/.test(own));
    const foreign = asWritten.filter(
      (term) => term.own && !isName(term) && !isKnown(term),
    );
    const messages = sections.map((section) => section.messages);
    const quoted = explained(query, messages).map((i) => sections[i]);
    // What is left of "pipeline parallelism" is something else.
    const few = foreign.length && terms.length < 2 && !terms.some(isName);
    let found =
      few || !terms.length ? [] : best(fitOf(row, terms), sections);
    if (!found.length && !quoted.length && terms.length > 1) {
      found = best(overlapOf(terms, sections), sections);
    }
    found = [...new Set([...quoted, ...found])];
    const about = (isIt) => topics.filter(({ names }) => names.some(isIt));
    // "Decoding" is a topic, and "decoder" a word of many messages.
    const words = (text) => ` ${split(text).map(stem).join(" ")} `;
    let asked = quoted.length
      ? []
      : about((name) => words(query).includes(words(name)));
    if (!found.length && !asked.length && asWritten.length) {
      asked = about((name) => hasAll(name, asWritten));
    }

    // A page that has all that is asked comes before what is not here.
    const answers = ({ called, on }) =>
      hasAll([on, ...called].join("\n"), terms);
    const isWhole = ({ names }) =>
      names.some((name) => words(name) === words(query));
    const isLater = found.some(answers) && !asked.some(isWhole);
    const showAsked = () => {
      for (const topic of asked) addTopic(topic, isLater);
    };
    if (!isLater) showAsked();
    if (asked.length && !found.length) return;
    nothing.hidden = found.length > 0;
    const counted = add(said, "p", { className: "search-summary" });
    const several = foreign.length + terms.length > 1;
    // Of a message, what is missing are the reader's own names.
    const own = found.length || several ? foreign : terms;
    const missing = quoted.length ? [] : own;
    const named = missing.map(({ words }) => words).join("”, “");
    if (found.length) counted.append(`Sections found: ${found.length}. `);
    if (missing.length) counted.append(`No page has “${named}”. `);
    else if (!found.length) {
      counted.append(
        several ? "No section has all of these words. " : "Nothing is found. ",
      );
    }
    if (!found.length && several && terms.length) {
      counted.append("Look for ");
      for (const [number, { words }] of terms.entries()) {
        if (number) counted.append(" or ");
        const href = `?q=${encodeURIComponent(words)}`;
        add(counted, "a", { href, textContent: words });
      }
      counted.append(" alone.");
    }
    for (const section of found) {
      const { page, on, id, title } = section;
      // All of a message would be marked.
      const shown = quoted.includes(section) ? [] : terms;
      const item = add(list, "li");
      const link = add(item, "a", { href: `${page}.html${id && "#"}${id}` });
      addMarked(link, id ? `${on} > ${title}` : title, shown);
      const context = add(item, "p", { className: "context" });
      addMarked(context, summary(section, shown), shown);
    }
    if (isLater) showAsked();
  }

  // Only who searches loads the text of all pages, and only once.
  let loading;
  const load = () =>
    (loading ??= new Promise((loaded) => {
      add(document.head, "script", { src: address, onload: loaded });
    }).then(() => {
      for (const section of SECTIONS) {
        const { title, names, messages, text } = section;
        // "Out of memory" is what comes after "RESOURCE_EXHAUSTED: ".
        const parts = messages.flatMap((message) => message.split(": "));
        section.called = [title, ...names, ...parts, ...messages];
        section.contents = section.called.map((name) => content(split(name)));
        section.all = [...section.called, ...text].join("\n");
      }
      return {
        sections: SECTIONS.filter(({ elsewhere }) => !elsewhere),
        topics: SECTIONS.filter(({ elsewhere }) => elsewhere),
      };
    }));

  let waiting;
  async function search() {
    clearTimeout(waiting);
    const query = field.value.trim();
    const link = new URL(location);
    if (query) link.searchParams.set("q", query);
    else link.searchParams.delete("q");
    history.replaceState(null, "", link);
    const book = query && (await load());
    // Meanwhile, more may have been typed.
    if (query !== field.value.trim()) return;
    said.replaceChildren();
    list.replaceChildren();
    nothing.hidden = true;
    if (query) show(query, book);
  }

  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, PAUSE);
  });
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  // From the field to the results and on, as in a menu.
  place.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const stops = [field, ...list.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    const next = stops[at + step];
    if (at < 0 || !next) return;
    event.preventDefault();
    next.focus();
  });
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  if (field.value) search();
  else field.focus();
}
