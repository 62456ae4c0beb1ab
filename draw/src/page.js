"use strict";
// Shows the pictures in #data: a logical panel and a memory panel for each layout, linked by logical index.

const DATA = JSON.parse(document.getElementById("data").textContent);
// The colours of Okabe and Ito, which readers of all kinds of sight tell apart.
const HUES = ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"];
const PADDING = 255;
// More owners than this are not told apart by colours.
const MANY = 64;
const div = Math.floor;

// ---------------------------------------------------------------- what a picture says

/** One layout: expanded from the progressions of the data. */
class Picture {
  constructor(data) {
    Object.assign(this, data);
    [this.rowAt, this.rowLen] = lines(data.rows);
    [this.colAt, this.colLen] = lines(data.cols);
    [this.rowHeld, this.colHeld] = [held(this.rowAt), held(this.colAt)];
    this.height = this.rowAt.length;
    this.width = this.colAt.length;
    this.places = data.copies.map(expand);
    this.sharedBytes = data.shared.map(expand);
    this.exact = this.unit === "element";
    this.bufferSlots = Math.max(1, Math.ceil(this.bufferBytes / this.slot));
    this.lineSlots = Math.max(1, div(this.line / this.slot));
    this.bufferLines = Math.ceil(this.bufferSlots / this.lineSlots);
    this.logicalCols = this.shape.length ? this.shape[this.shape.length - 1] : 1;
    this.fillSlots();
    this.colourBy(this.coloured.length ? this.coloured[0] : -1);
  }

  /** What each slot holds: cell + 1, or -(cell + 1) for what cells share, 0 for padding; gaps apart. */
  fillSlots() {
    const count = this.bufferSlots * this.buffers;
    this.slots = new Int32Array(count);
    this.gap = new Uint8Array(count);
    this.others = new Map();
    for (let i = 0; i < this.gaps.length; i += 2) this.gap.fill(1, this.gaps[i], this.gaps[i] + this.gaps[i + 1]);
    const slots = Math.max(1, Math.ceil(this.cellBits / 8 / this.slot));
    for (const place of this.places) {
      for (let cell = 0; cell < place.length; cell++) {
        if (place[cell] < 0) continue;
        const first = this.slotOf(div(place[cell] / 8));
        for (let s = first; s < Math.min(first + slots, count); s++) {
          if (this.slots[s] > 0) this.others.set(s, [...(this.others.get(s) || [this.slots[s] - 1]), cell]);
          else this.slots[s] = cell + 1;
        }
      }
    }
    for (const shared of this.sharedBytes) {
      for (let cell = 0; cell < shared.length; cell++) {
        if (shared[cell] < 0) continue;
        const s = this.slotOf(shared[cell]);
        if (this.slots[s] < 0) this.others.set(s, [...(this.others.get(s) || [-this.slots[s] - 1]), cell]);
        else this.slots[s] = -(cell + 1);
        this.gap[s] = 0;
      }
    }
  }

  slotOf(byte) {
    return div(byte / this.bufferBytes) * this.bufferSlots + div((byte % this.bufferBytes) / this.slot);
  }

  byteOf(slot) {
    return div(slot / this.bufferSlots) * this.bufferBytes + (slot % this.bufferSlots) * this.slot;
  }

  /** The number of each part that a bit lies in, the greatest part first. */
  parts(bit) {
    const parts = [];
    for (const { bits, header } of this.divisions) {
      bit -= header;
      if (bit < 0) break;
      parts.push(div(bit / bits));
      bit %= bits;
    }
    return parts;
  }

  /** Where the part of a level begins that a bit lies in: one number for each owner. */
  owner(bit, level) {
    let at = 0;
    for (let k = 0; k <= level && k < this.divisions.length; k++) {
      const { bits, header } = this.divisions[k];
      const rest = bit - at - header;
      if (rest < 0) break;
      at += header + div(rest / bits) * bits;
    }
    return at;
  }

  /** Colours by an owner, and shades by the owners inside of it. */
  colourBy(level) {
    this.levels = level < 0 ? [] : [level, ...this.coloured.filter((l) => l > level)].slice(0, 3);
    this.tints = new Uint8Array(this.height * this.width).fill(PADDING);
    this.owners = this.levels.map(() => new Float64Array(this.height * this.width).fill(-1));
    this.boxes = new Map();
    this.brackets = null;
    const first = this.places[0] || [];
    for (let cell = 0; cell < first.length; cell++) {
      if (first[cell] < 0) continue;
      this.tints[cell] = this.tint(first[cell]);
      this.levels.forEach((l, k) => (this.owners[k][cell] = this.owner(first[cell], l)));
      if (this.levels.length) this.widen(this.owners[0][cell], cell);
    }
    this.run = this.owners.map((own) => this.extent(own));
  }

  /** How many columns and rows of cells an owner has on average before another one follows. */
  extent(own) {
    let [across, down] = [1, 1];
    for (let cell = 0; cell < own.length; cell++) {
      if (own[cell] !== own[cell + 1]) across++;
      if (own[cell] !== own[cell + this.width]) down++;
    }
    return [own.length / across, own.length / down];
  }

