// Elements, data and numbers. Text goes into the page as text only, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

const node = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const shape = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const floats = (text) => new Float32Array(bytes(text).buffer);

// 0.6554, 1,234 or 2.1e−4, with a true minus sign
function short(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 1e-12) return "0";
  const text = size >= 1e-3 && size < 1e6 ? Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 })
    : value.toExponential(1);
  return text.replaceAll("-", "−");
}

// least and most of several long lists
function extent(lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const value of list) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}

const whole = (value) => Math.round(value).toLocaleString("en");

// a slanted pattern, so that what is forbidden shows without colour
function hatching(id, mark, gap = 12) {
  return shape("pattern", { id, width: gap, height: gap, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("line", { class: mark, x1: 0, y1: 0, x2: 0, y2: gap }));
}

let count = 0;
const unique = (prefix) => `${prefix}-${(count += 1)}`;
