// The logical panel.

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