  widen(owner, cell) {
    const [r, c] = [div(cell / this.width), cell % this.width];
    const box = this.boxes.get(owner);
    if (!box) return void (this.boxes.size < 512 && this.boxes.set(owner, [r, c, r, c, 1]));
    box[4]++;
    box[0] = Math.min(box[0], r), box[1] = Math.min(box[1], c), box[2] = Math.max(box[2], r), box[3] = Math.max(box[3], c);
  }

  tint(bit) {
    const parts = this.parts(bit);
    const square = (k) => {
      const l = this.levels[k];
      if (l === undefined || parts[l] === undefined) return null;
      const wrap = this.divisions[l].wrap;
      return [div(parts[l] / wrap), parts[l] % wrap];
    };
    const [a, b, c] = [square(0), square(1), square(2)];
    const parity = (s) => (s ? (s[0] + s[1]) % 2 : 0);
    // Of very many owners, one colour for each seventh of the memory.
    const count = this.levels.length ? this.count(this.levels[0]) : 0;
    if (a && count > MANY) {
      const [n, wrap] = [parts[this.levels[0]], this.divisions[this.levels[0]].wrap];
      return Math.min(HUES.length - 1, div((HUES.length * n) / count)) * 4 + 2 * ((wrap > 1 ? n % wrap : n) % 2) + parity(b);
    }
    return (a ? (a[1] + 3 * a[0]) % HUES.length : 0) * 4 + 2 * parity(b) + parity(c);
  }

  /** How many parts of a level there are in all memory. */
  count(level) {
    return div((8 * this.buffers * this.bufferBytes) / this.divisions[level].bits);
  }

  /** The cell that holds a logical index; -1 outside of the shape. */
  cellOf(index) {
    if (index.length !== this.shape.length || index.some((i, d) => !(i >= 0 && i < this.shape[d]))) return -1;
    let row = 0;
    for (let d = 0; d + 1 < index.length; d++) row = row * this.shape[d] + index[d];
    return find(this.rowAt, this.rowHeld, row) * this.width + find(this.colAt, this.colHeld, index.length ? index[index.length - 1] : 0);
  }

  /** The first and the last logical index of a cell; null in padding. */
  range(cell) {
    const [r, c] = [div(cell / this.width), cell % this.width];
    if (cell < 0 || !(this.rowAt[r] >= 0 && this.colAt[c] >= 0)) return null;
    return [this.index(this.rowAt[r], this.colAt[c]), this.index(this.rowAt[r] + this.rowLen[r] - 1, this.colAt[c] + this.colLen[c] - 1)];
  }

  index(row, col) {
    const index = this.shape.map(() => 0);
    if (index.length) index[index.length - 1] = col;
    for (let d = index.length - 2; d >= 0; d--) (index[d] = row % this.shape[d]), (row = div(row / this.shape[d]));
    return index;
  }

  /** What a buffer is; if it is to be `short`, without its virtual core and its chip. */
  bufferName(buffer, short) {
    const terms = this.names[buffer];
    const said = (name) => (terms || []).find(([n]) => n === name);
    if (short && said("y")) return `y${said("y")[1]} x${said("x")[1]}`;
    return terms && terms.length ? terms.map(([n, v]) => `${n} ${shown(v)}`).join(" ") : `buffer ${buffer}`;
  }

  ownerName(bit) {
    const [level] = this.levels;
    if (level === undefined) return "";
    const d = this.divisions[level];
    if (d.bits === 8 * this.bufferBytes && d.name === "core" && shortName(this.names[div(bit / d.bits)], "y")) return this.bufferName(div(bit / d.bits), true);
    if (d.bits === 8 * this.bufferBytes) return shortName(this.names[div(bit / d.bits)], d.name) || `${d.name} ${div(bit / d.bits)}`;
    if (d.name === "device") return shortName(this.names[div(bit / 8 / this.bufferBytes)], "device") || "device";
    return `${d.name} ${this.parts(bit)[level]}`;
  }
}

const shortName = (terms, name) => {
  const term = (terms || []).find(([n]) => n === name);
  return term && `${name} ${shown(term[1])}`;
};
const shown = (v) => (Array.isArray(v) ? `(${v.join(", ")})` : String(v));

/** Progressions (first, step, count) as numbers, -1 for none. */
function expand(runs) {
  let count = 0;
  for (let i = 2; i < runs.length; i += 3) count += runs[i];
  const out = new Float64Array(count);
  for (let i = 0, at = 0; i < runs.length; i += 3) {
    for (let k = 0; k < runs[i + 2]; k++) out[at++] = runs[i] < 0 ? -1 : runs[i] + k * runs[i + 1];
  }
  return out;
}

/** Progressions (first, length, count) as the begin and the length of each line. */
function lines(runs) {
  const [at, len] = [[], []];
  for (let i = 0; i < runs.length; i += 3) {
    for (let k = 0; k < runs[i + 2]; k++) at.push(runs[i] < 0 ? -1 : runs[i] + k * runs[i + 1]), len.push(runs[i + 1]);
  }
  return [at, len];
}

/** The lines that are no padding. */
const held = (at) => [...at.keys()].filter((i) => at[i] >= 0);

/** The line that holds a number: of the `held` ones, the last that begins at or before it. */
function find(at, held, n) {
  let [lo, hi] = [0, held.length - 1];
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (at[held[mid]] > n) hi = mid - 1;
    else lo = mid;
  }
  return held[lo];
}

