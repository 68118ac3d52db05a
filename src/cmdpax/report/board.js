// A policy on its grid: an arrow's length is its probability, a disc's area the share of time spent in the cell.
const CELL = 100, REACH = 46, DISC = 42, LEAST = 0.02;

// an arrow from the middle of a cell, as one filled outline
function arrow([x, y], [dx, dy], probability) {
  if (probability < LEAST) return "";
  const size = Math.max(Math.hypot(dx, dy), 1e-9), u = dx / size, v = dy / size;
  const length = REACH * probability * (size > 1.2 ? 1.25 : 1), head = Math.min(length, 8 + 11 * probability);
  const shaft = 1.4 + 2.4 * probability, wide = 4 + 8 * probability;
  const at = (along, aside) => `${(x + u * along - v * aside).toFixed(1)} ${(y + v * along + u * aside).toFixed(1)}`;
  const neck = length - head;
  return `M${at(0, shaft)}L${at(neck, shaft)}L${at(neck, wide)}L${at(length, 0)}L${at(neck, -wide)}L${at(neck, -shaft)}L${at(0, -shaft)}Z`;
}

class Board {
  constructor() {
    this.node = shape("svg", { class: "board", role: "img" });
  }

  stage(problem) {
    this.problem = problem;
    const xs = problem.cells.map((cell) => cell[0]), ys = problem.cells.map((cell) => cell[1]);
    const left = Math.min(...xs), top = Math.max(...ys), wide = Math.max(...xs) - left + 1, high = top - Math.min(...ys) + 1;
    this.node.setAttribute("viewBox", `-3 -3 ${wide * CELL + 6} ${high * CELL + 6}`);
    const id = unique("hazard"), has = (list, s) => problem[list].includes(s);
    this.middles = problem.cells.map(([x, y]) => [(x - left + 0.5) * CELL, (top - y + 0.5) * CELL]);
    this.discs = [], this.arrows = [], this.titles = [];
    const parts = [shape("defs", {}, hatching(id, "hatch", 13))];
    this.middles.forEach(([x, y], s) => {
      const kind = has("hazards", s) ? "hazard" : has("goals", s) ? "goal" : has("absorbing", s) ? "end" : "";
      const box = { x: x - CELL / 2 + 2, y: y - CELL / 2 + 2, width: CELL - 4, height: CELL - 4, rx: 9 };
      const title = shape("title"), group = shape("g", {}, title, shape("rect", { ...box, class: `cell ${kind}` }));
      if (kind === "hazard") group.append(shape("rect", { ...box, fill: `url(#${id})` }));
      const disc = shape("circle", { class: "visit", cx: x, cy: y, r: 0 });
      group.append(disc);
      if (problem.cells.length <= 100) group.append(shape("text", { class: "number", x: x - 41, y: y - 29 }, String(s)));
      if (kind === "goal") group.append(shape("text", { class: "glyph", x, y }, "★"));
      else if (has("absorbing", s)) group.append(shape("text", { class: "over", x, y }, "end"));
      const still = has("absorbing", s) || kind === "goal";
      this.arrows.push(still ? [] : problem.moves.map(() => group.appendChild(shape("path", { class: "arrow" }))));
      this.discs.push(has("absorbing", s) ? null : disc);
      this.titles.push(title);
      parts.push(group);
    });
    this.node.replaceChildren(...parts);
  }

  // policy [S, A] and visits [S] of one frame, in 1/255; `most` is what 255 visits stand for
  show(policy, visits, most, label) {
    const { moves, actions, states, absorbing } = this.problem, A = moves.length;
    const top = Math.max(1, ...visits.filter((_, s) => !absorbing.includes(s)));
    this.middles.forEach((middle, s) => {
      this.discs[s]?.setAttribute("r", (DISC * Math.sqrt(visits[s] / top)).toFixed(1));
      this.arrows[s].forEach((path, a) => path.setAttribute("d", arrow(middle, [moves[a][0], -moves[a][1]], policy[s * A + a] / 255)));
      const chosen = actions.map((name, a) => [policy[s * A + a] / 255, name]).filter(([p]) => p >= 0.005).sort((p, q) => q[0] - p[0]);
      this.titles[s].textContent = `state ${states[s]}: ${chosen.map(([p, name]) => `${name} ${Math.round(100 * p)}%`).join(", ")}; ` +
        `${(100 * most * visits[s] / 255).toFixed(1)}% of the time`;
    });
    this.node.setAttribute("aria-label", label);
  }
}
