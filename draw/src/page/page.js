// The page.

function make(name, attributes = {}, text) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function choice(name, label, options) {
  const box = make("label", {}, label);
  const select = make("select", { id: name });
  for (const [value, words] of options) select.append(make("option", { value }, words));
  box.append(select);
  return (controls[name] = select), box;
}

function recolour() {
  const name = controls.colour.value;
  for (const p of pictures) {
    const level = p.divisions.findIndex((d) => d.name === name);
    p.colourBy(name === "auto" || level < 0 ? (p.coloured.length ? p.coloured[0] : -1) : level);
  }
  legends();
}

function legends() {
  pictures.forEach((p, n) => {
    const list = document.getElementById(`legend${n}`);
    list.textContent = "";
    const add = (fill, words) => {
      const item = make("li");
      const sample = make("i");
      sample.style.background = fill;
      item.append(sample, words);
      list.append(item);
    };
    let more = 0;
    const many = p.levels.length && p.count(p.levels[0]) > MANY;
    if (many) HUES.forEach((_, k) => add(theme.tints[4 * k], k ? "" : "from the first seventh of the memory"));
    if (many) list.append(make("li", {}, "to the last"));
    for (const bit of many ? [] : p.boxes.keys()) {
      if (list.children.length < 16) add(theme.tints[p.tint(bit) & ~3], p.ownerName(bit));
      else more++;
    }
    if (more) list.append(make("li", {}, `and ${p.boxes.size < 512 ? more : "many"} others`));
    if (p.sharedBytes.some((s) => s.length)) add(theme.shared[0], "exponents or scales");
    if (p.padding) add(`url(${theme.hatch.toDataURL()})`, `padding, filled with ${p.fill}`);
    if (p.gaps.length) add(theme.gap, "gap, zero");
  });
}

function bar() {
  const box = make("form", { class: "bar", role: "search" });
  const find = make("label", {}, "find");
  controls.search = make("input", { id: "search", placeholder: "1,1,6,100 or 2:0x440", autocomplete: "off", "aria-label": "an index, or BUFFER:BYTE" });
  find.append(controls.search);
  const owners = [...new Set(pictures.flatMap((p) => p.coloured.map((l) => p.divisions[l].name)))];
  const zoom = make("label", {}, "zoom");
  for (const [words, title, factor] of [["\u2212", "smaller", 0.667], ["+", "larger", 1.5], ["fit", "all of it", 0]]) {
    const button = make("button", { type: "button", title, "aria-label": title }, words);
    button.addEventListener("click", () => {
      panels.forEach((panel) => (factor ? panel.zoomBy(factor) : ((panel.zoom = 1), panel.layout(), panel.draw())));
      keepHash();
      if (selected) reveal();
    });
    zoom.append(button);
  }
  box.append(find, choice("colour", "colour by", [["auto", "outermost owner"], ...owners.map((o) => [o, o])]));
  box.append(choice("label", "cells say", [["owner", "owner"], ["index", "index"], ["byte", "byte (hex)"]]), zoom);
  if (pictures.length > 1 && pictures.every((p) => p.exact)) {
    const moves = make("label", {}, "only what changes buffer");
    controls.moves = make("input", { type: "checkbox", id: "moves", style: "width:auto" });
    moves.prepend(controls.moves);
    controls.moves.addEventListener("change", () => panels.forEach((panel) => panel.draw()));
    box.append(moves);
  }
  box.append(make("span", { id: "said", role: "status" }));
  box.addEventListener("submit", (e) => (e.preventDefault(), search(controls.search.value)));
  controls.colour.addEventListener("change", () => (recolour(), keepHash(), show()));
  controls.label.addEventListener("change", () => (keepHash(), show()));
  return box;
}

function view(p, n) {
  const box = make("section");
  if (pictures.length > 1) box.append(make("h3", {}, n ? "to" : "from"), make("h2", {}, p.title), make("p", {}, `${p.summary}. ${p.totals}.`));
  const pair = make("div", { class: "panels" });
  const [rows, cols] = p.cell;
  const what = p.exact ? "logical: each cell is an element" : `logical: each cell is a ${p.unit} of ${rows} x ${cols}`;
  const logical = new Logical(p, n, what);
  const memory = new Memory(p, n, `memory: lines of ${p.line} bytes, offsets in hexadecimal`);
  panels.push(logical, memory);
  pair.append(logical.figure, memory.figure);
  if (!p.exact && !p.inside) box.append(make("p", {}, `The tensor is too large for single elements here: tilewright locate --index says where one of them lies.`));
  box.append(pair, make("ul", { class: "legend", id: `legend${n}` }));
  if (p.inside) {
    const inside = new Inside(p, n);
    insides.push(inside);
    box.append(inside.figure);
  }
  return box;
}

