// What is selected.

const pictures = DATA.pictures.map((data) => new Picture(data));
let selected = null, pointed = null;
const panels = [];
const insides = [];
const controls = {};
const same = (a, b) => a && b && a.p === b.p && a.cell === b.cell && a.slot === b.slot && String(a.element) === String(b.element);

function hover(target) {
  if (same(target, pointed) || (!target && !pointed)) return;
  pointed = target;
  show();
}

function pin(target) {
  selected = target;
  pointed = null;
  keepHash();
  show();
  if (target) reveal();
}

function reveal() {
  for (const panel of panels) {
    const [mark] = marks(panel.number);
    if (!mark) continue;
    if (panel instanceof Logical) mark.cell >= 0 && panel.reveal(panel.box(mark.cell));
    else if (mark.slots.length) panel.reveal(panel.box(mark.slots[0]));
    panel.draw();
  }
}

/** The cells of a target in its own picture: one, or those of a slot. */
function cellsOf({ p, cell, slot }) {
  if (cell !== undefined) return [cell];
  const held = pictures[p].slots[slot];
  return held === 0 ? [] : pictures[p].others.get(slot) || [Math.abs(held) - 1];
}

/** What is marked in a picture: a cell, its slots in all copies, and what it shares. */
function marks(number) {
  const out = [];
  for (const [target, colour] of [[pointed, theme.mark], [selected, theme.fg]]) {
    if (!target) continue;
    const own = target.p === number;
    const p = pictures[number];
    const [cell] = cellsOf(target);
    const range = cell === undefined ? null : pictures[target.p].range(cell);
    const here = own ? (cell === undefined ? -1 : cell) : range ? p.cellOf(range[0]) : -1;
    const at = (list) => (here < 0 ? [] : list.map((l) => l[here]).filter((b) => b >= 0));
    const slots = own && target.slot !== undefined ? [target.slot] : at(p.places).map((bit) => p.slotOf(div(bit / 8)));
    if (own && target.slot !== undefined) slots.push(...at(p.places).map((bit) => p.slotOf(div(bit / 8))));
    out.push({ cell: here, slots, shared: at(p.sharedBytes).map((b) => p.slotOf(b)), colour });
  }
  return out;
}

const hex = (n) => n.toString(16);

/** The terms of a target: names and values. */
function terms(number, target) {
  const p = pictures[number];
  const own = number === target.p;
  const out = [];
  const cells = cellsOf(target);
  const range = cells.length ? pictures[target.p].range(cells[0]) : null;
  const cell = own ? cells[0] : range ? p.cellOf(range[0]) : undefined;
  if (own && target.slot !== undefined) {
    out.push(...slotTerms(p, target.slot, cells));
    if (p.slots[target.slot] < 0 || cells.length > 1) return [...out, ...placeTerms(p, 8 * p.byteOf(target.slot), null)];
  }
  const here = cell === undefined || cell < 0 ? null : p.range(cell);
  if (!here) {
    if (target.slot !== undefined && own) return [...out, ...placeTerms(p, 8 * p.byteOf(target.slot), null)];
    return [...out, ["index", "padding"]];
  }
  const [first, last] = here;
  if (own && target.element) {
    const [bit, shared] = p.element(cell, target.element);
    const index = p.index(p.rowAt[div(cell / p.width)] + target.element[0], p.colAt[cell % p.width] + target.element[1]);
    return [["index", `[${index.join(", ")}]`], ...placeTerms(p, bit, shared === null ? null : shared % p.bufferBytes, true)];
  }
  out.unshift(["index", p.exact ? `[${first.join(", ")}]` : `[${first.map((a, d) => (a === last[d] ? a : `${a}..${last[d] + 1}`)).join(", ")}]`]);
  if (p.part.some((n, d) => n !== p.shape[d]) && p.exact) out.push(["index on the device", `[${first.map((i, d) => i % p.part[d]).join(", ")}]`]);
  const slotCopy = own && target.slot !== undefined ? p.places.findIndex((l) => p.slotOf(div(l[cell] / 8)) === target.slot) : 0;
  const copy = Math.max(0, slotCopy);
  const shared = p.sharedBytes.length && p.sharedBytes[copy].length ? p.sharedBytes[copy][cell] % p.bufferBytes : null;
  out.push(...placeTerms(p, p.places[copy][cell], shared).filter(([n]) => !out.some((t) => t[0] === n)));
  if (p.places.length > 1) {
    out.push(["copies", p.places.map((l) => `${div(l[cell] / 8 / p.bufferBytes)}:${div(l[cell] / 8) % p.bufferBytes}`).join("  ")]);
  }
  return out;
}