// ---------------------------------------------------------------- colours

let theme = {};
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  theme = { bg: get("--bg"), fg: get("--fg"), note: get("--note"), line: get("--line"), gap: get("--gap"), mark: get("--mark") };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const weights = dark ? [0.92, 0.76, 0.58, 0.44] : [0.88, 0.72, 0.52, 0.38];
  theme.tints = HUES.flatMap((hue) => weights.map((w) => mix(hue, theme.bg, w)));
  theme.shared = HUES.map((hue) => mix(hue, dark ? "#0d1117" : "#000000", dark ? 0.35 : 0.6));
  theme.ink = theme.tints.map((tint) => (bright(tint) > 0.5 ? "#111418" : "#ffffff"));
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const g = tile.getContext("2d");
  g.fillStyle = get("--void"), g.fillRect(0, 0, 8, 8);
  g.strokeStyle = get("--hatch"), g.lineWidth = 1.2, g.beginPath();
  for (const k of [-8, 0, 8]) g.moveTo(k, 8), g.lineTo(k + 8, 0);
  g.stroke();
  theme.hatch = tile;
}
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
function mix(a, b, t) {
  const [x, y] = [channels(a), channels(b)];
  return "#" + x.map((v, i) => Math.round(v * t + y[i] * (1 - t)).toString(16).padStart(2, "0")).join("");
}
const bright = (hex) => channels(hex).reduce((s, v, i) => s + (v / 255) * [0.3, 0.59, 0.11][i], 0);

// ---------------------------------------------------------------- panels

/** A canvas that draws the visible part of something larger, which its parent scrolls. */
class Panel {
  constructor(picture, number, caption) {
    Object.assign(this, { picture, number, zoom: 1 });
    this.figure = make("figure");
    this.caption = make("figcaption", {}, caption);
    this.scroll = make("div", { class: "scroll", tabindex: "0", role: "application", "aria-label": caption });
    this.canvas = make("canvas");
    this.space = make("div", { class: "space" });
    this.scroll.append(this.canvas, this.space);
    this.figure.append(this.caption, this.scroll);
    this.scroll.addEventListener("scroll", () => this.draw());
    this.canvas.addEventListener("mousemove", (e) => this.pointed(e, false));
    this.canvas.addEventListener("click", (e) => this.pointed(e, true));
    this.canvas.addEventListener("mouseleave", () => hover(null));
    this.scroll.addEventListener("keydown", (e) => this.key(e));
    this.scroll.addEventListener("wheel", (e) => e.ctrlKey && (e.preventDefault(), this.zoomBy(e.deltaY < 0 ? 1.25 : 0.8)), { passive: false });
  }

  zoomBy(factor) {
    const { scrollLeft: x, scrollTop: y, clientWidth: w, clientHeight: h } = this.scroll;
    const before = this.zoom;
    this.zoom = Math.min(40, Math.max(1, this.zoom * factor));
    const by = this.zoom / before;
    this.layout();
    this.scroll.scrollTo((x + w / 2) * by - w / 2, (y + h / 2) * by - h / 2);
    this.draw();
  }

  layout() {
    const { clientWidth: w, clientHeight: h } = this.scroll;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = w * ratio, this.canvas.height = h * ratio;
    this.canvas.style.width = `${w}px`, this.canvas.style.height = `${h}px`;
    this.view = [w, h];
    this.measure(w, h);
    this.space.style.width = `${this.size[0]}px`, this.space.style.height = `${Math.ceil(this.size[1])}px`;
  }

  draw() {
    if (!this.view) return;
    const g = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    const [x, y] = [this.scroll.scrollLeft, this.scroll.scrollTop];
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = theme.bg, g.fillRect(0, 0, ...this.view);
    this.pattern = g.createPattern(theme.hatch, "repeat");
    this.pattern.setTransform(new DOMMatrix().translate(-x % 8, -y % 8));
    g.translate(-x, -y);
    g.font = "10px ui-monospace, monospace";
    this.paint(g, x, y, x + this.view[0], y + this.view[1]);
  }

  pointed(event, pinned) {
    const box = this.canvas.getBoundingClientRect();
    const at = this.hit(event.clientX - box.left + this.scroll.scrollLeft, event.clientY - box.top + this.scroll.scrollTop);
    const target = at === null ? null : { p: this.number, ...at };
    if (pinned) pin(target && selected && same(target, selected) ? null : target);
    else hover(target);
  }

  /** Scrolls until a box is inside of the view. */
  reveal([x, y, w, h]) {
    const s = this.scroll;
    const [vw, vh] = this.view;
    const m = 30;
    if (x < s.scrollLeft + m || x + w > s.scrollLeft + vw - m) s.scrollLeft = Math.max(0, x + w / 2 - vw / 2);
    if (y < s.scrollTop + m || y + h > s.scrollTop + vh - m) s.scrollTop = Math.max(0, y + h / 2 - vh / 2);
  }

  outline(g, [x, y, w, h], colour, dashed) {
    const [ow, oh] = [Math.max(w, 6), Math.max(h, 6)];
    const box = [x + w / 2 - ow / 2 - 1, y + h / 2 - oh / 2 - 1, ow + 2, oh + 2];
    g.setLineDash(dashed ? [3, 2] : []);
    g.lineWidth = 5, g.strokeStyle = theme.bg, g.strokeRect(...box);
    g.lineWidth = 2.5, g.strokeStyle = colour, g.strokeRect(...box);
    g.setLineDash([]);
  }