function table(head, rows) {
  const box = make("div", { class: "scrolls", tabindex: "0" });
  const element = make("table");
  const line = (cells, kind) => {
    const row = make("tr");
    for (const cell of cells) row.append(make(kind, {}, String(cell)));
    element.append(row);
  };
  line(head, "th");
  rows.forEach((row) => line(row, "td"));
  box.append(element);
  return box;
}

function plan() {
  const box = make("section", { id: "plan" });
  const { strip, moves } = DATA;
  if (moves) {
    const percent = (n) => `${n} (${((100 * n) / Math.max(1, moves.lookedAt)).toFixed(1)} %)`;
    const looked = moves.lookedAt < moves.elements ? ` of ${moves.lookedAt} of ${moves.elements} elements looked at` : "";
    box.append(make("h3", {}, "what moves"), make("p", {}, `Elements${looked}: ${percent(moves.stay)} keep their byte, ${percent(moves.inside)} move inside of their buffer, ${percent(moves.across)} change the buffer.`));
    const [a, b] = pictures;
    if (moves.pairs.length) box.append(table(["from", "to", "elements"], moves.pairs.map(([x, y, n]) => [a.bufferName(x), b.bufferName(y), n])));
  }
  if (strip) {
    box.append(make("h3", {}, "plan"), make("p", {}, strip.totals));
    box.append(table(["nest: loops outermost first, with steps in bytes, destination <- source", "schedule and kernels"], strip.nests));
    if (strip.more) box.append(make("p", {}, `and ${strip.more} more nests`));
  }
  const last = pictures[pictures.length - 1];
  if (last.runs.length) {
    box.append(make("h3", {}, "runs"), make("p", {}, "Read in logical order, the elements lie in these runs of consecutive bytes:"));
    box.append(table(["bytes", "runs"], last.runs));
  }
  return box;
}

function start() {
  readTheme();
  const last = pictures[pictures.length - 1];
  const head = make("header");
  if (pictures.length > 1) head.append(make("h1", {}, "two layouts of one tensor"));
  else head.append(make("h2", {}, last.title), make("p", {}, `${last.summary}. ${last.totals}.`));
  const main = make("main", pictures.length > 1 ? { class: "two" } : {});
  document.body.append(head, bar(), main);
  pictures.forEach((p, n) => main.append(view(p, n)));
  const keys = make("footer");
  keys.append(make("p", {}, "Keys: arrows move in the panel that has the focus, / searches, + and - zoom, Escape lets go. The address keeps the view."));
  document.body.append(plan(), keys, make("div", { id: "info", role: "status", "aria-live": "polite" }));
  readHash();
  addEventListener("hashchange", readHash);
  const again = () => (panels.forEach((panel) => panel.layout()), show());
  addEventListener("resize", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (readTheme(), legends(), again()));
  addEventListener("keydown", (e) => {
    if (e.target.matches("input, select") && e.key !== "Escape") return;
    if (e.key === "/") e.preventDefault(), controls.search.focus();
    if (e.key === "Escape") pin(null), e.target.blur && e.target.blur();
    if (e.key === "+" || e.key === "-") panels.forEach((panel) => panel.zoomBy(e.key === "+" ? 1.25 : 0.8)), keepHash();
  });
  document.documentElement.dataset.ready = "yes";
}

/** For tests: scrolls the cell of an index into view and says where it is on the screen. */
function pointOf(number, kind, index) {
  const p = pictures[number];
  const panel = panels[2 * number + (kind === "memory" ? 1 : 0)];
  const cell = p.cellOf(index);
  const box = panel.box(kind === "memory" ? p.slotOf(div(p.places[0][cell] / 8)) : cell);
  panel.reveal(box);
  panel.scroll.scrollIntoView({ block: "center" });
  const at = panel.canvas.getBoundingClientRect();
  return [at.left + box[0] - panel.scroll.scrollLeft + box[2] / 2, at.top + box[1] - panel.scroll.scrollTop + box[3] / 2];
}

start();
