// A click on a figure makes it as wide as the page. A click on a heading sorts its table, numbers as numbers; a second click turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const rising = head.getAttribute("aria-sort") !== "ascending", body = table.tBodies[0];
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = (row) => row.cells[column]?.textContent ?? "";
    const order = (p, q) => {
      const [a, b] = [Number.parseFloat(key(p)), Number.parseFloat(key(q))];
      if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1; // what is no number stays below
      return (rising ? 1 : -1) * (Number.isNaN(a) ? key(p).localeCompare(key(q)) : a - b);
    };
    body.append(...[...body.rows].sort(order));
  }));
}

for (const button of document.querySelectorAll(".picture button")) {
  button.addEventListener("click", () => button.setAttribute("aria-expanded", String(button.parentElement.classList.toggle("large"))));
}
