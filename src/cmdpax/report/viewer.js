// Exact runs: two methods on one problem, one slider, the curves of both.
const FLOOR = 1e-10, PER_SECOND = 20;
const ICONS = {
  first: "M3 2h3v12H3zM14 2v12L6 8z", back: "M12 2v12L4 8z", play: "M4 2v12l9-6z", pause: "M3 2h4v12H3zM9 2h4v12H9z",
  forward: "M4 2v12l8-6z", last: "M10 2h3v12h-3zM2 2v12l8-6z",
};

class Panel {
  constructor(letter, changed) {
    this.letter = letter.toLowerCase();
    const id = unique("method");
    this.select = node("select", { id, onchange: changed });
    this.board = new Board();
    this.settings = node("p", { class: "with" });
    this.values = Object.fromEntries(["reward", "gap", "violation", "price"].map((name) => [name, node("dd")]));
    this.verdict = node("dd");
    const names = { reward: "reward", gap: "gap to the optimum", violation: "violation", price: "price of the constraint" };
    const list = node("dl", { class: "readout" }, node("div", {}, node("dt", { class: "hidden" }, "verdict"), this.verdict));
    for (const [name, place] of Object.entries(this.values)) list.append(node("div", {}, node("dt", {}, names[name]), place));
    this.node = node("article", { class: `panel card ${this.letter}`, "aria-label": `method ${letter}` },
      node("header", {}, node("span", { class: "badge", "aria-hidden": "true" }, letter),
        node("label", { class: "hidden", for: id }, `Method ${letter}`), this.select),
      this.settings, node("div", { class: "body" }, this.board.node, list));
  }

  stage(problem, index) {
    this.problem = problem;
    this.select.replaceChildren(...problem.replays.map((replay, i) => node("option", { value: i }, replay.label)));
    this.select.value = String(index);
    this.board.stage(problem);
  }

  get replay() {
    const replay = this.problem.replays[Number(this.select.value)];
    if (!replay.read) {
      replay.read = true;
      for (const name of ["policies", "visits"]) replay[name] = bytes(replay[name]);
      for (const name of ["rewards", "violations", "weights"]) replay[name] = floats(replay[name]);
      replay.gaps = replay.rewards.map((reward) => this.problem.optimum - reward);
      replay.steps = replay.rewards.map((_, k) => k);
    }
    return replay;
  }

  // the last frame that is no later than evaluation k
  frame(k) {
    let low = 0, high = this.replay.frames.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.replay.frames[middle] <= k) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  show(k) {
    const { replay, problem } = this, S = problem.cells.length, A = problem.moves.length, f = this.frame(k), at = replay.frames[f];
    const gap = replay.gaps[at], violation = Math.max(0, replay.violations[at]), m = problem.constraints.length;
    this.policy = replay.policies.subarray(f * S * A, (f + 1) * S * A);
    this.visits = replay.visits.subarray(f * S, (f + 1) * S);
    const feasible = violation <= 1e-3;
    const settled = violation <= 1e-6 ? "feasible" : feasible ? "feasible within 0.001" : "violates";
    this.verdict.replaceChildren(node("span", { class: `verdict ${feasible ? "good" : "bad"}` }, `${feasible ? "✓" : "✕"} ${settled}`));
    this.values.reward.textContent = short(replay.rewards[at]);
    this.values.gap.replaceChildren(short(gap), ...(gap < -1e-9 ? [node("small", {}, "negative: bought by violating")] : []));
    this.values.violation.textContent = short(violation);
    this.values.price.textContent = [...replay.weights.subarray(f * m, (f + 1) * m)].map(short).join(", ");
    this.board.show(this.policy, this.visits, replay.most,
      `${replay.label} on ${problem.title} after ${at} evaluations: reward ${short(replay.rewards[at])}, gap ${short(gap)}, violation ${short(violation)}`);
  }

