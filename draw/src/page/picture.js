// What a picture says.

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

  /** How many rows and columns of a cell hold elements. */
  held(cell) {
    return [this.rowLen[div(cell / this.width)], this.colLen[cell % this.width]];
  }

  /** The bit of an element inside of a cell, in its first copy, and the byte that it shares or null. */
  element(cell, [r, c]) {
    const { rows, cols, header, code, group } = this.inside;
    const [begin, slot] = [this.places[0][cell], rows[r] + cols[c]];
    return [begin + header + slot * code, group ? begin / 8 + div(slot / group) : null];
  }

  /** The row and the column inside of its cell that a logical index has. */
  elementOf(index) {
    const cell = this.cellOf(index);
    const row = index.slice(0, -1).reduce((row, i, d) => row * this.shape[d] + i, 0);
    return [row - this.rowAt[div(cell / this.width)], (index.length ? index[index.length - 1] : 0) - this.colAt[cell % this.width]];
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
