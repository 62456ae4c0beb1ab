// Search, and the address that keeps the view.

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
  return cell >= 0 ? found(p, cell, index) : `no such index: the shape is ${shape.join(" x ")}`;
}

/** The target of an index: its cell, and the element in it where that is larger. */
function found(p, cell, index) {
  return pictures[p].inside ? { p, cell, element: pictures[p].elementOf(index) } : { p, cell };
}

function keepHash() {
  const parts = [];
  if (selected) {
    const p = pictures[selected.p];
    const range = selected.cell === undefined ? null : p.range(selected.cell);
    const [r, c] = [div(selected.cell / p.width), selected.cell % p.width];
    const index = selected.element ? p.index(p.rowAt[r] + selected.element[0], p.colAt[c] + selected.element[1]) : range && range[0];
    if (index) parts.push(`index=${index.join(",")}`);
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
    const index = said.get("index").split(",").filter(Boolean).map(Number);
    const cell = pictures[p].cellOf(index);
    if (cell >= 0) target = found(p, cell, index);
  } else if (/^\d+:\d+$/.test(said.get("byte") || "")) {
    const [buffer, byte] = said.get("byte").split(":").map(Number);
    if (buffer < pictures[p].buffers && byte < pictures[p].bufferBytes) target = { p, slot: pictures[p].slotOf(buffer * pictures[p].bufferBytes + byte) };
  } else if (said.has("cell")) target = { p, cell: Number(said.get("cell")) };
  selected = target;
  show();
  if (target) reveal();
}
