// Once an answer is chosen, say if it is right and why, and open the fold.
for (const question of document.querySelectorAll(".predict")) {
  const cell = question.nextElementSibling;
  const fold = cell.querySelector(".predict-outcome");
  const reason = cell.querySelector(".predict-reason");
  const verdict = document.createElement("strong");
  let judged = null;
  let moving = false;

  function judge() {
    const choice = question.querySelector(":checked");
    if (!choice) return;
    fold.open = true;
    if (choice === judged) return;
    judged = choice;
    verdict.className = choice.value;
    verdict.textContent = choice.value === "right" ? "Right." : "Wrong.";
    question.querySelector("[role=status]").replaceChildren(verdict, reason);
  }

  for (const radio of question.querySelectorAll("input")) {
    radio.hidden = false;
  }
  // The arrow keys check each answer that they pass. Whoever uses them has
  // chosen when they press Space or Enter, or open the fold.
  question.addEventListener("keydown", ({ key }) => {
    moving = key.startsWith("Arrow");
    if (key === " " || key === "Enter") judge();
  });
  question.addEventListener("keyup", () => (moving = false));
  question.addEventListener("change", () => moving || judge());
  fold.addEventListener("toggle", () => fold.open && judge());
}
