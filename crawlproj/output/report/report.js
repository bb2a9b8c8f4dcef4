"use strict";
// The page is whole without this script; it adds sorting, searching, and all of it on paper.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, place) => {
    const cell = row.cells[place];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number"
      ? one - other
      : String(one).localeCompare(String(other), undefined, { numeric: true });
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      // Of numbers people want the largest first, of words the first of the alphabet.
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : head.classList.contains("number");
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows];
      rows.sort((one, other) => compare(value(one, place), value(other, place)) * (down ? -1 : 1));
      body.append(...rows);
    });
  });
  if (body.rows.length > 10) {
    const search = document.createElement("input");
    search.type = "search";
    search.className = "search";
    search.placeholder = "Search";
    search.setAttribute("aria-label", "Search " + table.caption.textContent);
    const found = document.createElement("p");
    found.className = "rest";
    found.setAttribute("role", "status");
    search.addEventListener("input", () => {
      const wanted = search.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      const count = [...body.rows].filter((row) => !row.hidden).length;
      found.textContent = wanted ? `${count || "None"} of the ${body.rows.length} shown` : "";
    });
    table.parentElement.before(search, found);
  }
}
const openOnTarget = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", openOnTarget);
openOnTarget();
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open]):not(.sql, .numbers)")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
});
