"use strict";
// Shows the pictures in #data: a logical panel and a memory panel for each layout, linked by logical index.

const DATA = JSON.parse(document.getElementById("data").textContent);
// The colours of Okabe and Ito, which readers of all kinds of sight tell apart.
const HUES = ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"];
const PADDING = 255;
// More owners than this are not told apart by colours.
const MANY = 64;
const div = Math.floor;
