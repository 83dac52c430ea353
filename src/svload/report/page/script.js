(function () {
  "use strict";
  const root = document.documentElement, main = document.querySelector("main");
  const all = (query, at) => Array.from((at || document).querySelectorAll(query));
  const byId = (id) => document.getElementById(id);
  root.classList.add("live");

  // Light and dark: the system's choice until the reader makes one.
  try { if (localStorage.svloadTheme) root.dataset.theme = localStorage.svloadTheme; } catch (e) { /* a file may have no storage */ }
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.svloadTheme = root.dataset.theme; } catch (e) { /* as above */ }
  });

  // The matrix, coloured by the metric that the reader picks.
  const pick = byId("shade");
  if (pick) {
    const shades = JSON.parse(byId("shades").textContent);
    pick.addEventListener("change", () => {
      const [label, low, high, cells, note] = shades[+pick.value];
      byId("shade-name").textContent = label;
      byId("shade-note").textContent = note;
      byId("shade-low").textContent = low;
      byId("shade-high").textContent = high;
      all("td[data-c]").forEach((cell) => {
        const [text, shade, refused, counted, believed] = cells[cell.dataset.c] || ["–", -1, 0, "", 0];
        cell.className = cell.className.replace(/\bq(n|\d)\b/, "q" + (shade < 0 ? "n" : shade));
        cell.classList.toggle("refused", !!refused);
        cell.querySelector(".v").textContent = text;
        cell.querySelector(".n").classList.toggle("few", believed < +cell.closest("table").dataset.n);
        cell.querySelector(".k").textContent = counted;
      });
    });
  }

  // Filters: rows and sections of cases that do not fit are hidden, cells of the matrix fade.
  const form = byId("filters"), rows = all("[data-g]"), cells = all(".matrix [data-f]");
  const chosen = () => all("select[data-i]", form).filter((one) => one.value);
  const fits = (node, levels) => {
    const own = node.dataset.f.split(" ");
    return levels.every((one) => own[+one.dataset.i] === one.value);
  };
  function filter() {
    const levels = chosen(), grade = byId("by-grade").value, words = byId("search").value.trim().toLowerCase();
    let shown = 0, of = 0;
    rows.forEach((node) => {
      const ok = fits(node, levels) && (!grade || node.dataset.g === grade) && (!words || node.dataset.t.includes(words));
      node.classList.toggle("hide", !ok);
      if (node.tagName === "TR") { of++; if (ok) shown++; }
    });
    cells.forEach((node) => node.classList.toggle("fade", !fits(node, levels)));
    byId("shown").textContent = shown === of ? "" : shown + " of " + of + " " + byId("shown").dataset.of;
  }
  if (form) {
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    if (byId("by-grade").value) filter();
  }

  // Permanent links. Who arrives by one sees what it names, alone, at the top of the page, and can ask for the rest.
  function whole() {
    all(".aside").forEach((node) => node.classList.remove("aside"));
    byId("alone-bar").hidden = true;
    root.classList.remove("alone");
  }
  function alone(at) {
    let node = at.closest("tr, dt") ? at.closest("details, article, section") : at;
    if (!main.contains(node) || node === main) return;
    for (; node !== main; node = node.parentElement)
      for (const other of node.parentElement.children)
        if (other !== node && !other.matches("[data-keep], summary, script")) other.classList.add("aside");
    byId("alone-bar").hidden = false;
    root.classList.add("alone");
  }
  function target() {
    try { return byId(decodeURIComponent(location.hash.slice(1))); } catch (e) { return null; /* no id has such a name */ }
  }
  function reveal(arriving) {
    const at = target();
    if (!at) return;
    if (at.closest(".hide")) { all("select, input", form).forEach((one) => { one.value = ""; }); filter(); }
    if (at.closest(".aside")) whole();
    for (let one = at.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
    if (arriving) alone(at);
    if (arriving && !at.closest("tr, dt")) scrollTo(0, 0); else at.scrollIntoView();
  }
  byId("whole").addEventListener("click", () => { whole(); reveal(false); });
  addEventListener("hashchange", () => reveal(false));
  if (location.hash) {
    const [arrived] = performance.getEntriesByType("navigation");
    reveal(!arrived || arrived.type === "navigate");
  }

  // Tables that can be sorted by a column.
  function sortKey(row, column) {
    const cell = row.cells[column];
    if (!cell || cell.colSpan > 1) return "";
    return cell.dataset.v !== undefined ? cell.dataset.v : cell.textContent.trim();
  }
  function compareKeys(a, b) {
    const difference = Number(a) - Number(b);
    return isNaN(difference) ? a.localeCompare(b, undefined, { numeric: true }) : difference;
  }
  all(".sort").forEach((button) => {
    button.addEventListener("click", () => {
      const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
      const up = head.getAttribute("aria-sort") !== "ascending";
      all("th[aria-sort]", table).forEach((one) => one.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      Array.from(body.rows).map((row, place) => [sortKey(row, head.cellIndex), place, row]).sort((a, b) => {
        if (a[0] === "" || b[0] === "") return (a[0] === "") - (b[0] === "") || a[1] - b[1];
        return (up ? 1 : -1) * compareKeys(a[0], b[0]) || a[1] - b[1];
      }).forEach(([, , row]) => body.appendChild(row));
    });
  });

  // CSV: of a table as it is shown, and of the numbers behind a chart, which the page carries compressed.
  function save(text, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + text], { type: "text/csv" }));
    link.download = name + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  function saver(label, what, action) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "csv";
    button.textContent = label;
    button.setAttribute("aria-label", what);
    button.addEventListener("click", action);
    return button;
  }
  function cellText(cell) {
    const raw = cell.dataset.v && cell.matches(".num") ? cell.dataset.v : cell.innerText;
    const text = raw.replace(/\s+/g, " ").trim();
    const safe = /^[=+@\-\t]/.test(text) && isNaN(text) ? "'" + text : text;
    return '"' + safe.replace(/"/g, '""') + '"';
  }
  all("table[data-csv]").forEach((table) => {
    table.parentElement.after(saver("Save as CSV", "Save the table of " + table.dataset.csv + " as CSV", () => {
      const kept = Array.from(table.rows).filter((row) => !row.matches(".hide, .sentence"));
      save(kept.map((row) => Array.from(row.cells).map(cellText).join(",")).join("\r\n") + "\r\n", table.dataset.csv);
    }));
  });
  const unpacked = new Map();
  function tablesOf(owner) {
    if (!unpacked.has(owner)) {
      const packed = owner.querySelector(":scope > script.data").textContent;
      const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
      unpacked.set(owner, new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json());
    }
    return unpacked.get(owner);
  }
  if ("DecompressionStream" in window) all("figure[data-csv]").forEach((figure) => {
    figure.append(saver("CSV", "Save the numbers of this chart as CSV", async () => {
      const tables = await tablesOf(figure.closest("article, main"));
      if (figure.id in tables) save(tables[figure.id], figure.id);
    }));
  });

  // Under the pointer: the value of the nearest point of a chart and whose it is, else what the shape there stands for.
  const NEAR_PX = 20, UNITS = {
    time_s: [[1, " s"], [1e-3, " ms"], [1e-6, " µs"]], size_bytes: [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [1024, " KiB"], [1, " B"]],
    rate_rps: [[1, "/s"]], ratio: [[0.01, " %"]], count: [[1, ""]],
  };
  const tip = document.createElement("div"), ring = document.createElementNS("http://www.w3.org/2000/svg", "circle"), known = new WeakMap();
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", 5);
  function shown(value, of) {
    if (of === "percentile") return "p" + +(100 - 100 * 10 ** -value).toFixed(3);
    const [size, unit] = UNITS[of].find(([least]) => Math.abs(value) >= least) || UNITS[of].at(-1);
    return (value / size).toLocaleString("en", { maximumSignificantDigits: 3 }) + unit;
  }
  function reader(scale) {
    const [of, ...rest] = scale.split(" "), [low, high, start, end, log] = rest.map(Number);
    return (at) => {
      const share = (at - start) / (end - start);
      return shown(log ? low * (high / low) ** share : low + share * (high - low), of);
    };
  }
  function pointsOf(svg) {
    if (known.has(svg)) return known.get(svg);
    const points = [];
    for (const field of all("[data-x]", svg)) {
      const x = reader(field.dataset.x), y = reader(field.dataset.y);
      for (const path of all("[data-n]", field)) {
        let at = [0, 0];
        const text = (place) => `${path.dataset.n}: ${y(place[1])} at ${x(place[0])}`;
        for (const [, command, list] of path.getAttribute("d").matchAll(/([Ml])([^Ml]*)/g)) {
          const numbers = list.match(/-?[\d.]+/g).map(Number);
          for (let i = 0; i < numbers.length; i += 2) {
            const from = command === "l" ? at : [0, 0];
            at = [from[0] + numbers[i], from[1] + numbers[i + 1]];
            points.push([at, text]);
          }
        }
      }
    }
    for (const title of all("title", svg)) {
      const shape = title.parentElement, box = shape.getBBox(), text = title.textContent;
      shape.dataset.t = text;
      title.remove();
      if (shape.tagName !== "rect") points.push([[box.x + box.width / 2, box.y + box.height / 2], () => text]);
    }
    known.set(svg, points);
    return points;
  }
  function point(event) {
    const svg = event.target.closest && event.target.closest("svg");
    let text = "", at = null;
    if (svg) {
      const matrix = svg.getScreenCTM(), x = (event.clientX - matrix.e) / matrix.a, y = (event.clientY - matrix.f) / matrix.d;
      let least = (NEAR_PX / matrix.a) ** 2;
      for (const [place, words] of pointsOf(svg)) {
        const far = (place[0] - x) ** 2 + (place[1] - y) ** 2;
        if (far < least) [least, at, text] = [far, place, words];
      }
      text = at ? text(at) : (event.target.dataset.t || "");
    }
    tip.hidden = !text;
    if (!at) ring.remove();
    if (!text) return;
    if (at) {
      ring.setAttribute("cx", at[0]);
      ring.setAttribute("cy", at[1]);
      if (ring.parentElement !== svg) svg.append(ring);
    }
    tip.textContent = text;
    tip.style.left = Math.max(0, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
  }
  addEventListener("pointermove", point);
  addEventListener("pointerdown", point);

  // Printed, everything is open but the panels of every monitored resource, which are pages of lines: those print where the reader opened them.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open], .panels)");
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
})();
