// Copyright: (c) 2026, The berth.kvm authors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
// Sorts a table by the column whose heading is pressed; the page says everything without it.
"use strict";
const order = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const rows = [...table.tBodies[0].rows];
      rows.sort((one, other) => order.compare(one.cells[at].dataset.sort, other.cells[at].dataset.sort));
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
