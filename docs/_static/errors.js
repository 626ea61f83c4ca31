// The list of errors: what is pasted or typed filters it.
{
  const list = document.querySelector(".error-list");
  const filter = document.querySelector(".error-filter");
  const field = filter.querySelector("textarea");
  const status = filter.querySelector("[role=status]");
  const items = [...list.querySelectorAll("li")];
  const lines = items.filter((item) => !item.querySelector("li"));

  function find(text) {
    const messages = lines.map((line) =>
      [...line.querySelectorAll("code")].map((code) => code.textContent),
    );
    const places = explained(text, messages);
    if (places.length) return places.map((place) => lines[place]);
    const words = text.toLowerCase().match(/[a-z]+/g) ?? [];
    return lines.filter((line) =>
      words.every((word) => line.textContent.toLowerCase().includes(word)),
    );
  }

  function show() {
    const found = find(field.value);
    for (const item of items) {
      item.hidden = !found.some((line) => item.contains(line));
    }
    const some = found.length < lines.length ? `${found.length} of ` : "";
    status.textContent = `${some}${lines.length} messages`;
    if (found.length) return;
    const { content_root: root } = document.documentElement.dataset;
    const link = document.createElement("a");
    link.href = `${root}search.html?q=${encodeURIComponent(field.value)}`;
    link.textContent = "Search the whole book instead";
    status.append(". ", link, ".");
  }

  filter.hidden = false;
  field.addEventListener("input", show);
  // Not only when it is loaded: "back" shows a page as it was left.
  addEventListener("pageshow", show);
}
