// Settings and environments of the runs, beside each other.

// May be broken behind dots and the like.
const breakable = (name) => name.split(/(?<=[._/])/).flatMap((part) => [part, h("wbr")]);

// rows: [[name, [value of each run], differs], …]
function pairsTable(list, rows) {
    return h("div", { class: "card" }, h("div", { class: "scroll" }, h("table", { class: list.length > 1 && list.length < 4 ? "pairs few" : "pairs" },
        list.length > 1 && h("thead", {}, h("tr", {}, h("th", {}, ""), list.map((run) => h("th", {}, runName(run))))),
        h("tbody", {}, rows.map(([name, values, differs]) => h("tr", { class: differs && "differs" }, h("th", {}, breakable(name)),
            values.map((value) => h("td", {}, value === undefined ? h("span", { class: "faint" }, "–") : value))))))));
}

// [[name, values, differs], …] over all keys of the objects, in order.
function rowsOf(objects) {
    const names = [...new Set(objects.flatMap((object) => Object.keys(object)))];
    return names.map((name) => {
        const values = objects.map((object) => object[name]);
        return [name, values, values.some((value) => value !== values[0])];
    });
}

// Where a run writes differs always: behind all that tells runs apart.
const isPlace = (name) => name === "checkpointing.checkpoint_dir" || name === "logger.log_dir";

function settings(part) {
    const list = shownRuns().filter((run) => run.config);
    if (!list.length) return part.append(empty("No settings", "config.yaml is not among the files of the runs shown."));
    const rows = rowsOf(list.map((run) => run.config)).sort((a, b) => isPlace(a[0]) - isPlace(b[0])), differing = rows.filter(([, , differs]) => differs).length;
    const body = h("div", {});
    const search = h("input", { type: "search", placeholder: "Find a key or value", "aria-label": "Find a key or value", value: state.key || "" });
    if (state.which === undefined) state.which = list.length > 1 && differing ? "differing" : "all";
    const fill = () => {
        state.key = search.value;
        const wanted = search.value.trim().toLowerCase();
        const seen = rows.filter(([name, values, differs]) => (list.length < 2 || state.which === "all" || differs) &&
            (!wanted || name.toLowerCase().includes(wanted) || values.some((value) => String(value).toLowerCase().includes(wanted))));
        body.replaceChildren(seen.length ? pairsTable(list, state.which === "all" ? seen : seen.map(([name, values]) => [name, values, false])) : empty(wanted ? "No key or value is like this" : "The settings are the same", wanted ? search.value : "These runs differ in no key."));
    };
    search.addEventListener("input", fill);
    part.append(h("div", { class: "controls" }, list.length > 1 && segments("Which keys", [["differing", "Differing", differing], ["all", "All", rows.length]], state.which,
        (which) => { state.which = which; fill(); }), search), body);
    fill();
}

function flat(object, prefix, into) {
    for (const [name, value] of Object.entries(object || {})) {
        if (Array.isArray(value) && value.some((one) => one && typeof one === "object")) flatList(value, prefix + name + ".", into);
        else if (value && typeof value === "object" && !Array.isArray(value)) flat(value, prefix + name + ".", into);
        else into[prefix + name] = value === null ? "null" : Array.isArray(value) ? value.join(", ") : String(value);
    }
    return into;
}

// Of the objects of all ranks the values of each name: once when all agree, and not again what stands outside of the list.
function flatList(list, prefix, into) {
    for (const name of new Set(list.flatMap((object) => Object.keys(object)))) {
        if (name === "rank") continue; // the order
        const values = list.map((object) => String(object[name])), text = new Set(values).size === 1 ? values[0] : values.join(", ");
        if (into[name] !== text) into[prefix + name] = text;
    }
}

function environment(part) {
    const list = shownRuns().filter((run) => run.environment || run.folder);
    if (!list.length) return part.append(empty("No run is chosen", "Choose one above."));
    const rows = rowsOf(list.map((run) => ({ folder: run.folder, ...flat(run.environment, "", {}) })));
    part.append(pairsTable(list, rows.map(([name, values, differs]) => [words(name), values, differs && name !== "folder" && list.length > 1])));
}
