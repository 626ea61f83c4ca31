// Remember in this browser which problems are solved, and show it.
const KEY = "shardbook-solved";

function read() {
  return new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));
}

function write(solved) {
  localStorage.setItem(KEY, JSON.stringify([...solved]));
}

// A problem's name, if a link of the menu leads to its page.
function nameOf(link) {
  return link.href.match(/problems\/(\w+)\.html/)?.[1];
}

const menu = [...document.querySelectorAll(".bd-links a")];

// "shardbook open" has after the "#" what is solved in the terminal.
const [, noted] = location.hash.match(/^#solved=([\w,]+)$/) ?? [];
if (noted) {
  const known = new Set(menu.map(nameOf));
  const names = noted.split(",").filter((name) => known.has(name));
  write(new Set([...read(), ...names]));
  history.replaceState(null, "", location.pathname + location.search);
}

function show() {
  const solved = read();
  for (const mark of document.querySelectorAll(".solved")) {
    const box = mark.querySelector("input");
    mark.hidden = !box && !solved.has(mark.dataset.name);
    if (box) box.checked = solved.has(mark.dataset.name);
  }
  for (const link of menu) {
    link.classList.toggle("is-solved", solved.has(nameOf(link)));
  }
  for (const count of document.querySelectorAll(".solved-count")) {
    const names = [...document.querySelectorAll("[data-name]")].map(
      (mark) => mark.dataset.name,
    );
    const { length } = names.filter((name) => solved.has(name));
    count.textContent = `${length} of ${names.length} solved`;
    count.hidden = false;
  }
}

document.addEventListener("change", ({ target }) => {
  const mark = target.closest(".solved");
  if (!mark) return;
  const solved = read();
  solved[target.checked ? "add" : "delete"](mark.dataset.name);
  write(solved);
});
// Not only when it is loaded: "back" shows a page as it was left.
addEventListener("pageshow", show);
