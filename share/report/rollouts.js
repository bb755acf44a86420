// The browser of rollouts: a list of all samples that is as long as it must be, with filters and order, and one sample with its group.

const rowHeight = 52;
const hasRollouts = (run) => run.rollouts && run.rollouts.reward.length;
const finishTitles = { stop: "stopped", length: "cut off", nan: "numbers lost" };

// What a list needs to know of each sample, once a run.
function indexOf(run) {
    if (run.samples) return run.samples;
    const { steps, first, prompt, reward } = run.rollouts, count = reward.length;
    const file = new Int32Array(count), groups = new Map(), rewards = reward.map(real);
    for (let at = 0, i = 0; i < count; i++) {
        while (at + 1 < first.length && i >= first[at + 1]) at++;
        file[i] = at;
        const key = at + ":" + prompt[i], group = groups.get(key);
        if (group) group.members.push(i), group.low = Math.min(group.low, rewards[i]), group.high = Math.max(group.high, rewards[i]);
        else groups.set(key, { members: [i], low: rewards[i], high: rewards[i] });
    }
    const numbers = finite(rewards);
    let low = Infinity, high = -Infinity;
    for (const value of numbers) low = Math.min(low, value), high = Math.max(high, value);
    run.samples = {
        count, file, steps, groupOf: (i) => groups.get(file[i] + ":" + prompt[i]), low: Math.min(0, low), high: Math.max(high, 0) || 1,
        columns: { step: Array.from(file, (at) => steps[at]), reward: rewards, advantage: run.rollouts.advantage.map(real), length: run.rollouts.length, logprob: run.rollouts.logprob.map(real) },
        text: (i) => {
            const part = chunk(run.rollouts.chunks[file[i]]), row = i - first[file[i]];
            return part ? { prompt: part.prompts[prompt[i]], answer: part.texts[row], marks: part.marks[row], logprobs: part.logprobs[row] } : { prompt: [], answer: "", marks: "", logprobs: "" };
        },
    };
    return run.samples;
}

const snippet = (text) => visible(text.length > 400 ? text.slice(0, 400) : text).replace(/\s+/g, " ");
const question = (prompt) => (prompt.length ? prompt[prompt.length - 1][1] : "");

function rollouts(part) {
    const run = chosenRun("rolloutRun", hasRollouts);
    if (!run) return part.append(empty("No rollouts", "The samples of a step are in train_data_step<N>.jsonl, written behind it; the page holds those that --rollout-steps lets in."));
    const samples = indexOf(run), view = { run, samples, order: [], search: 0 };
    const filter = state.filter = { step: "", group: "", finish: "", from: "", to: "", text: "", key: "step", down: false, ...state.filter };
    if (filter.step !== "" && !samples.steps.includes(Number(filter.step))) filter.step = "";
    view.list = h("div", { class: "list", tabindex: 0, role: "listbox", "aria-label": "Samples" }, view.space = h("div", { class: "space" }));
    view.detail = h("div", { class: "card detail" });
    view.counted = h("span", { class: "soft" });
    const again = () => { part.replaceChildren(), rollouts(part); };
    const changed = () => choose(view);
    const text = h("input", { type: "search", placeholder: "Find in questions and answers", "aria-label": "Find in questions and answers", value: filter.text, oninput: (event) => { filter.text = event.target.value, changed(); } });
    const bound = (name, label) => h("input", { type: "number", step: "any", placeholder: label, "aria-label": "reward " + label, value: filter[name], oninput: (event) => { filter[name] = event.target.value, changed(); } });
    const pick = (name, label, options) => select(label, options, filter[name], (value) => { filter[name] = value, changed(); });
    const finishes = [...new Set(run.rollouts.finish)].filter((value) => value !== null);
    part.append(h("div", { class: "controls" }, runSelect("rolloutRun", hasRollouts, again), text,
        pick("step", "Step", [["", "all steps"], ...samples.steps.map((step) => [String(step), "step " + step])]),
        pick("group", "Groups", [["", "all groups"], ["mixed", "mixed rewards"], ["equal", "equal rewards"]]),
        finishes.length > 1 && pick("finish", "Ending", [["", "any ending"], ...finishes.map((value) => [value, finishTitles[value] || value])]),
        h("span", { class: "control" }, "reward", bound("from", "from"), bound("to", "to")), view.counted),
    h("div", { class: "browser" }, h("div", { class: "card listing" }, view.head = h("div", { class: "row head" }), view.list), view.detail));
    view.list.addEventListener("scroll", () => drawRows(view));
    view.list.addEventListener("keydown", (event) => {
        const move = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
        if (move) event.preventDefault(), step(view, move);
    });
    new ResizeObserver(() => drawRows(view)).observe(view.list);
    choose(view);
}

