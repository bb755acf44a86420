// Memory by tag over the phases of a step, and the time of the phases.

const tagColors = ["#4269d0", "#97bbf5", "#e8890c", "#efc050", "#3ca951", "#12a5a0", "#d6579b", "#8a5cd6", "#c3a5f0", "#9c6b4e", "#e4572e", "#9aa2ad"];
const tagColor = (tag) => (data.tags.includes(tag) ? tagColors[data.tags.indexOf(tag) % tagColors.length] : "#9aa2ad");
const words = (name) => name.replaceAll("_", " ");

function chosenRun(key, has) {
    const able = shownRuns().filter(has);
    return able.find((run) => run.name === state[key]) || able[0];
}

function runSelect(key, has, change) {
    const able = shownRuns().filter(has);
    if (able.length < 2) return null;
    return h("label", { class: "control" }, "run", select("Run", able.map((run) => [run.name, run.name]), chosenRun(key, has).name, (name) => {
        state[key] = name;
        change();
    }));
}

// ---- memory

const hasMemory = (run) => run.memory && run.memory.list.length;

function memory(part) {
    const run = chosenRun("memoryRun", hasMemory);
    if (!run) return part.append(empty("No account of memory", "memory.json of a run is written with its first step."));
    const list = run.memory.list, steps = [...new Set(list.map((entry) => entry[0]))], ranks = [...new Set(list.map((entry) => entry[1]))].sort((a, b) => a - b);
    if (!steps.includes(state.memoryStep)) state.memoryStep = highestStep(list);
    if (!ranks.includes(state.memoryRank)) state.memoryRank = ranks[0];
    const again = () => { part.replaceChildren(), clearCharts(), memory(part); };
    const body = h("div", { class: "stack" });
    const fill = () => { clearCharts(), body.replaceChildren(...memoryBody(run)); };
    const shown = h("output", {}, String(state.memoryStep));
    const slider = h("input", {
        type: "range", min: 0, max: steps.length - 1, value: steps.indexOf(state.memoryStep), "aria-label": "step",
        oninput: (event) => {
            state.memoryStep = steps[Number(event.target.value)];
            shown.value = state.memoryStep;
            fill();
        },
    });
    part.append(h("div", { class: "controls" }, runSelect("memoryRun", hasMemory, again),
        ranks.length > 1 && h("label", { class: "control" }, "rank", select("Rank", ranks.map((rank) => [String(rank), String(rank)]), String(state.memoryRank),
            (rank) => { state.memoryRank = Number(rank); fill(); })),
        steps.length > 1 && h("label", { class: "control" }, "step", slider, shown),
        steps.length > 1 && h("button", { class: "button", type: "button", onclick: () => { state.memoryStep = highestStep(list); slider.value = steps.indexOf(state.memoryStep); shown.value = state.memoryStep; fill(); } }, "Highest step")), body);
    fill();
}

function highestStep(list) {
    return list.reduce((a, b) => (real(b[2]) > real(a[2]) ? b : a))[0];
}

function entryOf(run, step, rank) {
    return run.memory && (run.memory.list.find((entry) => entry[0] === step && entry[1] === rank));
}

function memoryBody(run) {
    const entry = entryOf(run, state.memoryStep, state.memoryRank);
    if (!entry) return [empty("No account of this step", "This rank wrote none.")];
    const profile = run.memory.profiles[entry[4]], phases = Object.keys(profile.peak_by_phase || {}).filter((phase) => phase !== "load"); // between the others
    phases.sort((a, b) => data.phases.indexOf(a) - data.phases.indexOf(b));
    const tags = [...data.tags, ...Object.keys(profile.peak_by_tag || {}).filter((tag) => !data.tags.includes(tag))]
        .filter((tag) => phases.some((phase) => profile.peak_by_phase[phase][tag]));
    const sets = tags.map((tag) => ({ label: words(tag), color: tagColor(tag), values: phases.map((phase) => profile.peak_by_phase[phase][tag] || 0) }));
    return [
        h("div", { class: "grid wide" },
            h("figure", { class: "card" },
                h("figcaption", { class: "card-head" }, h("h3", {}, "Alive at the peak of each phase"), h("span", { class: "value" }, "step " + entry[0])),
                plot((canvas) => barChart(canvas, { name: "memory by phase and tag", labels: phases, sets, format: bytes, lying: true }), true), legend(sets)),
            tagTable(run, entry, profile)),
        h("div", { class: "grid wide" }, metricCard("memory/peak_memory_allocated_mb", { title: "Peak by step", window: 1 }), ranksCard(run)),
    ];
}

