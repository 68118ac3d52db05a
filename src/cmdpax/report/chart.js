// A chart of lines over one horizontal axis, redrawn for the width it is given; the vertical axis is linear or logarithmic.
const MARGIN = { left: 58, right: 14, top: 10, bottom: 34 };
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const power = (exponent) => exponent === 0 ? "1" : "10" + (exponent < 0 ? "⁻" : "") + [...String(Math.abs(exponent))].map((d) => RAISED[d]).join("");
const brief = (value) => value >= 1e6 ? `${Number((value / 1e6).toPrecision(3))}M` : value >= 1e4 ? `${Number((value / 1e3).toPrecision(3))}k` : short(value);

function round(low, high, wanted) {
  const rough = (high - low || 1) / wanted, base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) ticks.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
  return ticks;
}

class Chart {
  constructor({ title, hint = "", across, log = false, height = 232 }) {
    Object.assign(this, { across, log, height, spec: null, at: null });
    this.svg = shape("svg", { class: "chart", role: "img", height });
    this.hint = node("small", {}, hint);
    this.node = node("figure", { class: "chart-box" }, node("figcaption", {}, title, this.hint), this.svg);
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  // spec: x [low, high], y [low, high], lines [{x, y, low?, high?, mark}], limit? {bound, sense}, floor? (values below it are drawn at it)
  show(spec, label) {
    this.spec = spec;
    this.svg.setAttribute("aria-label", label);
    this.draw();
  }

  place(x, y) {
    const { x: [left, right], y: [low, high] } = this.spec;
    const v = this.log ? (Math.log10(Math.max(y, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low)) : (y - low) / (high - low);
    return [MARGIN.left + (x - left) / (right - left || 1) * this.inner, MARGIN.top + (1 - v) * this.depth];
  }

  path(xs, ys) {
    let text = "", pen = "M";
    for (let i = 0; i < xs.length; i += 1) {
      if (!Number.isFinite(ys[i])) { pen = "M"; continue; }
      const [x, y] = this.place(xs[i], ys[i]);
      text += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
    }
    return text;
  }

  draw() {
    const width = this.svg.clientWidth || this.node.clientWidth;
    if (!this.spec || width < 120) return; // not laid out yet
    this.inner = width - MARGIN.left - MARGIN.right;
    this.depth = this.height - MARGIN.top - MARGIN.bottom;
    const { x: [left, right], y: [low, high], lines, limit, floor } = this.spec;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    const parts = [], bottom = MARGIN.top + this.depth;
    const ticks = this.log ? this.decades(low, high) : round(low, high, 4).map((value) => [value, short(value)]);
    for (const [value, name] of ticks) {
      const [, y] = this.place(left, value);
      parts.push(shape("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
        shape("text", { x: MARGIN.left - 9, y: y + 4, "text-anchor": "end" }, floor && value <= floor ? `≤ ${name}` : name));
    }
    for (const value of round(left, right, Math.max(2, this.inner / 75))) {
      const [x] = this.place(value, low);
      parts.push(shape("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 5 }),
        shape("text", { x, y: bottom + 18, "text-anchor": "middle" }, brief(value)));
    }
    parts.push(shape("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }),
      shape("text", { x: width - MARGIN.right, y: bottom + 32, "text-anchor": "end" }, this.across));
    if (limit) parts.push(...this.limit(limit, width));
    for (const line of lines) {
      if (line.low) {
        const back = [...line.x].reverse(), edge = this.path(back, [...line.low].reverse()).replace("M", "L");
        parts.push(shape("path", { class: `band ${line.mark}`, d: this.path(line.x, line.high) + edge + "Z" }));
      }
      parts.push(shape("path", { class: `line ${line.mark}`, d: this.path(line.x, line.y) }));
    }
    this.marks = shape("g", {});
    this.svg.replaceChildren(...parts, this.marks);
    if (this.at) this.mark(...this.at);
  }

  decades(low, high) {
    const first = Math.round(Math.log10(low)), last = Math.round(Math.log10(high)), step = Math.ceil((last - first) / 6);
    const ticks = [];
    for (let e = first; e <= last; e += step) ticks.push([10 ** e, power(e)]);
    return ticks;
  }

  limit({ bound, sense }, width) {
    const [, y] = this.place(this.spec.x[0], bound), id = unique("beyond");
    const above = sense === "<=", from = above ? MARGIN.top : y, to = above ? y : MARGIN.top + this.depth;
    return [shape("defs", {}, hatching(id, "beyond", 9)),
      shape("rect", { x: MARGIN.left, width: this.inner, y: from, height: Math.max(0, to - from), fill: `url(#${id})` }),
      shape("line", { class: "limit", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y })];
  }

  // a vertical line at x, and a dot for each [value, mark, square?]
  mark(x, points) {
    this.at = [x, points];
    if (!this.marks) return;
    const [across] = this.place(x, this.spec.y[0]);
    const parts = [shape("line", { class: "now", x1: across, x2: across, y1: MARGIN.top, y2: MARGIN.top + this.depth })];
    for (const [value, mark, square] of points) {
      if (!Number.isFinite(value)) continue;
      const [, y] = this.place(x, value);
      parts.push(square ? shape("rect", { class: `dot ${mark}`, x: across - 5.5, y: y - 5.5, width: 11, height: 11, rx: 1.5 })
        : shape("circle", { class: `dot ${mark}`, cx: across, cy: y, r: 6 }));
    }
    this.marks.replaceChildren(...parts);
  }

  unmark() {
    this.at = null;
    this.marks?.replaceChildren();
  }

  // tell `use` the horizontal value under a pointer: while it is pressed, or (with hover) wherever it goes
  pick(use, hover = false) {
    const tell = (event) => {
      const box = this.svg.getBoundingClientRect(), { x: [left, right] } = this.spec;
      const share = (event.clientX - box.left - MARGIN.left) / this.inner;
      use(left + Math.min(1, Math.max(0, share)) * (right - left));
    };
    if (!hover) this.svg.classList.add("scrub");
    this.svg.addEventListener("pointerdown", (event) => { this.svg.setPointerCapture(event.pointerId); tell(event); });
    this.svg.addEventListener("pointermove", (event) => { if (hover || event.buttons) tell(event); });
  }
}