  label(g, words, x, y, ink, align = "center") {
    g.textAlign = align, g.textBaseline = "middle";
    g.lineWidth = 3, g.strokeStyle = theme.bg, g.lineJoin = "round";
    g.strokeText(words, x, y);
    g.fillStyle = ink || theme.fg, g.fillText(words, x, y);
  }
}

class Logical extends Panel {
  /** A name on a ground of its own. */
  tag(g, words, x, y) {
    g.globalAlpha = 0.85, g.fillStyle = theme.bg, g.fillRect(x, y, 6.1 * words.length + 6, 13), (g.globalAlpha = 1);
    g.textAlign = "left", g.textBaseline = "middle", g.fillStyle = theme.fg;
    g.fillText(words, x + 3, y + 7);
  }

  measure(w, h) {
    const p = this.picture;
    const deep = p.shape.slice(0, -2).filter((n) => n > 1).length;
    this.left = 62 + 46 * deep, this.top = 24;
    const [tall, wide] = p.cell;
    const fit = Math.min((w - this.left - 16) / (p.width * wide), (h - this.top - 16) / (p.height * tall), 22 / Math.min(tall, wide));
    const least = (count, unit, room) => Math.max(unit * fit, Math.min(room / count, Math.max(3, Math.min(30, 220 / count))));
    this.cw = least(p.width, wide, w - this.left - 16) * this.zoom;
    this.ch = least(p.height, tall, h - this.top - 16) * this.zoom;
    this.size = [this.left + p.width * this.cw + 14, this.top + p.height * this.ch + 14];
  }

  box(cell) {
    const p = this.picture;
    return [this.left + (cell % p.width) * this.cw, this.top + div(cell / p.width) * this.ch, this.cw, this.ch];
  }

  hit(x, y) {
    const [c, r] = [div((x - this.left) / this.cw), div((y - this.top) / this.ch)];
    return r >= 0 && c >= 0 && r < this.picture.height && c < this.picture.width ? { cell: r * this.picture.width + c } : null;
  }

  paint(g, x0, y0, x1, y1) {
    const { picture: p, cw, ch, left, top } = this;
    const [r0, r1] = [Math.max(0, div((y0 - top) / ch)), Math.min(p.height, Math.ceil((y1 - top) / ch))];
    const [c0, c1] = [Math.max(0, div((x0 - left) / cw)), Math.min(p.width, Math.ceil((x1 - left) / cw))];
    for (let r = r0; r < r1; r++) {
      for (let c = c0; c < c1; ) {
        // A run of one tint.
        const [tint, faded] = [p.tints[r * p.width + c], fades(this.number, r * p.width + c)];
        let end = c + 1;
        while (end < c1 && p.tints[r * p.width + end] === tint && fades(this.number, r * p.width + end) === faded) end++;
        g.globalAlpha = faded ? 0.18 : 1;
        g.fillStyle = tint === PADDING ? this.pattern : theme.tints[tint];
        // On whole pixels, so that no seams shine through.
        const [x, y] = [Math.round(left + c * cw), Math.round(top + r * ch)];
        g.fillRect(x, y, Math.round(left + end * cw) - x, Math.max(1, Math.round(top + (r + 1) * ch) - y));
        c = end;
      }
    }
    g.globalAlpha = 1;
    this.partly(g, [r0, r1, c0, c1]);
    this.edges(g, [r0, r1, c0, c1]);
    this.words(g, [r0, r1, c0, c1]);
    this.brackets(g, x0, y0, x1, y1);
    for (const { cell, colour } of marks(this.number)) if (cell >= 0) this.outline(g, this.box(cell), colour);
  }

  /** Hatches the part of larger cells that is padding: the end of a stick, of a tile. */
  partly(g, [r0, r1, c0, c1]) {
    const { picture: p, cw, ch, left, top } = this;
    const [tall, wide] = p.cell;
    g.fillStyle = this.pattern;
    for (let c = c0; c < c1; c++) {
      const free = p.colAt[c] < 0 ? 0 : 1 - p.colLen[c] / wide;
      if (free > 0) g.fillRect(left + (c + 1 - free) * cw, top + r0 * ch, free * cw, (r1 - r0) * ch);
    }
    for (let r = r0; r < r1; r++) {
      const free = p.rowAt[r] < 0 ? 0 : 1 - p.rowLen[r] / tall;
      if (free > 0) g.fillRect(left + c0 * cw, top + (r + 1 - free) * ch, (c1 - c0) * cw, free * ch);
    }
  }

  edges(g, [r0, r1, c0, c1]) {
    const { picture: p, cw, ch, left, top } = this;
    const small = Math.min(cw, ch);
    if (small >= 6) this.stroke(g, (a, b) => a !== b, [r0, r1, c0, c1], 0.35, 0.25);
    for (let k = p.owners.length - 1; k >= 0; k--) {
      if (k === 2 && small < 2) continue;
      const own = p.owners[k];
      const room = Math.min(p.run[k][0] * cw, p.run[k][1] * ch);
      if (room < 2.5) continue;
      this.stroke(g, (a, b) => own[a] !== own[b], [r0, r1, c0, c1], Math.min([2, 1, 0.6][k], room / 8), [1, 0.8, 0.5][k]);
    }
    g.lineWidth = 1.5, g.strokeStyle = theme.fg;
    g.strokeRect(left, top, p.width * cw, p.height * ch);
  }