function tagTable(run, entry, profile) {
    const at = profile.at_peak || {}, peak = profile.peak_by_tag || {};
    const tags = Object.keys(peak).sort((a, b) => (at[b] || 0) - (at[a] || 0));
    const total = Object.values(at).reduce((sum, value) => sum + value, 0);
    const others = shownRuns().filter((other) => other !== run && entryOf(other, entry[0], entry[1]));
    const other = others[0], its = other && other.memory.profiles[entryOf(other, entry[0], entry[1])[4]].at_peak;
    const difference = (mine, yours) => h("td", { class: "num soft" }, mine === yours ? "=" : signed(bytes(mine - yours), mine - yours));
    const sum = (object) => Object.values(object || {}).reduce((a, b) => a + b, 0);
    return h("div", { class: "card" }, h("div", { class: "card-head" }, h("h3", {}, "Alive at the step's peak"), h("span", { class: "value" }, bytes(total))),
        h("div", { class: "scroll" }, h("table", {},
            h("thead", {}, h("tr", {}, h("th", {}, "tag"), h("th", { class: "bar-cell" }), h("th", { class: "num" }, "at the peak"), h("th", { class: "num" }, "share"),
                h("th", { class: "num", title: "at whatever moment" }, "own peak"), other && h("th", { class: "num" }, "against " + other.name))),
            h("tbody", {}, tags.map((tag) => h("tr", {}, h("td", {}, h("span", { class: "run-name" }, h("span", { class: "swatch", color: tagColor(tag) }), words(tag))),
                h("td", { class: "bar-cell" }, h("span", { class: "bar", color: tagColor(tag), style: "width:" + 100 * (at[tag] || 0) / total + "%" })),
                h("td", { class: "num" }, bytes(at[tag] || 0)), h("td", { class: "num soft" }, percent((at[tag] || 0) / total)),
                h("td", { class: "num soft" }, bytes(peak[tag])), other && difference(at[tag] || 0, (its || {})[tag] || 0))),
            h("tr", { class: "total" }, h("td", {}, "together"), h("td", { class: "bar-cell" }), h("td", { class: "num" }, bytes(total)), h("td", {}), h("td", {}),
                other && difference(total, sum(its)))))),
        real(entry[3]) !== null && h("p", { class: "card-note" }, "The operating system saw " + bytes(real(entry[3]) * 1048576) + " of this process at most, since it began."));
}

function ranksCard(run) {
    const ranks = [...new Set(run.memory.list.map((entry) => entry[1]))].sort((a, b) => a - b);
    if (ranks.length < 2) return null;
    const lines = ranks.map((rank, index) => ({
        label: "rank " + rank, color: colorAt(index),
        points: run.memory.list.filter((entry) => entry[1] === rank).map((entry) => [entry[0], real(entry[2]) * 1048576]),
    }));
    return h("figure", { class: "card" }, h("figcaption", { class: "card-head" }, h("h3", {}, "Peak of each rank")),
        plot((canvas) => lineChart(canvas, { name: "peak of each rank", lines, format: bytes, window: 1 })), legend(lines));
}

// ---- time

