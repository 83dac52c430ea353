(function () {
  "use strict";
  var root = document.documentElement, all = function (q, at) { return Array.from((at || document).querySelectorAll(q)); };
  root.classList.add("live");
  try { if (localStorage.svloadTheme) root.dataset.theme = localStorage.svloadTheme; } catch (e) { /* a file may have no storage */ }
  document.getElementById("theme").addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.svloadTheme = root.dataset.theme; } catch (e) { /* as above */ }
  });

  var shades = JSON.parse(document.getElementById("shades").textContent), pick = document.getElementById("shade");
  if (pick) pick.addEventListener("change", function () {
    var one = shades[+pick.value];
    document.getElementById("shade-low").textContent = one[1];
    document.getElementById("shade-high").textContent = one[2];
    all("td[data-c]").forEach(function (cell) {
      var found = one[3][cell.dataset.c] || ["–", -1];
      cell.className = cell.className.replace(/\bq(n|\d)\b/, "q" + (found[1] < 0 ? "n" : found[1]));
      cell.querySelector(".v").textContent = found[0];
    });
  });

  var form = document.getElementById("filters"), rows = all("[data-g]"), cells = all(".matrix [data-f]");
  function fits(node) {
    var own = node.dataset.f.split(" ");
    return all("select[data-i]", form).every(function (s) { return !s.value || own[+s.dataset.i] === s.value; });
  }
  function filter() {
    var grade = document.getElementById("by-grade").value, words = document.getElementById("search").value.trim().toLowerCase(), shown = 0, of = 0;
    rows.forEach(function (node) {
      var ok = fits(node) && (!grade || node.dataset.g === grade) && (!words || node.dataset.t.includes(words));
      node.classList.toggle("hide", !ok);
      if (node.tagName === "TR") { of++; if (ok) shown++; }
    });
    cells.forEach(function (node) { node.classList.toggle("fade", !fits(node)); });
    document.getElementById("shown").textContent = shown === of ? "" : shown + " of " + of + " cases";
  }
  form.addEventListener("input", filter);
  form.addEventListener("submit", function (e) { e.preventDefault(); });
  addEventListener("hashchange", reveal);
  function reveal() {
    var at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!at) return;
    var hidden = at.closest(".hide");
    if (hidden) { form.reset(); filter(); }
    for (var d = at.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    at.scrollIntoView();
  }
  if (location.hash) reveal();

  all(".sort").forEach(function (button) {
    button.addEventListener("click", function () {
      var head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
      var up = head.getAttribute("aria-sort") !== "ascending";
      all("th[aria-sort]", table).forEach(function (th) { th.setAttribute("aria-sort", "none"); });
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      var key = function (row) { var c = row.cells[at]; return !c || c.colSpan > 1 ? "" : c.dataset.v !== undefined ? c.dataset.v : c.textContent.trim(); };
      Array.from(body.rows).map(function (row, n) { return [key(row), n, row]; }).sort(function (a, b) {
        if (a[0] === "" || b[0] === "") return (a[0] === "") - (b[0] === "") || a[1] - b[1];
        var x = Number(a[0]), y = Number(b[0]), d = isNaN(x) || isNaN(y) ? a[0].localeCompare(b[0], undefined, { numeric: true }) : x - y;
        return (up ? d : -d) || a[1] - b[1];
      }).forEach(function (one) { body.appendChild(one[2]); });
    });
  });
  all("table[data-csv]").forEach(function (table) {
    var button = document.createElement("button");
    button.type = "button";
    button.className = "csv";
    button.textContent = "Save as CSV";
    button.addEventListener("click", function () {
      var lines = Array.from(table.rows).filter(function (row) { return !row.matches(".hide, .sentence"); }).map(function (row) {
        return Array.from(row.cells).map(function (cell) {
          var text = (cell.dataset.v && cell.matches(".num") ? cell.dataset.v : cell.innerText).replace(/\s+/g, " ").trim();
          if (/^[=+@\-\t]/.test(text) && isNaN(text)) text = "'" + text;
          return '"' + text.replace(/"/g, '""') + '"';
        }).join(",");
      });
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(["\ufeff" + lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
      link.download = table.dataset.csv + ".csv";
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 10000);
    });
    table.parentElement.after(button);
  });
  addEventListener("beforeprint", function () { all("details").forEach(function (d) { d.open = true; }); });
})();