  stroke(g, differ, [r0, r1, c0, c1], width, alpha) {
    const { picture: p, cw, ch, left, top } = this;
    g.beginPath();
    for (let r = r0; r < r1; r++) {
      for (let c = c0; c < c1; c++) {
        const cell = r * p.width + c;
        if (c + 1 < p.width && differ(cell, cell + 1)) g.moveTo(left + (c + 1) * cw, top + r * ch), g.lineTo(left + (c + 1) * cw, top + (r + 1) * ch);
        if (r + 1 < p.height && differ(cell, cell + p.width)) g.moveTo(left + c * cw, top + (r + 1) * ch), g.lineTo(left + (c + 1) * cw, top + (r + 1) * ch);
      }
    }
    g.lineWidth = width, g.globalAlpha = alpha, g.strokeStyle = theme.fg;
    g.stroke();
    g.globalAlpha = 1;
  }

  /** Names of owners, or what each cell is asked to say. */
  words(g, [r0, r1, c0, c1]) {
    const { picture: p, cw, ch } = this;
    const what = controls.label.value;
    if (what === "owner") {
      for (const [bit, [a, b, c, d, count]] of p.boxes) {
        // A name stands where an owner has a place of its own.
        if (count < 0.7 * (d - b + 1) * (c - a + 1)) continue;
        const [w, h] = [(d - b + 1) * cw, (c - a + 1) * ch];
        const full = p.ownerName(bit);
        const name = w > 6.2 * full.length + 8 ? full : full.replace(/^[a-z]+ /, "");
        if (w > 6.2 * name.length + 6 && h > 14) this.tag(g, name, this.left + b * cw + 3, this.top + a * ch + 3);
      }
      return;
    }
    for (let r = r0; r < r1; r++) {
      for (let c = c0; c < c1; c++) {
        const cell = r * p.width + c;
        if (p.tints[cell] === PADDING) continue;
        const bit = p.places[0][cell];
        const words = what === "index" ? p.range(cell)[0].join(",") : hex(div(bit / 8) % p.bufferBytes);
        if (cw < 6.2 * words.length || ch < 11) continue;
        g.textAlign = "center", g.textBaseline = "middle", g.fillStyle = theme.ink[p.tints[cell]];
        g.fillText(words, this.left + (c + 0.5) * cw, this.top + (r + 0.5) * ch);
      }
    }
  }

  /** Index ranges of owners along both sides, and of the outer dimensions. They stay in view. */
  brackets(g, x0, y0, x1, y1) {
    const { picture: p, cw, ch, left, top } = this;
    g.fillStyle = theme.bg, g.fillRect(x0, y0, x1 - x0, top - 2), g.fillRect(x0, y0, left - 2, y1 - y0);
    const { cols, rows, whole } = ranges(p);
    const thin = (list, count, size) => ((count * size) / list.length < 9 ? null : list);
    g.strokeStyle = theme.note, g.lineWidth = 1;
    const say = (words, x, y, align) => ((g.fillStyle = theme.note), (g.textAlign = align), (g.textBaseline = "middle"), g.fillText(words, x, y));
    for (const [a, b, words] of thin(cols, p.width, cw) || whole.cols) {
      const [u, v] = [left + a * cw + 1, left + b * cw - 1];
      if (v < x0 + left || u > x1) continue;
      const w = Math.max(u, x0 + left);
      g.beginPath(), g.moveTo(w, y0 + top - 3), g.lineTo(w, y0 + top - 7), g.lineTo(v, y0 + top - 7), g.lineTo(v, y0 + top - 3), g.stroke();
      if (v - w > 6.1 * words.length) say(words, (w + Math.min(v, x1)) / 2, y0 + top - 14, "center");
    }
    const side = (list, x, from) => {
      for (const [a, b, words] of list) {
        const [u, v] = [top + a * ch + 1, top + b * ch - 1];
        if (v < y0 + top || u > y1) continue;
        const w = Math.max(u, y0 + top);
        g.beginPath(), g.moveTo(x0 + x, w), g.lineTo(x0 + x - 4, w), g.lineTo(x0 + x - 4, v), g.lineTo(x0 + x, v), g.stroke();
        if (v - w > 10) say(words, x0 + x - 7, (w + Math.min(v, y1)) / 2, "right");
      }
    };
    side(thin(rows[0], p.height, ch) || whole.rows, left - 3);
    rows.slice(1).forEach((list, k) => thin(list, p.height, ch) && side(list, left - 60 - 46 * k));
    g.fillStyle = theme.bg, g.fillRect(x0, y0, left - 4, top - 4);
  }

  key(event) {
    const p = this.picture;
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-16, 0], PageDown: [16, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const at = marks(this.number).find((m) => m.cell >= 0);
    const cell = at ? at.cell : -1;
    const r = cell < 0 ? 0 : Math.min(p.height - 1, Math.max(0, div(cell / p.width) + move[0]));
    const c = cell < 0 ? 0 : Math.min(p.width - 1, Math.max(0, (cell % p.width) + move[1]));
    pin({ p: this.number, cell: r * p.width + c });
  }
}

