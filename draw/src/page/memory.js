// The memory panel, and the brackets of both.

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