  describe() {
    const settings = Object.entries(this.replay.settings).map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? short(value) : value}`);
    this.settings.textContent = settings.length ? `with ${settings.join(", ")}` : "with its default settings";
  }
}

class Viewer {
  constructor(place, problems) {
    this.problems = problems;
    this.panels = ["A", "B"].map((letter) => new Panel(letter, () => this.changed()));
    this.gaps = new Chart({ title: "Distance from the optimum, |gap|", hint: "logarithmic", across: "policy-gradient evaluations", log: true });
    this.violations = new Chart({ title: "Constraint violation", hint: "logarithmic", across: "policy-gradient evaluations", log: true });
    for (const chart of [this.gaps, this.violations]) chart.pick((k) => this.go(this.nearest(k)));
    this.details = node("details", { class: "card", ontoggle: () => this.numbers() }, node("summary", {}, "Both policies as numbers"));
    this.details.append(this.table = node("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "both policies as numbers" }));
    place.replaceChildren(this.chooser(), this.transport(), node("div", { class: "pair" }, ...this.panels.map((panel) => panel.node)), this.legend(),
      node("div", { class: "pair" }, node("div", { class: "card" }, this.gaps.node), node("div", { class: "card" }, this.violations.node)), this.details);
    place.closest("section").addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("keydown", (event) => { if (event.target === document.body) this.key(event); });
    this.open(0);
  }

  chooser() {
    const name = unique("problem");
    const choices = this.problems.map((problem, i) => node("label", {}, node("input", { type: "radio", name, checked: i === 0, onchange: () => this.open(i) }), node("span", {}, problem.title)));
    return node("div", { class: "problems", role: "radiogroup", "aria-label": "Problem" }, ...choices);
  }

  legend() {
    const draw = (...parts) => shape("svg", { class: "board sample", viewBox: "0 0 100 100", "aria-hidden": "true" }, ...parts);
    const id = unique("key"), box = { x: 4, y: 4, width: 92, height: 92, rx: 12 };
    const entry = (picture, text) => node("li", {}, picture, text);
    return node("ul", { class: "key" },
      entry(draw(shape("path", { class: "arrow", d: arrow([0, 0], [1, 0], 1), transform: "translate(5 50) scale(1.9)" })), "arrow: an action, as long as it is likely"),
      entry(draw(shape("circle", { class: "visit", cx: 50, cy: 50, r: 40 })), "disc: time spent in the cell, by area"),
      entry(draw(shape("defs", {}, hatching(id, "hatch", 22)), shape("rect", { ...box, class: "cell hazard" }), shape("rect", { ...box, fill: `url(#${id})` })), "hatched: cells that cost"),
      entry(draw(shape("rect", { ...box, class: "cell goal" }), shape("text", { class: "glyph", x: 50, y: 52, style: "font-size:60px" }, "★")), "goal"));
  }

  transport() {
    const button = (name, label, act, kind = "") => node("button", { type: "button", class: kind, "aria-label": label, title: label, onclick: act },
      shape("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, shape("path", { d: ICONS[name] })));
    const id = unique("speed");
    this.playing = button("play", "Play", () => this.toggle(), "play");
    this.slider = node("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "Policy-gradient evaluations", oninput: () => this.show() });
    this.status = node("output", { "aria-live": "off" });
    this.speed = node("select", { id }, ...[0.25, 0.5, 1, 2, 4].map((times) => node("option", { value: times, selected: times === 1 }, `${times}×`)));
    return node("div", { class: "transport card", role: "group", "aria-label": "Playback" },
      node("div", { class: "buttons" }, button("first", "To the start", () => this.go(0)), button("back", "One step back", () => this.go(this.position - 1)),
        this.playing, button("forward", "One step forward", () => this.go(this.position + 1)), button("last", "To the end", () => this.go(Infinity))),
      this.slider, this.status, node("span", {}, node("label", { for: id }, "speed "), this.speed));
  }

  get position() { return Number(this.slider.value); }

  open(index) {
    const problem = this.problems[index], rival = problem.replays.findIndex((replay) => !replay.method.endsWith("-alm"));
    this.problem = problem;
    this.panels[0].stage(problem, 0);
    this.panels[1].stage(problem, rival > 0 ? rival : Math.min(1, problem.replays.length - 1));
    this.fresh = true;
    this.changed();
  }

  // other runs: the slider goes over the frames of the longer one
  changed() {
    const replays = this.panels.map((panel) => panel.replay), k = this.fresh ? 0 : this.evaluation;
    const longer = replays[0].frames.at(-1) >= replays[1].frames.at(-1) ? replays[0] : replays[1];
    this.frames = longer.frames;
    this.slider.max = this.frames.length - 1;
    this.slider.value = this.fresh ? Math.min(this.frames.length - 1, 40) : this.nearest(k);
    this.fresh = false;
    const x = [0, this.frames.at(-1)], lines = (values) => replays.map((replay, i) => ({ x: replay.steps, y: replay[values].map((v) => Math.max(values === "gaps" ? Math.abs(v) : v, FLOOR)), mark: i ? "own-b" : "own-a" }));
    const both = (values) => {
      const drawn = lines(values), [least, most] = extent(drawn.map((line) => line.y));
      const low = Math.max(FLOOR, 10 ** Math.floor(Math.log10(least))), high = 10 ** Math.ceil(Math.log10(Math.max(most, 10 * low)));
      return { x, y: [low, high], lines: drawn, floor: low === FLOOR ? FLOOR : 0 };
    };
    const names = replays.map((replay) => replay.label).join(" (solid) and ") + " (dashed)";
    this.gaps.show(both("gaps"), `Distance from the optimum of ${names}`);
    this.violations.show(both("violations"), `Constraint violation of ${names}`);
    for (const panel of this.panels) panel.describe();
    this.show();
  }

  get evaluation() { return this.frames ? this.frames[this.position] : 0; }

  nearest(k) {
    let best = 0;
    this.frames.forEach((frame, i) => { if (Math.abs(frame - k) < Math.abs(this.frames[best] - k)) best = i; });
    return best;
  }

  go(position) {
    this.slider.value = Math.min(this.frames.length - 1, Math.max(0, position));
    this.show();
  }

  show() {
    const k = this.evaluation, last = this.frames.at(-1);
    for (const panel of this.panels) panel.show(k);
    const values = (name, size) => this.panels.map((panel, i) => {
      const value = panel.replay[name][Math.min(k, panel.replay.frames.at(-1))];
      return [Math.max(size(value), FLOOR), i ? "own-b" : "own-a", i === 1];
    });
    this.gaps.mark(k, values("gaps", Math.abs));
    this.violations.mark(k, values("violations", (value) => value));
    this.slider.setAttribute("aria-valuetext", `evaluation ${k} of ${last}`);
    this.status.replaceChildren(node("b", {}, whole(k)), ` of ${whole(last)} evaluations`);
    this.numbers();
  }

  numbers() {
    if (!this.details.open) return;
    const { states, actions } = this.problem, A = actions.length;
    const percent = (panel, s, a) => node("td", { class: "number" }, `${Math.round(panel.policy[s * A + a] / 2.55)}%`);
    const heads = this.panels.flatMap((panel) => actions.map((name) => node("th", { class: "number", scope: "col" }, `${panel.letter.toUpperCase()}: ${name}`)));
    const rows = states.map((name, s) => node("tr", {}, node("th", { scope: "row" }, `${s}`), node("td", {}, name), ...this.panels.flatMap((panel) => actions.map((_, a) => percent(panel, s, a)))));
    this.table.replaceChildren(node("table", {}, node("thead", {}, node("tr", {}, node("th", { scope: "col" }, "state"), node("th", { scope: "col" }, "name"), ...heads)), node("tbody", {}, ...rows)));
  }

  toggle(on = !this.timer) {
    clearInterval(this.timer);
    this.timer = null;
    if (on && this.position >= this.frames.length - 1) this.go(0);
    if (on) this.timer = setInterval(() => this.tick(), 1000 / (PER_SECOND * Number(this.speed.value)));
    this.playing.setAttribute("aria-label", on ? "Pause" : "Play");
    this.playing.title = on ? "Pause" : "Play";
    this.playing.querySelector("path").setAttribute("d", ICONS[on ? "pause" : "play"]);
  }

  tick() {
    this.go(this.position + 1);
    if (this.position >= this.frames.length - 1) this.toggle(false);
  }

  key(event) {
    const inside = event.target, own = inside.matches?.("select, input[type=radio]") || inside.closest?.(".scroll");
    if (own || event.ctrlKey || event.altKey || event.metaKey) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    if (event.key === " " || event.key === "k") {
      if (inside.matches?.("button, summary") && event.key === " ") return; // pressing a button is its own affair
      this.toggle();
    } else if (event.key in steps && (inside === this.slider || !event.key.match(/Up|Down/))) this.go(this.position + steps[event.key]);
    else if (event.key === "Home") this.go(0);
    else if (event.key === "End") this.go(Infinity);
    else return;
    event.preventDefault();
  }
}

if (data.problems.length) new Viewer(document.getElementById("viewer"), data.problems);