const timePrefix = "timing/train/", timeTotal = timePrefix + "total_step_time";
const hasTimes = (run) => column(run, timeTotal).length > 0;
const phaseTitles = {
    "generation": "generation", "policy_training": "training", "policy_and_reference_logprobs": "reference log-probs", "reward_calculation": "rewards",
    "prepare_for_generation/total": "refit", "advantage_calculation": "advantages", "checkpointing": "checkpoint", validation: "validation", rest: "the rest",
};
const timeColors = { "generation": "#4269d0", "policy_training": "#e8890c", "policy_and_reference_logprobs": "#3ca951", validation: "#8a5cd6", "prepare_for_generation/total": "#12a5a0",
    "reward_calculation": "#d6579b", "advantage_calculation": "#9c6b4e", "checkpointing": "#efc050" };

// [{key, label, color, values: seconds by row}, …] of the rows with a step; the rest makes up the total.
function timesOf(run) {
    const total = column(run, timeTotal), rows = total.map((value, row) => row).filter((row) => total[row] !== null);
    const check = column(run, "timing/validation/total_validation_time");
    const parts = metricNames.filter((name) => name.startsWith(timePrefix) && name !== timeTotal)
        .map((name) => [name.slice(timePrefix.length), column(run, name)]);
    parts.push(["validation", check]);
    const list = parts.map(([key, values], index) => ({
        key, label: phaseTitles[key] || words(key), color: timeColors[key] || colorAt(index), values: rows.map((row) => (Number.isFinite(values[row]) ? values[row] : 0)),
    })).filter((part) => part.values.some((value) => value > 0));
    const rest = rows.map((row, index) => Math.max(0, total[row] - list.reduce((sum, part) => sum + part.values[index], 0)));
    list.sort((a, b) => mean(b.values) - mean(a.values));
    list.push({ key: "rest", label: phaseTitles.rest, color: "#9aa2ad", values: rest });
    return { steps: rows.map((row) => run.metrics.steps[row]), total: rows.map((row) => total[row]), parts: list };
}

function timing(part) {
    const run = chosenRun("timeRun", hasTimes);
    if (!run) return part.append(empty("No times yet", "They are written with the first step of a run."));
    const again = () => { part.replaceChildren(), clearCharts(), timing(part); };
    const times = timesOf(run);
    part.append(h("div", { class: "controls" }, runSelect("timeRun", hasTimes, again)),
        h("figure", { class: "card" }, h("figcaption", { class: "card-head" }, h("h3", {}, "Time of each step, by phase"), h("span", { class: "value" }, "mean " + seconds(mean(times.total)))),
            plot((canvas) => barChart(canvas, { name: "time by phase", labels: times.steps, sets: times.parts, format: seconds, head: (step) => "step " + step }), true), legend(times.parts)),
        timeTable());
}

function timeTable() {
    const list = shownRuns().filter(hasTimes), all = list.map(timesOf);
    const keys = [...new Set(all.flatMap((times) => times.parts.map((part) => part.key)))].filter((key) => key !== "rest");
    keys.push("rest");
    const valueOf = (times, key) => mean((times.parts.find((part) => part.key === key) || { values: [0] }).values);
    const row = (label, values, totals, css) => h("tr", { class: css }, h("td", {}, label), values.map((value, index) => [
        h("td", { class: "num" }, seconds(value)), h("td", { class: "num soft" }, percent(value / totals[index])),
        index > 0 && h("td", { class: "num soft" }, values[0] ? signed(percent(value / values[0] - 1), value - values[0]) : "–")]));
    const totals = all.map((times) => mean(times.total));
    return h("div", { class: "card" }, h("div", { class: "card-head" }, h("h3", {}, "Mean over the steps")), h("div", { class: "scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "phase"), list.map((run, index) => [h("th", { class: "num" }, list.length > 1 ? run.name : "time"), h("th", { class: "num" }, "share"),
            index > 0 && h("th", { class: "num" }, "against " + list[0].name)]))),
        h("tbody", {}, keys.map((key) => row(phaseTitles[key] || words(key), all.map((times) => valueOf(times, key)), totals)),
            row("a step", totals, totals, "total")))));
}