class Memory extends Panel {
  measure(w) {
    const p = this.picture;
    this.gutter = 14 + 7 * Math.max(3, hex(Math.max(0, p.bufferBytes - 1)).length);
    const wrap = p.buffers > 1 ? Math.max(1, (p.divisions.find((d) => d.bits === 8 * p.bufferBytes) || { wrap: 1 }).wrap) : 1;
    const room = (columns) => (w - 12) / columns - this.gutter - 14;
    // As many buffers side by side as the grid has, where slots stay wide enough to be seen.
    let columns = Math.min(wrap, p.buffers);
    while (columns > 1 && (room(columns) / p.lineSlots < 3.4 || wrap % columns)) columns--;
    if (wrap === 1) while (columns < Math.min(p.buffers, 8) && room(columns + 1) / p.lineSlots >= 9) columns++;
    this.columns = columns;
    this.sw = Math.max(3, Math.min(26, room(columns) / p.lineSlots)) * this.zoom;
    this.sh = Math.max(8, Math.min(14, this.sw)) * (this.zoom > 3 ? this.zoom / 3 : 1);
    this.bw = this.gutter + p.lineSlots * this.sw + 14;
    this.bh = 20 + p.bufferLines * this.sh + 10;
    this.size = [this.columns * this.bw + 12, Math.ceil(p.buffers / this.columns) * this.bh + 8];
  }

  box(slot) {
    const p = this.picture;
    const [buffer, inside] = [div(slot / p.bufferSlots), slot % p.bufferSlots];
    const [x, y] = [(buffer % this.columns) * this.bw + this.gutter, div(buffer / this.columns) * this.bh + 20];
    return [x + (inside % p.lineSlots) * this.sw, y + div(inside / p.lineSlots) * this.sh, this.sw, this.sh];
  }

  hit(x, y) {
    const p = this.picture;
    const [bx, by] = [div(x / this.bw), div(y / this.bh)];
    const buffer = by * this.columns + bx;
    const [c, r] = [div((x - bx * this.bw - this.gutter) / this.sw), div((y - by * this.bh - 20) / this.sh)];
    const inside = r * p.lineSlots + c;
    if (bx >= this.columns || buffer >= p.buffers || c < 0 || c >= p.lineSlots || r < 0 || inside >= p.bufferSlots) return null;
    return { slot: buffer * p.bufferSlots + inside };
  }

  paint(g, x0, y0, x1, y1) {
    const p = this.picture;
    const first = Math.max(0, div(y0 / this.bh)) * this.columns;
    const last = Math.min(p.buffers, (div(y1 / this.bh) + 1) * this.columns);
    for (let b = first; b < last; b++) this.buffer(g, b, y0, y1);
    for (const { slots, shared, colour } of marks(this.number)) {
      for (const s of shared) this.outline(g, this.box(s), colour, true);
      for (const s of slots) this.outline(g, this.box(s), colour);
    }
  }

  buffer(g, b, y0, y1) {
    const { picture: p, sw, sh } = this;
    const [x, y, per] = [(b % this.columns) * this.bw + this.gutter, div(b / this.columns) * this.bh + 20, p.lineSlots];
    const [full, short] = [p.bufferName(b), p.bufferName(b, true)];
    g.textAlign = "left", g.textBaseline = "middle", g.fillStyle = theme.fg;
    g.fillText(6.1 * full.length < this.bw - 20 ? full : short, x, y - 9);
    const l0 = Math.max(0, div((y0 - y) / sh)), l1 = Math.min(p.bufferLines, Math.ceil((y1 - y) / sh));
    for (let line = l0; line < l1; line++) {
      for (let c = 0; c < per; ) {
        const look = this.look(b, line * per + c);
        let end = c + 1;
        while (end < per && this.look(b, line * per + end) === look) end++;
        if (look !== null) {
          g.fillStyle = look === "pad" ? this.pattern : look === "gap" ? theme.gap : look < 0 ? theme.shared[-look - 1] : theme.tints[look];
          g.fillRect(x + c * sw, y + line * sh, (end - c) * sw, sh);
        }
        c = end;
      }
    }
    this.edges(g, b, [x, y, l0, l1]);
    this.offsets(g, [x, y, l0, l1]);
    if (sw > 24) this.words(g, b, [x, y, l0, l1]);
  }

  /** A tint; -1 - hue for what is shared; or "pad", "gap", or null behind the end. */
  look(b, inside) {
    const p = this.picture;
    if (inside >= p.bufferSlots) return null;
    const s = b * p.bufferSlots + inside;
    const held = p.slots[s];
    if (held === 0) return p.gap[s] ? "gap" : "pad";
    const tint = p.tint(8 * p.byteOf(s));
    return held < 0 ? -1 - div(tint / 4) : tint;
  }

