// Finds messages in what a reader pastes. src/shardbook/messages.py has the
// rule in words, and tests/messages.toml what both are tested with.
const letters = (text) => text.toLowerCase().replace(/[^a-z]/g, "");

// Takes off what all lines begin with; then again, leaves it on.
function cleaned(pasted) {
  const text = pasted
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, "")
    .replaceAll("\\n", "\n");
  const lines = text.split(/\r?\n/);
  const [first = "", ...rest] = lines
    .filter((line) => line.trim())
    .map((line) => line.replace(/\d/g, "0"));
  let size = first.length;
  for (const line of rest) {
    while (!line.startsWith(first.slice(0, size))) size -= 1;
  }
  size = first.slice(0, size).replace(/[A-Za-z]*$/, "").length;
  return [lines.map((line) => line.slice(size)).join("\n"), text];
}

// Cuts a text at its exceptions, the last one first.
const piecesOf = (text) =>
  text
    .split(/(?:^|[^\w.])[\w.]*(?:Error|Exception|Warning): /)
    .map((piece, i, { length }) =>
      i < length - 1 ? piece.split("Traceback (most")[0] : piece,
    )
    .reverse();

// The places in a list of lists of messages that explain a text, best first.
function explained(text, messages) {
  const pieces = cleaned(text).flatMap(piecesOf).map(letters);
  const parts = messages.map((each) =>
    each
      .flatMap((message) => message.split(": ").slice(1))
      .filter((part) => part.includes(" ")),
  );
  for (const kind of [messages, parts]) {
    const table = kind
      .flatMap((each, place) => each.map((words) => [letters(words), place]))
      .sort(([a], [b]) => b.length - a.length);
    const found = pieces
      .map((piece) => table.find(([words]) => piece.includes(words)))
      .filter(Boolean)
      .map(([, place]) => place);
    if (found.length) return [...new Set(found)];
  }
  return [];
}
