// What `whet compare` found: its summary.json (src/run/compare_summary.h).

const found = data.summary || {};
const points = (value) => (Number.isFinite(value) ? signed(fixed(100 * value, 2), value) : "–"); // of a hundred

// An interval on a line with 0 and the margin.
function intervalPicture([low, high], effect, margin) {
    const width = 360, height = 46, reach = 1.25 * Math.max(margin, Math.abs(low), Math.abs(high), 1e-6);
    const x = (value) => width / 2 + (width / 2) * value / reach;
    const shape = (tag, attributes, text) => {
        const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
        if (text) element.textContent = text;
        return element;
    };
    const picture = shape("svg", { viewBox: "0 0 " + width + " " + height, class: "interval", role: "img", "aria-label": "interval of the difference" });
    const close = margin > 0 && x(0) - x(-margin) < 30; // the labels
    const line = (value, css, label, anchor) => {
        picture.append(shape("line", { x1: x(value), x2: x(value), y1: 2, y2: 30, class: css }));
        picture.append(shape("text", { x: x(value), y: 43, "text-anchor": close ? anchor : "middle" }, label));
    };
    line(0, "zero", "0", "start");
    if (margin > 0) line(-margin, "margin", "−" + trimmed(fixed(100 * margin, 1)), "end");
    picture.append(shape("line", { x1: x(low), x2: x(high), y1: 16, y2: 16, class: "range" }));
    for (const end of [low, high]) picture.append(shape("line", { x1: x(end), x2: x(end), y1: 11, y2: 21, class: "range" }));
    picture.append(shape("circle", { cx: x(effect), cy: 16, r: 4.5 }));
    return picture;
}

function verdictCard(one) {
    const css = one.verdict === "not worse" ? "good" : one.verdict === "worse" ? "bad" : "open", between = (pair) => points(pair[0]) + " to " + points(pair[1]);
    const seen = Number.isFinite(one.interval_seeds[0]) ? one.interval_seeds : one.interval_questions, widened = one.decisive.some((end, index) => end !== seen[index]);
    return h("div", { class: "card verdict " + css },
        h("div", { class: "card-head" }, h("h3", {}, one.value + " against " + one.against), h("span", { class: "value" }, number(one.questions) + " questions",
            one.left_out > 0 && ", " + number(one.left_out) + " left out")),
        h("div", { class: "verdict-row" }, h("div", {}, h("div", { class: "verdict-word" }, one.verdict),
            h("div", { class: "soft" }, "held-out accuracy ", h("strong", {}, points(one.effect)), " points")), intervalPicture(one.decisive, one.effect, found.margin)),
        h("p", { class: "card-note" }, "The interval drawn decides: " + between(one.decisive) + (widened ? ", as wide as " + number(one.questions) + " questions leave it" : "") + ". 95 % interval over questions " + between(one.interval_questions) + (Number.isFinite(one.interval_seeds[0]) ?
            "; with the spread from seed to seed " + between(one.interval_seeds) : "; one seed says nothing of the spread between seeds") + ". Margin " + points(found.margin).replace("+", "") + " points."),
        h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["seed", "points", "95 % interval", "gained", "lost", "McNemar p"].map((title) => h("th", { class: "num" }, title)))),
            h("tbody", {}, one.by_seed.map((seed) => h("tr", {}, h("td", { class: "num" }, String(seed.seed)), h("td", { class: "num" }, points(seed.effect)),
                h("td", { class: "num soft" }, between(seed.interval)), h("td", { class: "num" }, number(seed.gained)), h("td", { class: "num" }, number(seed.lost)),
                h("td", { class: "num" }, number(seed.mcnemar_p))))))));
}

// One line for each value: the mean over its seeds; the arms faint behind it.
function meanCard(title, key, steps, format) {
    const lines = found.values.map((value, index) => {
        const arms = found.arms.filter((arm) => arm.value === value), length = Math.max(...arms.map((arm) => arm[key].length));
        return { label: value, color: colorAt(index), points: Array.from({ length }, (_, at) => [steps ? steps[at] : at + 1, mean(finite(arms.map((arm) => arm[key][at])))]) };
    });
    return h("figure", { class: "card" }, h("figcaption", { class: "card-head" }, h("h3", {}, title)), plot((canvas) => lineChart(canvas, { name: title, lines, format, window: 1 })), legend(lines));
}