  edges(g, b, [x, y, l0, l1]) {
    const { picture: p, sw, sh } = this;
    const per = p.lineSlots;
    const own = (k, inside) => (inside >= p.bufferSlots ? -2 : p.owner(8 * p.byteOf(b * p.bufferSlots + inside), p.levels[k]));
    if (sw >= 6) {
      g.beginPath();
      for (let line = l0; line < l1; line++) for (let c = 1; c < per; c++) g.moveTo(x + c * sw, y + line * sh), g.lineTo(x + c * sw, y + (line + 1) * sh);
      for (let line = l0; line < l1; line++) g.moveTo(x, y + line * sh), g.lineTo(x + per * sw, y + line * sh);
      g.lineWidth = 0.3, g.globalAlpha = 0.35, g.strokeStyle = theme.fg, g.stroke(), (g.globalAlpha = 1);
    }
    for (let k = p.levels.length - 1; k >= 0; k--) {
      g.beginPath();
      for (let line = l0; line < l1; line++) {
        for (let c = 0; c < per; c++) {
          const at = line * per + c;
          const mine = own(k, at);
          if (c + 1 < per && own(k, at + 1) !== mine) g.moveTo(x + (c + 1) * sw, y + line * sh), g.lineTo(x + (c + 1) * sw, y + (line + 1) * sh);
          if (own(k, at + per) !== mine) g.moveTo(x + c * sw, y + (line + 1) * sh), g.lineTo(x + (c + 1) * sw, y + (line + 1) * sh);
        }
      }
      // Owners of a slot or two need no heavy walls.
      const slots = p.divisions[p.levels[k]].bits / 8 / p.slot;
      g.lineWidth = slots > 2 ? [2, 1.2, 0.7][k] : 0.6, g.globalAlpha = [1, 0.8, 0.5][k], g.strokeStyle = theme.fg, g.stroke(), (g.globalAlpha = 1);
    }
    g.lineWidth = 1, g.strokeStyle = theme.fg;
    g.beginPath(), g.moveTo(x, y + l0 * sh), g.lineTo(x, y + l1 * sh), g.moveTo(x + per * sw, y + l0 * sh), g.lineTo(x + per * sw, y + l1 * sh), g.stroke();
  }

  offsets(g, [x, y, l0, l1]) {
    const every = this.sh >= 11 ? 1 : 2;
    g.fillStyle = theme.note, g.textAlign = "right", g.textBaseline = "middle";
    for (let line = l0; line < l1; line++) if (line % every === 0) g.fillText(hex(line * this.picture.line), x - 5, y + (line + 0.5) * this.sh);
  }

  words(g, b, [x, y, l0, l1]) {
    const { picture: p, sw, sh } = this;
    g.textAlign = "center", g.textBaseline = "middle";
    for (let line = l0; line < l1; line++) {
      for (let c = 0; c < p.lineSlots; c++) {
        const s = b * p.bufferSlots + line * p.lineSlots + c;
        const held = line * p.lineSlots + c < p.bufferSlots ? p.slots[s] : 0;
        const words = held > 0 ? (p.range(held - 1) || [[]])[0].join(",") : held < 0 ? "exp" : "";
        if (!words || sw < 6.2 * words.length) continue;
        g.fillStyle = held > 0 ? theme.ink[p.tint(8 * p.byteOf(s))] : "#ffffff";
        g.fillText(words, x + (c + 0.5) * sw, y + (line + 0.5) * sh);
      }
    }
  }

  key(event) {
    const p = this.picture;
    const by = { ArrowUp: -p.lineSlots, ArrowDown: p.lineSlots, ArrowLeft: -1, ArrowRight: 1, PageUp: -16 * p.lineSlots, PageDown: 16 * p.lineSlots }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const at = marks(this.number).find((m) => m.slots.length);
    const slot = at ? at.slots[0] + by : 0;
    pin({ p: this.number, slot: Math.min(p.slots.length - 1, Math.max(0, slot)) });
  }
}

/** Brackets of a picture's two sides: begin, end and words, for the owner that gives the colour. */
function ranges(p) {
  if (p.brackets) return p.brackets;
  const own = p.owners[0];
  const value = (cell) => (own ? own[cell] : 0);
  const r = Math.max(0, p.rowAt.findIndex((n) => n >= 0)), c = Math.max(0, p.colAt.findIndex((n) => n >= 0));
  const group = (at, len, size, owner, words) => {
    const out = [];
    at.forEach((n, i) => {
      if (n < 0) return;
      const key = `${owner(i)}/${words ? words(n) : div(n / size)}`;
      const last = out[out.length - 1];
      if (last && last.key === key) (last.to = i + 1), (last.end = n + len[i]);
      else out.push({ key, from: i, to: i + 1, begin: n, end: n + len[i] });
    });
    return out.map((o) => [o.from, o.to, words ? words(o.begin) : `${o.begin % size}..${((o.end - 1) % size) + 1}`]);
  };
  const size = p.shape.length > 1 ? p.shape[p.shape.length - 2] : 1;
  const cols = group(p.colAt, p.colLen, p.logicalCols, (i) => value(r * p.width + i));
  const rows = [group(p.rowAt, p.rowLen, size, (i) => value(i * p.width + c))];
  const whole = { cols: group(p.colAt, p.colLen, p.logicalCols, () => 0), rows: group(p.rowAt, p.rowLen, size, () => 0) };
  let below = size;
  for (let d = p.shape.length - 3; d >= 0; d--) {
    const under = below;
    if (p.shape[d] > 1) rows.push(group(p.rowAt, p.rowLen, 1, () => 0, (n) => `d${d}=${div(n / under) % p.shape[d]}`));
    below *= p.shape[d];
  }
  return (p.brackets = { cols, rows, whole });
}

