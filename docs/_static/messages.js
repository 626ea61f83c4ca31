// Finds messages in what a reader pastes, by their letters alone: it has the
// reader's own names and numbers, and quotes and line breaks of a terminal.
const letters = (text) => text.toLowerCase().replace(/[^a-z]/g, "");
const quotes = (text, messages) =>
  messages.some((message) => letters(text).includes(letters(message)));
