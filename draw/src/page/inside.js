// The elements of one cell, where cells are larger.

/** A canvas with the elements of the cell that is pointed at or selected. */
class Inside {
  constructor(picture, number) {
    Object.assign(this, { picture, number, cell: -1 });
    this.figure = make("figure", { class: "inside" });
    this.caption = make("figcaption");
    this.canvas = make("canvas", { role: "img" });
    this.figure.append(this.caption, this.canvas);
    this.canvas.addEventListener("mousemove", (e) => hover(this.hit(e)));
    this.canvas.addEventListener("click", (e) => pin(this.hit(e)));
    this.canvas.addEventListener("mouseleave", () => hover(null));
  }

  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const [r, c] = [div((event.clientY - box.top) / this.step), div((event.clientX - box.left) / this.step)];
    const [rows, cols] = this.picture.held(this.cell);
    return r >= 0 && r < rows && c >= 0 && c < cols ? { p: this.number, cell: this.cell, element: [r, c] } : null;
  }

  draw() {
    const p = this.picture;
    const target = [pointed, selected].find((t) => t && t.p === this.number && cellsOf(t).length);
    this.cell = target ? cellsOf(target)[0] : p.places[0].findIndex((bit) => bit >= 0);
    const range = p.range(this.cell);
    this.figure.hidden = !range;
    if (!range) return;
    const [rows, cols] = p.cell;
    const [first, last] = range;
    const words = `inside of this ${p.unit}: [${first.map((a, d) => (a === last[d] ? a : `${a}..${last[d] + 1}`)).join(", ")}], element by element`;
    this.caption.textContent = words, this.canvas.setAttribute("aria-label", words);
    this.step = Math.max(4, Math.min(16, div((this.figure.clientWidth || 640) / cols)));
    const ratio = devicePixelRatio || 1;
    const [w, h] = [cols * this.step + 1, rows * this.step + 1];
    this.canvas.width = w * ratio, this.canvas.height = h * ratio;
    this.canvas.style.width = `${w}px`, this.canvas.style.height = `${h}px`;
    const g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.fillStyle = g.createPattern(theme.hatch, "repeat"), g.fillRect(0, 0, w, h);
    const [tall, wide] = p.held(this.cell);
    g.strokeStyle = theme.bg, g.lineWidth = 0.5;
    for (let r = 0; r < tall; r++) {
      for (let c = 0; c < wide; c++) {
        const box = [c * this.step, r * this.step, this.step, this.step];
        g.fillStyle = theme.tints[p.tint(p.element(this.cell, [r, c])[0])];
        g.fillRect(...box), g.strokeRect(...box);
      }
    }
    const at = target && target.element;
    if (at) g.strokeStyle = target === pointed ? theme.mark : theme.fg, g.lineWidth = 2.5, g.strokeRect(at[1] * this.step, at[0] * this.step, this.step, this.step);
  }
}
