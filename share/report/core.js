// The data, what is chosen, and small tools. Texts of a run reach the page as text nodes only.

const data = JSON.parse(document.getElementById("data").textContent);
const isDark = () => document.documentElement.dataset.theme === "dark";
const lightColors = ["#3e63c9", "#e07f00", "#2f9e49", "#d9482b", "#8053cf", "#0c9a95", "#cf4a90", "#8f6146", "#6f88c4", "#7b838e"];
const darkColors = ["#7c9cf8", "#f2a33c", "#5fc878", "#ff7d66", "#b18cf5", "#3cc7c0", "#f085b8", "#c99a7c", "#a9bbe8", "#a3abb6"];
const colorAt = (index) => (isDark() ? darkColors : lightColors)[index % lightColors.length];
const runs = data.runs.map((run, index) => ({ ...run, get color() { return colorAt(index); } }));

// ---- what is chosen; kept while the page reads itself again

const store = "whet-report:" + location.pathname;
const enough = runs.some((run) => run.metrics && run.metrics.steps.length >= 50); // for a moving average
const state = { hidden: {}, smoothing: enough ? 10 : 1, scroll: 0 };
try { Object.assign(state, JSON.parse(sessionStorage.getItem(store) || "{}")); } catch (error) { /* no storage: nothing is kept */ }
function keep() {
    try { sessionStorage.setItem(store, JSON.stringify(state)); } catch (error) { /* as above */ }
}
const shownRuns = () => runs.filter((run) => !state.hidden[run.name]);

// ---- elements

// h("td", { class: "num", onclick: … }, "text", element, [more])
function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (name === "color") element.style.setProperty("--color", value);
        else if (name === "style") element.style.cssText += value;
        else if (name === "value") element.value = value;
        else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
}

function svg(path) {
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("viewBox", "0 0 24 24");
    picture.setAttribute("aria-hidden", "true");
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
    shape.setAttribute("d", path);
    picture.append(shape);
    return picture;
}

const dot = (run) => h("span", { class: "dot", color: run.color });
const runName = (run) => h("span", { class: "run-name" }, runs.length > 1 && dot(run), run.name);
const empty = (title, text) => h("div", { class: "card empty" }, h("strong", {}, title), text);

function select(label, options, value, change) {
    const box = h("select", { "aria-label": label, onchange: () => change(box.value) },
        options.map(([key, text]) => h("option", { value: key }, text)));
    box.value = value;
    return box;
}

function segments(label, options, value, change) {
    const group = h("div", { class: "segments", role: "group", "aria-label": label });
    for (const [key, text, count] of options) {
        const button = h("button", { type: "button", "aria-pressed": String(key === value) }, text,
            count !== undefined && h("span", { class: "count" }, count.toLocaleString("en")));
        button.addEventListener("click", () => {
            for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
            change(key);
        });
        group.append(button);
    }
    return group;
}

// ---- numbers

// Numbers that are not finite are texts in the data.
function real(value) {
    if (typeof value === "number") return value;
    return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value === "nan" ? NaN : null;
}

function fixed(value, digits) {
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
}

// Four significant digits, as short as they can be read.
function number(value) {
    if (value === null || value === undefined) return "–";
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (Number.isInteger(value) && size < 1e6) return fixed(value, 0);
    if (size < 1e-3 || size >= 1e7) {
        const [mantissa, exponent] = value.toExponential(2).split("e");
        return mantissa.replace("-", "−") + "e" + exponent.replace("+", "").replace("-", "−");
    }
    const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
    return fixed(value, digits);
}

// Without zeros that say nothing, for the ticks of an axis.
const trimmed = (text) => text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB"];
const byteUnit = (value) => Math.min(byteUnits.length - 1, Math.floor(Math.log2(Math.max(1, Math.abs(value))) / 10));

function bytes(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return number(value);
    const unit = byteUnit(value), scaled = value / 1024 ** unit, size = Math.abs(scaled);
    return fixed(scaled, unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2) + "\u202f" + byteUnits[unit];
}

const mebibytes = (value) => bytes(value === null ? null : value * 1048576);

function seconds(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return number(value);
    if (value === 0) return "0\u202fs";
    if (value < 1e-3) return fixed(value * 1e6, 0) + "\u202fµs";
    if (value < 1) return fixed(value * 1e3, value < 0.01 ? 2 : value < 0.1 ? 1 : 0) + "\u202fms";
    if (value < 120) return fixed(value, value < 10 ? 2 : 1) + "\u202fs";
    const minutes = Math.round(value / 60);
    return minutes < 120 ? fixed(value / 60, 1) + "\u202fmin" : Math.floor(minutes / 60) + "\u202fh " + String(minutes % 60).padStart(2, "0") + "\u202fmin";
}