// ---- which samples, in which order

function passes(view, i, filter, from, to) {
    const { run, samples } = view, reward = samples.columns.reward[i];
    if (filter.step !== "" && samples.columns.step[i] !== Number(filter.step)) return false;
    if (filter.finish !== "" && run.rollouts.finish[i] !== filter.finish) return false;
    if (from !== null && !(reward >= from)) return false;
    if (to !== null && !(reward <= to)) return false;
    if (filter.group !== "") {
        const group = samples.groupOf(i);
        if ((group.low !== group.high) !== (filter.group === "mixed")) return false;
    }
    return true;
}

function choose(view) {
    const filter = state.filter, { samples } = view, found = [];
    const from = filter.from === "" ? null : Number(filter.from), to = filter.to === "" ? null : Number(filter.to);
    for (let i = 0; i < samples.count; i++) if (passes(view, i, filter, from, to)) found.push(i);
    view.search++;
    if (filter.text.trim() === "") settle(view, found);
    else find(view, found, filter.text.trim().toLowerCase(), view.search);
}

// Reads the texts file by file, and lets the page live in between.
async function find(view, candidates, words, search) {
    const found = [];
    for (let at = 0, told = performance.now(); at < candidates.length;) {
        const file = view.samples.file[candidates[at]];
        for (; at < candidates.length && view.samples.file[candidates[at]] === file; at++) {
            const text = view.samples.text(candidates[at]);
            if (text.answer.toLowerCase().includes(words) || text.prompt.some((message) => message[1].toLowerCase().includes(words))) found.push(candidates[at]);
        }
        if (performance.now() - told < 40) continue;
        view.counted.textContent = "reading… " + Math.round(100 * at / candidates.length) + "\u202f%";
        await new Promise((resolve) => setTimeout(resolve));
        if (search !== view.search || !view.list.isConnected) return;
        told = performance.now();
    }
    settle(view, found);
}

function settle(view, found) {
    const { key, down } = state.filter, values = view.samples.columns[key], sign = down ? -1 : 1;
    const rank = (value) => (Number.isFinite(value) ? value : value === Infinity ? 1e300 : value === -Infinity ? -1e300 : null);
    found.sort((a, b) => {
        const x = rank(values[a]), y = rank(values[b]);
        if (x === null || y === null) return (x === null) - (y === null) || a - b; // what is no number stands last
        return sign * (x - y) || a - b;
    });
    view.order = found;
    const all = view.samples.count;
    view.counted.textContent = found.length === all ? all.toLocaleString("en") + " samples" : found.length.toLocaleString("en") + " of " + all.toLocaleString("en") + " samples";
    drawHead(view);
    view.space.style.height = Math.max(found.length * rowHeight, 1) + "px";
    view.list.scrollTop = 0;
    const keepPicked = found.includes(state.picked);
    show(view, keepPicked ? state.picked : found.length ? found[0] : null, false);
}

// ---- the list

const listColumns = [["step", "step"], ["reward", "reward"], ["advantage", "advantage"], ["length", "tokens"], ["logprob", "log-prob"]];

function drawHead(view) {
    const filter = state.filter;
    view.head.replaceChildren(...listColumns.map(([key, label]) => h("button", {
        type: "button", class: key === "reward" ? "" : "num", "aria-pressed": String(filter.key === key), title: key === "logprob" ? "mean over the answer's tokens" : null,
        onclick: () => {
            filter.down = filter.key === key ? !filter.down : key !== "step";
            filter.key = key;
            choose(view);
        },
    }, label, filter.key === key && h("span", { class: "arrow" }, filter.down ? "↓" : "↑"))), h("span", {}, "question and answer"));
}

