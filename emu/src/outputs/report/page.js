"use strict";
// Tables sort by a click or a key on a heading, and the timeline zooms. Without this script everything is there, unsorted and as a whole.
(() => {
  const make = (tag, text, attributes) => {
    const element = document.createElement(tag);
    element.textContent = text;
    Object.entries(attributes || {}).forEach(([name, value]) => element.setAttribute(name, value));
    return element;
  };

  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : BigInt(cell.dataset.value);
  };
  const order = (one, other) => {
    if (typeof one === "bigint" && typeof other === "bigint") return one < other ? -1 : one > other ? 1 : 0;
    return String(one).localeCompare(String(other));
  };
  for (const table of document.querySelectorAll("table.sorts")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = make("button", heading.textContent, { type: "button" });
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") !== "descending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((one, other) => (down ? -1 : 1) * order(value(one, column), value(other, column)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  const lanes = document.getElementById("lanes");
  if (!lanes) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg", NAMES = 190, WIDTH = 960, ROW = 18;
  const whole = { from: data.start, to: data.start + data.span };
  let shown = { ...whole };
  const before = [...lanes.querySelectorAll("g")].map((group) => [...group.childNodes]);
  const axis = [...lanes.querySelectorAll(".axis")];
  const status = document.getElementById("shown");
  const time = (ns) => ns < 1e4 ? `${Math.round(ns)} ns` : ns < 1e7 ? `${(ns / 1e3).toFixed(3)} us` : ns < 1e10 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e9).toFixed(3)} s`;

  const draw = () => {
    const isWhole = shown.from === whole.from && shown.to === whole.to;
    const groups = [...lanes.querySelectorAll("g")];
    axis[0].textContent = time(shown.from);
    axis[1].textContent = time(shown.to);
    let count = 0;
    if (isWhole) {
      groups.forEach((group, number) => group.replaceChildren(...before[number]));
      count = data.hits.length / 4;
    } else {
      const marks = groups.map(() => []);
      const last = groups.map(() => -1);
      for (let at = 0; at < data.hits.length; at += 4) {
        const [when, cpu, task, event] = data.hits.slice(at, at + 4);
        if (when < shown.from || when > shown.to) continue;
        count += 1;
        const x = NAMES + Math.round((when - shown.from) / (shown.to - shown.from) * WIDTH);
        for (const row of [cpu, data.cpus + task]) {
          if (!marks[row] || last[row] === x) continue;
          last[row] = x;
          const mark = document.createElementNS(SVG, "rect");
          Object.entries({ x, y: row * ROW + 2, width: 2, height: ROW - 4 }).forEach(([name, value]) => mark.setAttribute(name, value));
          const title = document.createElementNS(SVG, "title");
          title.textContent = `${data.events[event]} at ${time(when)}, ${data.rows[data.cpus + task]}`;
          mark.append(title);
          marks[row].push(mark);
        }
      }
      groups.forEach((group, number) => group.replaceChildren(...marks[number]));
    }
    const thinned = data.each > 1 ? `; one of ${data.each} hits is shown` : "";
    status.textContent = `Shown: ${time(shown.from)} to ${time(shown.to)}, ${count} hits${thinned}`;
  };
  const move = (from, to) => {
    const length = Math.min(Math.max(to - from, 10), data.span);
    const start = Math.min(Math.max(from, whole.from), whole.to - length);
    shown = { from: start, to: start + length };
    draw();
  };
  const zoom = (factor, at) => {
    const middle = at === undefined ? (shown.from + shown.to) / 2 : at;
    move(middle - (middle - shown.from) * factor, middle + (shown.to - middle) * factor);
  };
  const pan = (share) => move(shown.from + share * (shown.to - shown.from), shown.to + share * (shown.to - shown.from));
  const actions = [
    ["Zoom in", "+", () => zoom(0.5)], ["Zoom out", "-", () => zoom(2)],
    ["Earlier", "ArrowLeft", () => pan(-0.25)], ["Later", "ArrowRight", () => pan(0.25)],
    ["Whole run", "0", () => move(whole.from, whole.to)],
  ];
  const controls = document.getElementById("controls");
  for (const [name, key, act] of actions) {
    const button = make("button", name, { type: "button", "aria-keyshortcuts": key });
    button.addEventListener("click", act);
    controls.append(button, " ");
  }
  controls.append("Keys on the timeline: + - 0 and arrows; a double click zooms in.");
  controls.hidden = false;
  const region = lanes.parentElement;
  region.addEventListener("keydown", (event) => {
    const found = actions.find(([, key]) => key === event.key || key === "+" && event.key === "=");
    if (!found || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    found[2]();
  });
  lanes.addEventListener("dblclick", (event) => {
    const box = lanes.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * (NAMES + WIDTH) - NAMES) / WIDTH;
    zoom(0.4, shown.from + share * (shown.to - shown.from));
  });
  draw();
})();
