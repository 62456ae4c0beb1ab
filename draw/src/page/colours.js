// Colours.

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