// ---------------------------------------------------------------- what is selected

const pictures = DATA.pictures.map((data) => new Picture(data));
let selected = null, pointed = null;
const panels = [];
const controls = {};
const same = (a, b) => a && b && a.p === b.p && a.cell === b.cell && a.slot === b.slot;

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

/** A place in the terms of the hardware. */
function placeTerms(p, bit, shared) {
  const byte = div(bit / 8);
  const [buffer, inside] = [div(byte / p.bufferBytes), byte % p.bufferBytes];
  const out = [["buffer", buffer], ["byte", `${inside}`], ["offset", `0x${hex(inside)}`]];
  if (p.cellBits < 8) out.push(["bit", bit % 8]);
  if (shared !== null && shared >= 0) out.push(["shared byte", shared]);
  for (const [name, value] of p.names[buffer] || []) out.push([name, shown(value)]);
  const parts = p.parts(bit);
  const inner = p.divisions.map((d, k) => [d, parts[k]]).filter(([d, n]) => n !== undefined && !["device", "core", "bank", "buffer"].includes(d.name));
  for (const [d, n] of inner) if (p.exact || d.bits >= p.cellBits) out.push([d.name, n]);
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

// ---------------------------------------------------------------- search and address

function search(text) {
  const said = document.getElementById("said");
  const target = parse(text.trim());
  said.textContent = typeof target === "string" ? target : "";
  controls.search.classList.toggle("wrong", typeof target === "string");
  if (typeof target !== "string") pin(target);
}

/** A target, or why there is none. An index is numbers with commas; a byte is BUFFER:BYTE, or 0x.. of buffer 0. */
function parse(text) {
  const p = pictures.length - 1;
  const shape = pictures[p].shape;
  const number = (s) => (/^(0x[0-9a-f]+|\d+)$/i.test(s.trim()) ? Number(s) : NaN);
  if (text === "") return null;
  if (text.includes(":") || /^0x/i.test(text)) {
    const [buffer, byte] = text.includes(":") ? text.split(":").map(number) : [0, number(text)];
    const inside = buffer < pictures[p].buffers && byte < pictures[p].bufferBytes;
    if (!inside) return `no such byte: ${pictures[p].buffers} buffers of ${pictures[p].bufferBytes} bytes`;
    return { p, slot: pictures[p].slotOf(buffer * pictures[p].bufferBytes + byte) };
  }
  const index = text.replace(/[[\]()\s]/g, " ").trim().split(/[\s,]+/).filter(Boolean).map(number);
  const cell = pictures[p].cellOf(index);
  return cell >= 0 ? { p, cell } : `no such index: the shape is ${shape.join(" x ")}`;
}

function keepHash() {
  const parts = [];
  if (selected) {
    const p = pictures[selected.p];
    const range = selected.cell === undefined ? null : p.range(selected.cell);
    if (range) parts.push(`index=${range[0].join(",")}`);
    else if (selected.slot !== undefined) {
      const byte = p.byteOf(selected.slot);
      parts.push(`byte=${div(byte / p.bufferBytes)}:${byte % p.bufferBytes}`);
    } else parts.push(`cell=${selected.cell}`);
    if (selected.p !== pictures.length - 1) parts.push(`in=${selected.p}`);
  }
  if (controls.colour.selectedIndex > 0) parts.push(`colour=${controls.colour.value}`);
  if (controls.label.selectedIndex > 0) parts.push(`label=${controls.label.value}`);
  const zoom = panels.map((panel) => +panel.zoom.toFixed(3));
  if (zoom.some((z) => z !== 1)) parts.push(`zoom=${zoom.join(",")}`);
  history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
}

function readHash() {
  const said = new URLSearchParams(location.hash.slice(1).replace(/\+/g, "%2B"));
  const p = Math.min(pictures.length - 1, Number(said.get("in") || pictures.length - 1));
  if (said.get("colour")) controls.colour.value = said.get("colour");
  if (said.get("label")) controls.label.value = said.get("label");
  recolour();
  (said.get("zoom") || "").split(",").forEach((z, i) => panels[i] && Number(z) >= 1 && (panels[i].zoom = Math.min(40, Number(z))));
  panels.forEach((panel) => panel.layout());
  let target = null;
  if (said.has("index")) {
    const cell = pictures[p].cellOf(said.get("index").split(",").filter(Boolean).map(Number));
    if (cell >= 0) target = { p, cell };
  } else if (/^\d+:\d+$/.test(said.get("byte") || "")) {
    const [buffer, byte] = said.get("byte").split(":").map(Number);
    if (buffer < pictures[p].buffers && byte < pictures[p].bufferBytes) target = { p, slot: pictures[p].slotOf(buffer * pictures[p].bufferBytes + byte) };
  } else if (said.has("cell")) target = { p, cell: Number(said.get("cell")) };
  selected = target;
  show();
  if (target) reveal();
}

// ---------------------------------------------------------------- the page

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
  if (!p.exact) box.append(make("p", {}, `The tensor is too large for single elements here: tilewright locate --index says where one of them lies.`));
  box.append(pair, make("ul", { class: "legend", id: `legend${n}` }));
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
