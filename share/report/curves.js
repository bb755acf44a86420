// Curves: the overview's figures and charts, and all metrics.

// ---- a chart of one metric

function metricCard(name, options) {
    const { window = name === "train/lr" ? 1 : state.smoothing, log = false, title = name, note } = options || {}; // a schedule has no noise
    const format = formatOf(name);
    const lines = shownRuns().map((run) => ({ label: run.name, color: run.color, points: series(run, name) })).filter((line) => line.points.length);
    if (!lines.length) return null;
    const lost = lines.reduce((sum, line) => sum + line.points.filter(([, value]) => !Number.isFinite(value)).length, 0);
    const single = lines.length === 1 ? last(lines[0].points) : null;
    return h("figure", { class: "card" },
        h("figcaption", { class: "card-head" }, h("h3", { title: meanings[name] }, title),
            single && h("span", { class: "value" }, format(single[1]))),
        plot((canvas) => lineChart(canvas, { name, lines, format, window, log })),
        note && h("p", { class: "card-note" }, note),
        lost > 0 && h("p", { class: "card-note" }, lost + (lost === 1 ? " value is" : " values are") + " not finite, marked ×"));
}

// ---- the overview

const headline = [
    ["train/reward", "Reward", "mean of a step's samples"],
    ["validation/accuracy", "Held-out accuracy", "mean reward of the held-out questions"],
    ["train/kl_penalty", "KL to the reference", null],
    ["train/mean_gen_tokens_per_sample", "Length of an answer", "tokens, mean of a step's samples"],
    ["train/truncation_rate", "Answers cut off", "share of a step's samples"],
    ["train/approx_entropy", "Entropy", null],
    ["train/loss", "Loss", null],
    ["validation/val_loss", "Held-out loss", "mean over the tokens of held-out conversations"],
    ["train/grad_norm", "Norm of the gradient", "before clipping"],
    ["memory/peak_memory_allocated_mb", "Peak memory", "device memory of a step"],
    ["timing/train/total_step_time", "Time of a step", "with its validation and checkpoint"],
];

// [metric, label, whether more is better] of what a run is after, in training and on what is held out.
const aims = (run) => (column(run, "train/reward").length || !column(run, "train/loss").length ? [["train/reward", "reward", true], ["validation/accuracy", "held-out accuracy", true]]
    : [["train/loss", "loss", false], ["validation/val_loss", "held-out loss", false]]);

function figures(run) {
    const [[aim, aimLabel], [check, checkLabel, more]] = aims(run), reward = series(run, aim).map(([, value]) => value), accuracy = series(run, check);
    const best = accuracy.length ? accuracy.reduce((a, b) => ((more ? b[1] > a[1] : b[1] < a[1]) ? b : a)) : null;
    const times = finite(column(run, "timing/train/total_step_time"));
    const checks = finite(column(run, "timing/validation/total_validation_time"));
    const mismatch = column(run, "train/max_abs_logprob_error").filter((value) => value !== null);
    const peaks = finite(column(run, "memory/peak_memory_allocated_mb"));
    const wanted = run.config && Number(run.config[more ? "grpo.max_num_steps" : "sft.max_num_steps"]);
    const count = reward.length;
    return [
        ["steps", number(count), wanted && wanted !== count ? "of " + number(wanted) : null],
        [aimLabel, number(mean(finite(reward.slice(-10)))), reward.length > 10 ? "from " + number(mean(finite(reward.slice(0, 10)))) : null],
        [checkLabel, accuracy.length ? number(last(accuracy)[1]) : "–",
            accuracy.length > 1 ? "best " + number(best[1]) + " at step " + best[0] : null],
        ["time of a step", times.length ? seconds(mean(times)) : "–", null],
        ["all steps", times.length ? seconds(times.reduce((a, b) => a + b, 0)) : "–",
            checks.length ? "validation " + seconds(checks.reduce((a, b) => a + b, 0)) : null],
        ["peak memory", peaks.length ? bytes(Math.max(...peaks) * 1048576) : "–", null],
        ["largest mismatch", mismatch.length ? number(mismatch.some(Number.isNaN) ? NaN : Math.max(...mismatch)) : "–",
            null],
    ];
}

function figuresTable(list) {
    const rows = list.map((run) => [run, figures(run)]);
    if (!rows.length) return null;
    const note = { "reward": "mean of the last 10 steps, from the mean of the first 10", "loss": "mean of the last 10 steps, from the mean of the first 10", "largest mismatch": meanings["train/max_abs_logprob_error"] };
    if (rows.length === 1)
        return h("dl", { class: "figures" }, rows[0][1].map(([label, value, more]) =>
            h("div", { class: "card", title: note[label] }, h("dt", {}, label), h("dd", {}, value), h("dd", { class: "more" }, more || "\u00a0"))));
    const cell = ([, value, more]) => h("td", { class: "num" }, value, more && h("div", { class: "faint small" }, more));
    if (rows.length < 4 && matchMedia("(max-width: 860px)").matches)
        return h("div", { class: "card" }, h("div", { class: "scroll" }, h("table", {},
            h("thead", {}, h("tr", {}, h("th", {}), rows.map(([run]) => h("th", { class: "num" }, runName(run))))),
            h("tbody", {}, rows[0][1].map(([label], at) => h("tr", {}, h("th", { title: note[label] }, label), rows.map(([, cells]) => cell(cells[at]))))))));
    return h("div", { class: "card" }, h("div", { class: "scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "run"), rows[0][1].map(([label]) => h("th", { class: "num", title: note[label] }, label)))),
        h("tbody", {}, rows.map(([run, cells]) => h("tr", {}, h("th", {}, runName(run)),
            cells.map(cell)))))));
}