function drawRows(view) {
    const first = Math.max(0, Math.floor(view.list.scrollTop / rowHeight) - 4), count = Math.ceil(view.list.clientHeight / rowHeight) + 8;
    const { samples } = view, rows = [];
    for (let at = first; at < Math.min(view.order.length, first + count); at++) {
        const i = view.order[at], text = samples.text(i), values = samples.columns;
        rows.push(h("div", { class: "row", role: "option", "aria-selected": String(i === state.picked), style: "top:" + at * rowHeight + "px", onclick: () => show(view, i, true) },
            h("span", { class: "num soft" }, values.step[i]), h("span", {}, rewardPill(view.run.rollouts.reward[i], samples.low, samples.high)),
            h("span", { class: "num" }, signed(short(values.advantage[i]), values.advantage[i])), h("span", { class: "num" }, values.length[i]), h("span", { class: "num" }, short(values.logprob[i])),
            h("span", { class: "lines" }, h("span", { class: "snippet soft" }, snippet(question(text.prompt))),
                h("span", { class: "snippet" }, snippet(text.answer) || h("span", { class: "faint" }, "empty")))));
    }
    view.space.replaceChildren(...rows);
    if (!view.order.length) view.space.append(h("div", { class: "nothing soft" }, "No sample is like this."));
}

const short = (value) => (Number.isFinite(value) ? fixed(value, 2) : number(value));

function step(view, move) {
    const at = view.order.indexOf(state.picked), next = Math.min(view.order.length - 1, Math.max(0, at + move));
    if (!view.order.length) return;
    const top = next * rowHeight, list = view.list;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
    show(view, view.order[next], false);
}

// ---- one sample

function show(view, i, asked) {
    state.picked = i;
    drawRows(view);
    view.detail.classList.toggle("open", asked);
    if (i === null) return view.detail.replaceChildren(h("div", { class: "empty" }, "Nothing to show."));
    const { run, samples } = view, text = samples.text(i), values = samples.columns, group = samples.groupOf(i), kept = run.rollouts.kept[i];
    const facts = [["step", number(values.step[i])], ["reward", rewardPill(run.rollouts.reward[i], samples.low, samples.high)], ["advantage", signed(number(values.advantage[i]), values.advantage[i])],
        ["tokens", number(values.length[i])], ["log-prob", number(values.logprob[i])], ["ending", finishTitles[run.rollouts.finish[i]] || run.rollouts.finish[i] || "–"]];
    const coloured = state.coloured !== false;
    const toggle = h("input", { type: "checkbox", onchange: (event) => { state.coloured = event.target.checked, show(view, i, asked); } });
    toggle.checked = coloured;
    const told = text.marks !== "";
    view.detail.replaceChildren(
        h("div", { class: "detail-head" }, h("button", { class: "button back", type: "button", onclick: () => view.detail.classList.remove("open") }, "‹ List"),
            h("dl", { class: "facts" }, facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
            h("span", { class: "steppers" }, h("button", { class: "button icon", type: "button", title: "Previous (k)", onclick: () => { step(view, -1), view.detail.classList.toggle("open", asked); } }, "↑"),
                h("button", { class: "button icon", type: "button", title: "Next (j)", onclick: () => { step(view, 1), view.detail.classList.toggle("open", asked); } }, "↓"))),
        kept ? "" : h("p", { class: "left-out" }, "Left out of the loss."),
        ...promptView(text.prompt),
        h("div", { class: "message" }, h("div", { class: "role" }, "Answer", told && h("label", { class: "control" }, toggle, "tokens by probability"), told && coloured && heatLegend()),
            text.answer || told ? tokensView(text.answer, text.marks, text.logprobs, coloured) : h("p", { class: "faint" }, "empty")),
        group.members.length > 1 ? h("div", { class: "message" }, h("div", { class: "role" }, "Samples of this question in this step (" + group.members.length + ")"),
            h("div", { class: "siblings" }, group.members.map((other) => h("button", { type: "button", class: "sibling", "aria-pressed": String(other === i), onclick: () => show(view, other, asked) },
                rewardPill(run.rollouts.reward[other], samples.low, samples.high), h("span", { class: "snippet" }, snippet(samples.text(other).answer) || h("span", { class: "faint" }, "empty")))))) : "");
    if (asked && view.detail.scrollTo) view.detail.scrollTo(0, 0);
}
