// Remember in this browser which problems are solved, and show it.
const KEY = "shardbook-solved";

function read() {
  return new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));
}

function show() {
  const solved = read();
  for (const mark of document.querySelectorAll(".solved")) {
    const box = mark.querySelector("input");
    mark.hidden = !box && !solved.has(mark.dataset.name);
    if (box) box.checked = solved.has(mark.dataset.name);
  }
  for (const link of document.querySelectorAll(".bd-links a")) {
    const [, name] = link.href.match(/problems\/(\w+)\.html/) ?? [];
    link.classList.toggle("is-solved", solved.has(name));
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
  localStorage.setItem(KEY, JSON.stringify([...solved]));
});
// Not only when it is loaded: "back" shows a page as it was left.
addEventListener("pageshow", show);
