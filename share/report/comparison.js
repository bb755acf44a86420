// A comparison's summary.json: what it says, in its own order.

const keyTitle = (key) => { const text = words(key); return text.charAt(0).toUpperCase() + text.slice(1); };
const plain = (value) => value === null || typeof value !== "object";

function scalar(value) {
    if (typeof value === "number") return number(value);
    if (typeof value === "boolean") return value ? "yes" : "no";
    return value === null ? "–" : value === "nan" ? "NaN" : String(value);
}

// Objects of equal keys as a table, other objects as pairs, one below the other.
function summaryView(value) {
    if (plain(value)) return h("span", {}, scalar(value));
    const entries = Array.isArray(value) ? value.map((item, index) => [String(index + 1), item]) : Object.entries(value);
    if (!entries.length) return h("span", { class: "faint" }, "none");
    if (entries.every(([, item]) => plain(item)))
        return Array.isArray(value) ? h("span", {}, value.map(scalar).join(", ")) : h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, entries.map(([key, item]) =>
            h("tr", {}, h("td", { class: "soft" }, words(key)), h("td", { class: typeof item === "number" ? "num" : "" }, scalar(item)))))));
    const rows = entries.map(([, item]) => item);
    if (rows.every((item) => item && typeof item === "object" && !Array.isArray(item) && Object.values(item).every(plain))) {
        const keys = [...new Set(rows.flatMap(Object.keys))];
        return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, !Array.isArray(value) && h("th", {}), keys.map((key) => h("th", { class: rows.some((row) => typeof row[key] === "number") ? "num" : "" }, words(key))))),
            h("tbody", {}, entries.map(([name, row]) => h("tr", {}, !Array.isArray(value) && h("th", {}, name), keys.map((key) =>
                h("td", { class: typeof row[key] === "number" ? "num" : "" }, row[key] === undefined ? "" : scalar(row[key]))))))));
    }
    return h("dl", { class: "nested" }, entries.map(([key, item]) => [h("dt", {}, words(key)), h("dd", {}, summaryView(item))]));
}

function comparison(part) {
    const entries = Object.entries(data.summary), facts = entries.filter(([, value]) => plain(value)), rest = entries.filter(([, value]) => !plain(value));
    if (facts.length) part.append(h("div", { class: "card" }, summaryView(Object.fromEntries(facts))));
    part.append(...rest.map(([key, value]) => h("div", { class: "card" }, h("div", { class: "card-head" }, h("h3", {}, keyTitle(key))), summaryView(value))));
}