function memoryCard() {
    const against = (value, base) => (value === base ? "=" : signed(mebibytes(value - base).replace("-", "−"), value - base) + " (" + signed(percent(value / base - 1), value - base) + ")");
    const rows = found.memory.flatMap(({ rank, by_value: values }) => {
        const row = (label, read, css) => h("tr", { class: css }, h("td", {}, label), values.map((value, index) => [h("td", { class: "num" }, mebibytes(read(value))),
            index > 0 && h("td", { class: "num soft" }, against(read(value), read(values[0])))]));
        const tags = Object.keys(values[0].at_peak_mb).filter((tag) => values.some((value) => value.at_peak_mb[tag] > 0));
        return [row(found.memory.length > 1 ? "rank " + rank + ", peak" : "peak", (value) => value.peak_mb, "total"), ...tags.map((tag) => row(h("span", { class: "run-name" }, h("span", { class: "swatch", color: tagColor(tag) }), words(tag)), (value) => value.at_peak_mb[tag]))];
    });
    return h("div", { class: "card" }, h("div", { class: "card-head" }, h("h3", {}, "Memory alive at the peak"), h("span", { class: "value" }, "mean over the updates" + (found.warm_up ? " but the first" + (found.warm_up > 1 ? " " + number(found.warm_up) : "") : ""))),
        h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}), found.values.map((value, index) => [h("th", { class: "num" }, value), index > 0 && h("th", { class: "num" }, "against " + found.baseline)]))),
            h("tbody", {}, rows))));
}

function accuracyCard() {
    return h("div", { class: "card" }, h("div", { class: "card-head" }, h("h3", {}, "Held-out accuracy"), h("span", { class: "value" }, "mean over " + found.seeds.length + (found.seeds.length === 1 ? " seed" : " seeds"))),
        h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { class: "num" }, "step"), found.values.map((value, index) => [h("th", { class: "num" }, value), index > 0 && h("th", { class: "num" }, "points")]))),
            h("tbody", {}, found.accuracy.map((row) => h("tr", {}, h("td", { class: "num" }, number(row.step)), row.by_value.map((value, index) => [h("td", { class: "num" }, number(value)),
                index > 0 && h("td", { class: "num soft" }, points(value - row.by_value[0]))])))))));
}

function comparison(part) {
    const proofs = found.proofs || {}, initial = proofs.initial || [], differing = initial.reduce((sum, one) => sum + one.differing, 0), asked = initial.reduce((sum, one) => sum + one.answers, 0);
    part.append(h("p", { class: "soft" }, "What changes is ", h("span", { class: "mono" }, found.key), ": ", found.values.join(", "), (found.seeds.length > 1 ? ". Seeds " : ". Seed ") + found.seeds.join(", ") + ", " + number(found.steps) + " steps each."),
        h("div", { class: "grid wide" }, found.differences.map(verdictCard)),
        h("div", { class: "grid" }, meanCard("Held-out accuracy", "accuracy", found.validations, number), meanCard("Training reward, moving average of 10", "reward_average", null, number),
            meanCard("Peak memory", "peak_mb", null, mebibytes)),
        memoryCard(), accuracyCard(),
        h("div", { class: "card" }, h("div", { class: "card-head" }, h("h3", {}, "Why the arms may be compared")), h("ul", { class: "proofs" },
            h("li", {}, "The resolved recipes differ in ", h("span", { class: "mono" }, proofs.differing_key || "?"), proofs.computed_keys && [" and what follows from it, ", h("span", { class: "mono" }, proofs.computed_keys)], ", and in places of output."),
            h("li", {}, differing ? "Before training the same questions were asked. " + number(differing) + " of " + number(asked) + " answers are not the baseline's: the key acts on what the model computes before it is trained."
                : "All " + number(asked) + " answers before training are the baseline's, byte for byte."),
            h("li", {}, "The prompts come in the same order in all " + number(proofs.steps_with_the_same_prompts) + " steps.")),
        found.command && h("p", { class: "mono soft", style: "margin-top:8px;overflow-wrap:anywhere" }, "whet compare " + found.command.join(" "))));
}
