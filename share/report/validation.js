// Validations: which answers were gained and lost between two of them.

const hasValidations = (run) => run.validations && run.validations.list.length;

// Answers by question: Map of the question's text to {prompt, answers: [{text, reward, length}], score: mean reward or null}.
function answersOf(run, which) {
    const record = run.validations.list[which];
    record.byQuestion = record.byQuestion || (() => {
        const questions = chunk(run.validations.questions) || [], texts = chunk(record.chunk) || [], map = new Map();
        record.question.forEach((index, row) => {
            const prompt = questions[index] || [], key = JSON.stringify(prompt);
            if (!map.has(key)) map.set(key, { prompt, answers: [] });
            map.get(key).answers.push({ text: texts[row] || "", reward: record.reward[row], length: record.length[row] });
        });
        for (const entry of map.values()) {
            const rewards = finite(entry.answers.map((answer) => real(answer.reward)));
            entry.score = rewards.length ? mean(rewards) : null;
        }
        return map;
    })();
    return record.byQuestion;
}

const kinds = [["gained", "Gained"], ["lost", "Lost"], ["kept", "Above 0 in both"], ["neither", "In neither"], ["unscored", "Not scored"]];

function kindOf(before, after) {
    if (before.score === null || after.score === null) return "unscored";
    if (after.score !== before.score) return after.score > before.score ? "gained" : "lost";
    return after.score > 0 ? "kept" : "neither";
}

function validation(part) {
    const list = shownRuns().filter(hasValidations);
    if (!list.length) return part.append(empty("No validation", "Answers to held-out questions are in val_data_step<N>.jsonl, written by grpo.val_period, val_at_start and val_at_end."));
    const options = list.flatMap((run) => run.validations.list.map((record, which) => ({ id: run.name + "\n" + record.step, text: (list.length > 1 ? run.name + ", " : "") + "step " + record.step, run, which })));
    const find = (id, fallback) => options.find((option) => option.id === id) || fallback;
    const before = find(state.before, options[0]);
    const after = find(state.after, last(options.filter((option) => option.run === before.run)));
    const again = () => { part.replaceChildren(), clearCharts(), validation(part); };
    const choice = (label, key, option) => h("label", { class: "control" }, label, select(label, options.map((one) => [one.id, one.text]), option.id, (id) => { state[key] = id; again(); }));
    const cards = h("div", { class: "grid" }, metricCard("validation/accuracy", { title: "Held-out accuracy", window: 1 }), metricCard("validation/pass_k", { title: "Any sample of a question right", window: 1 }),
        metricCard("validation/avg_length", { title: "Length of an answer", window: 1 }));
    part.append(cards, h("h2", {}, "Answers gained and lost"), h("div", { class: "controls" }, choice("from", "before", before), choice("to", "after", after)));
    const pairs = pairsOf(answersOf(before.run, before.which), answersOf(after.run, after.which));
    if (!pairs.length) return part.append(empty("No question in common", "The two validations asked other questions."));
    const count = (kind) => pairs.filter((pair) => pair.kind === kind).length;
    const scored = pairs.filter((pair) => pair.kind !== "unscored"), body = h("div", {});
    const share = (side) => percent(mean(scored.map((pair) => pair[side].score)));
    const kind = state.kind && (state.kind === "all" || count(state.kind)) ? state.kind : count("gained") ? "gained" : count("lost") ? "lost" : "all";
    const fill = (chosen) => { state.kind = chosen, showPairs(body, chosen === "all" ? pairs : pairs.filter((pair) => pair.kind === chosen), before.text, after.text, 25); };
    part.append(h("p", { class: "soft" }, "Mean reward ", h("strong", {}, share("before")), " → ", h("strong", {}, share("after")), " on " + scored.length.toLocaleString("en") + " questions; ",
        h("span", { class: "good" }, count("gained") + " gained"), ", ", h("span", { class: "bad" }, count("lost") + " lost"), "."),
    h("div", {}, segments("Which questions", [["all", "All", pairs.length], ...kinds.filter(([key]) => count(key)).map(([key, text]) => [key, text, count(key)])], kind, fill)), body);
    fill(kind);
}

function pairsOf(before, after) {
    const pairs = [];
    for (const [key, one] of before) {
        const other = after.get(key);
        if (other) pairs.push({ prompt: one.prompt, before: one, after: other, kind: kindOf(one, other) });
    }
    return pairs;
}

function showPairs(body, pairs, before, after, most) {
    const side = (label, entry) => h("div", { class: "side" }, entry.answers.map((answer) => [
        h("div", { class: "role" }, label, rewardPill(answer.reward, 0, 1), answer.length !== null && h("span", { class: "faint" }, number(answer.length) + " tokens")),
        h("div", { class: "answer" }, visible(answer.text) || h("span", { class: "faint" }, "empty"))]));
    body.replaceChildren(...pairs.slice(0, most).map((pair) => h("article", { class: "card pair " + pair.kind }, ...promptView(pair.prompt),
        h("div", { class: "sides" }, side(before, pair.before), side(after, pair.after)))));
    if (pairs.length > most)
        body.append(h("button", { class: "button", type: "button", onclick: () => showPairs(body, pairs, before, after, most + 100) }, "Show more (" + (pairs.length - most).toLocaleString("en") + ")"));
}
