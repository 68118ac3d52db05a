// Training runs: return and costs against samples, one card for an environment, one style for a method everywhere.
const allMethods = [...new Set(data.environments.flatMap((world) => world.runs.map((run) => run.method)))];
const styleOf = (method) => `s${allMethods.indexOf(method) % 8}`;

function spread(runs, name, extra) {
  const [low, high] = extent([extra, ...runs.flatMap((run) => run.series[name] ? [run.series[name].low, run.series[name].high] : [])]);
  const pad = 0.05 * (high - low || 1);
  return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
}

function learningCard(world) {
  const names = [...new Set(world.runs.map((run) => run.method))], seeds = (name) => world.runs.filter((run) => run.method === name).length;
  const key = node("ul", { class: "key" }, ...names.map((name) => node("li", {},
    shape("svg", { width: 34, height: 10, "aria-hidden": "true" }, shape("line", { class: styleOf(name), x1: 1, x2: 33, y1: 5, y2: 5, "stroke-width": 2.4 })),
    seeds(name) > 1 ? `${name} (${seeds(name)} runs)` : name)));
  const readings = node("p", { class: "readings", role: "status" }, "Point at a chart to read values.");
  const x = [0, extent(world.runs.map((run) => run.samples))[1]];
  const panels = ["return", ...world.costs].map((name) => {
    const limit = world.limits[name], chart = new Chart({ title: name === "return" ? "Return" : name === "cost" ? "Cost" : `Cost: ${name}`, hint: limit ? `limit ${limit.sense === "<=" ? "≤" : "≥"} ${short(limit.bound)}` : "", across: "environment steps", height: 260 });
    const lines = world.runs.filter((run) => run.series[name]).map((run) => {
      const { mean, low, high } = run.series[name], banded = low.some((value, i) => value !== high[i]);
      return { x: run.samples, y: mean, mark: styleOf(run.method), ...(banded ? { low, high } : {}) };
    });
    const last = world.runs.filter((run) => run.series[name]).map((run) => `${run.name} ends at ${short(run.series[name].mean.at(-1))}`);
    chart.show({ x, y: spread(world.runs, name, limit ? [limit.bound] : []), lines, limit }, `${name} on ${world.title}: ${last.join(", ")}`);
    chart.pick((k) => read(k), true);
    return [name, chart];
  });
  function read(k) {
    const texts = world.runs.slice(0, 8).map((run) => {
      let at = 0;
      run.samples.forEach((samples, i) => { if (Math.abs(samples - k) < Math.abs(run.samples[at] - k)) at = i; });
      return `${run.method}: ${panels.filter(([name]) => run.series[name]).map(([name]) => `${name} ${short(run.series[name].mean[at])}`).join(", ")}`;
    });
    readings.textContent = `at ${whole(k)} steps – ${texts.join("; ")}`;
    for (const [, chart] of panels) chart.mark(k, []);
  }
  return node("article", { class: "world card" }, node("header", {}, node("h3", {}, world.title), key),
    node("div", { class: "pair" }, ...panels.map(([, chart]) => chart.node)), readings);
}

if (data.environments.length) document.getElementById("learning-curves").replaceChildren(...data.environments.map(learningCard));
