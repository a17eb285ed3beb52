"use strict";
// Headings of tables become buttons that sort; cells that hold no number stay last.
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    if (!button.textContent) button.setAttribute("aria-label", "Sort by column " + (column + 1));
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const numeric = head.classList.contains("number");
      const value = (row) => {
        const cell = row.cells[column];
        return numeric ? parseFloat(cell.dataset.key) : cell.textContent;
      };
      const order = (a, b) => {
        const x = value(a), y = value(b);
        if (!numeric) return sign * x.localeCompare(y, undefined, { numeric: true });
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
        return sign * (x - y);
      };
      body.append(...[...body.rows].sort(order));
    });
  });
}
