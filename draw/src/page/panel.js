// Panels: what both have.

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