function slotTerms(p, slot, cells) {
  const held = p.slots[slot];
  if (held === 0) return [["holds", p.gap[slot] ? "nothing: zero between blocks" : `padding, filled with ${p.fill}`]];
  const list = cells.slice(0, 32).map((c) => `[${(p.range(c) || [[]])[0].join(", ")}]`).join(" ");
  if (held < 0) return [["holds", `exponent or scale of ${cells.length} elements`], ["elements", list]];
  return cells.length > 1 ? [["holds", `codes of ${cells.length} elements`], ["elements", list]] : [];
}

/** A place in the terms of the hardware: of an element, or of all of a larger cell. */
function placeTerms(p, bit, shared, element = p.exact) {
  const byte = div(bit / 8);
  const [buffer, inside] = [div(byte / p.bufferBytes), byte % p.bufferBytes];
  const out = [["buffer", buffer], ["byte", `${inside}`], ["offset", `0x${hex(inside)}`]];
  const code = p.exact ? p.cellBits : p.inside && p.inside.group ? p.inside.code : 8;
  if (element && code < 8) out.push(["bit", bit % 8]);
  if (shared !== null && shared >= 0) out.push(["shared byte", shared]);
  for (const [name, value] of p.names[buffer] || []) out.push([name, shown(value)]);
  const parts = p.parts(bit);
  const inner = p.divisions.map((d, k) => [d, parts[k]]).filter(([d, n]) => n !== undefined && !["device", "core", "bank", "buffer"].includes(d.name));
  for (const [d, n] of inner) if (element || d.bits >= p.cellBits) out.push([d.name, n]);
  if (p.deviceSize) {
    const size = p.deviceSize;
    let n = div(inside / Math.max(1, div(p.bufferBytes / size.reduce((a, b) => a * b, 1))));
    const at = size.map(() => 0);
    for (let d = size.length - 1; d >= 0; d--) (at[d] = n % size[d]), (n = div(n / size[d]));
    out.push(["device index", shown(at)]);
  }
  return out;
}

/** Whether a cell is faded: where only what moves is shown, those that stay. */
function fades(number, cell) {
  if (!controls.moves || !controls.moves.checked) return false;
  const [a, b] = pictures;
  if (!stays) {
    stays = new Set();
    a.places[0].forEach((bit, cell) => {
      if (bit < 0) return;
      const range = a.range(cell);
      const other = b.cellOf(range[0]);
      const [x, y] = [[div(bit / 8 / a.bufferBytes), bit % (8 * a.bufferBytes)], [div(b.places[0][other] / 8 / b.bufferBytes), b.places[0][other] % (8 * b.bufferBytes)]];
      if (x[0] === y[0] && (x[1] === y[1] || a.cellBits !== b.cellBits)) stays.add(`0/${cell}`), stays.add(`1/${other}`);
    });
  }
  return stays.has(`${number}/${cell}`);
}
let stays = null;

function show() {
  panels.forEach((panel) => panel.draw());
  insides.forEach((inside) => inside.draw());
  const info = document.getElementById("info");
  info.textContent = "";
  const target = pointed || selected;
  if (!target) return void info.append(make("p", {}, "Point at a cell or a byte, or move with the arrow keys; a click keeps it."));
  for (const n of pictures.keys()) {
    const list = make("dl", { "data-picture": n });
    if (pictures.length > 1) list.append(pair("in", n ? "to" : "from"));
    for (const [name, value] of terms(n, target)) list.append(pair(name, value));
    info.append(list);
  }
}

function pair(name, value) {
  const box = make("div");
  box.append(make("dt", {}, name), make("dd", { "data-term": name }, String(value)));
  return box;
}