// The unit in which ticks up to a value are written; none for what has no units.
function unitOf(format, highest) {
    if (format === bytes) return { size: 1024 ** byteUnit(highest), name: byteUnits[byteUnit(highest)] };
    if (format === mebibytes) return { size: 1024 ** (byteUnit(highest * 1048576) - 2), name: byteUnits[byteUnit(highest * 1048576)] };
    if (format !== seconds) return null;
    const [size, name] = highest < 1e-3 ? [1e-6, "µs"] : highest < 1 ? [1e-3, "ms"] : highest < 120 ? [1, "s"] : highest < 7200 ? [60, "min"] : [3600, "h"];
    return { size, name };
}

const percent = (value) => (value === null || !Number.isFinite(value) ? number(value) : fixed(100 * value, 1) + "\u202f%");
const signed = (text, value) => (value > 0 ? "+" + text : text);

// How a metric is written, by its name.
function formatOf(name) {
    if (name.startsWith("timing/")) return seconds;
    if (name === "memory/peak_memory_allocated_mb") return mebibytes;
    if (name.startsWith("memory/")) return bytes;
    return number;
}

// ---- metrics

function column(run, name) {
    const values = run.metrics && run.metrics.columns[name];
    return values ? values.map(real) : [];
}

// The points of a metric: [[step, value], …], without the steps that have none.
function series(run, name) {
    const steps = run.metrics ? run.metrics.steps : [], points = [];
    column(run, name).forEach((value, row) => { if (value !== null) points.push([steps[row], value]); });
    return points;
}

const finite = (values) => values.filter((value) => Number.isFinite(value));
const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
const last = (list) => (list.length ? list[list.length - 1] : null);

// The mean over the numbers of the last `window` steps.
function smooth(points, window) {
    if (window < 2) return points;
    const recent = [];
    return points.map(([step, value]) => {
        if (Number.isFinite(value)) recent.push([step, value]);
        while (recent.length && recent[0][0] <= step - window) recent.shift();
        return [step, recent.length ? mean(recent.map((point) => point[1])) : value];
    });
}

const metricNames = (() => {
    const names = new Set();
    for (const run of runs) for (const name of Object.keys(run.metrics ? run.metrics.columns : {})) names.add(name);
    return [...names];
})();

const meanings = {
    "train/reward": "mean reward of the step's samples",
    "train/loss": "policy loss, mean over the optimizer steps",
    "train/kl_penalty": "divergence from the reference policy",
    "train/grad_norm": "norm of the gradient before clipping",
    "train/approx_entropy": "entropy of the policy, from the sampled tokens",
    "train/max_abs_logprob_error": "largest difference between sampler and trainer; 0: the same bits",
    "train/frac_reward_zero_std": "share of the groups whose rewards are all equal: nothing to learn from",
    "train/truncation_rate": "share of the answers that were cut off by a limit",
    "train/mean_gen_tokens_per_sample": "tokens of an answer",
    "train/probs_ratio": "new over old probability of the sampled tokens",
    "train/token_mult_prob_error": "mean of exp |log-prob of trainer − log-prob of sampler|",
    "train/lr": "learning rate",
    "validation/accuracy": "mean reward of the held-out questions",
    "validation/avg_length": "tokens of an answer to a held-out question",
    "timing/train/total_step_time": "wall time of a step",
    "memory/peak_memory_allocated_mb": "most device memory that was alive at once",
    "performance/tokens_per_sec": "prompt and answer tokens of a step per second",
};

// ---- chunks of text

const parsed = new Map(); // the newest 32
function chunk(number) {
    if (!parsed.has(number)) {
        const element = document.getElementById("chunk" + number);
        parsed.set(number, element ? JSON.parse(element.textContent) : null);
        if (parsed.size > 32) parsed.delete(parsed.keys().next().value);
    }
    return parsed.get(number);
}

// ---- the tip at the pointer

const tip = document.getElementById("tip");
function showTip(x, y, ...content) {
    tip.replaceChildren(...content);
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), edge = 8;
    const left = x + 14 + box.width > innerWidth - edge ? x - 14 - box.width : x + 14;
    tip.style.left = Math.max(edge, Math.min(left, innerWidth - box.width - edge)) + "px";
    tip.style.top = Math.max(edge, Math.min(y + 14, innerHeight - box.height - edge)) + "px";
}
const hideTip = () => { tip.hidden = true; };