function smoothingControl(redrawPart) {
    const shown = h("output", {}, String(state.smoothing));
    return h("label", { class: "control" }, "moving average of",
        h("input", {
            type: "range", min: 1, max: 50, value: state.smoothing, "aria-label": "steps of the moving average",
            oninput: (event) => {
                state.smoothing = Number(event.target.value);
                shown.value = state.smoothing;
                redrawPart();
            },
        }), shown, state.smoothing === 1 ? "step" : "steps");
}

const zoomOut = () => h("button", { class: "button", type: "button", hidden: !zoom.range, id: "zoom-out", onclick: () => setZoom(null) }, "Whole range");
document.addEventListener("zoomed", () => {
    const button = document.getElementById("zoom-out");
    if (button) button.hidden = !zoom.range;
});

function overview(part) {
    const list = shownRuns();
    if (!list.length) return part.append(empty("No run is chosen", "Choose one above."));
    if (!metricNames.length) return part.append(empty("No metrics yet", "The curves appear with the first step of the run."));
    const grid = h("div", { class: "grid" });
    const fill = () => {
        clearCharts();
        grid.replaceChildren(...headline.map(([name, title, note]) => metricCard(name, { title, note })).filter(Boolean));
    };
    part.append(figuresTable(list), h("div", { class: "controls" }, smoothingControl(fill), zoomOut(),
        h("span", { class: "faint hint" }, "drag to zoom, double-click for the whole range")), grid);
    fill();
}

// ---- all metrics

const groupNames = [["train/", "Training"], ["validation/", "Validation"], ["performance/", "Performance"], ["timing/", "Time"], ["memory/", "Memory"]];
const groupOf = (name) => (groupNames.find(([prefix]) => name.startsWith(prefix)) || ["", "Other"]);

// The one value that a metric has in all runs shown and all steps, or undefined.
function constantOf(name) {
    let value, seen = false;
    for (const run of shownRuns())
        for (const [, at] of series(run, name)) {
            if (seen && !Object.is(at, value)) return undefined;
            value = at, seen = true;
        }
    return seen ? value : undefined;
}

function curves(part) {
    if (!metricNames.length) return part.append(empty("No metrics yet", "The curves appear with the first step of the run."));
    const groups = h("div", {});
    const search = h("input", { type: "search", placeholder: "Find a metric", "aria-label": "Find a metric", value: state.metric || "" });
    const scale = h("input", { type: "checkbox", checked: state.log });
    scale.checked = Boolean(state.log);
    const fill = () => {
        clearCharts();
        state.metric = search.value, state.log = scale.checked;
        const wanted = search.value.trim().toLowerCase().split(/\s+/);
        const names = metricNames.filter((name) => wanted.every((word) => name.toLowerCase().includes(word)));
        const sections = new Map();
        for (const name of names) {
            const [prefix, title] = groupOf(name);
            if (!sections.has(title)) sections.set(title, { prefix, names: [] });
            sections.get(title).names.push(name);
        }
        const order = [...groupNames.map(([, title]) => title), "Other"].filter((title) => sections.has(title));
        groups.replaceChildren(...order.map((title) => group(title, sections.get(title), wanted[0] !== "")));
        if (!names.length) groups.append(empty("No metric is named like this", search.value));
    };
    search.addEventListener("input", fill);
    scale.addEventListener("change", fill);
    part.append(h("div", { class: "controls" }, search, smoothingControl(fill), h("label", { class: "control" }, scale, "logarithmic"), zoomOut(),
        h("span", { class: "faint hint" }, "drag to zoom, double-click for the whole range")), groups);
    fill();
}

function group(title, { prefix, names }, searching) {
    const constants = [], cards = [];
    for (const name of names) {
        const value = constantOf(name);
        if (value !== undefined) constants.push([name, value]);
        else cards.push(metricCard(name, { log: state.log, title: name.slice(prefix.length) }));
    }
    const open = searching || !(state.closed || {})[title];
    const details = h("details", { class: "group", open }, h("summary", {}, h("h2", {}, title), h("span", { class: "faint" }, names.length)),
        h("div", { class: "grid" }, cards.filter(Boolean)),
        constants.length > 0 && h("div", { class: "card constants" }, h("h3", {}, "The same at every step"),
            h("dl", {}, constants.map(([name, value]) => h("div", {}, h("dt", { title: meanings[name] }, name.slice(prefix.length)), h("dd", {}, formatOf(name)(value)))))));
    details.addEventListener("toggle", () => { state.closed = { ...state.closed, [title]: !details.open }; });
    return details;
}
