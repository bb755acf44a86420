#include "run/compare_shape.h"

typedef struct Entry {
    const char *name; // NULL ends a list
    json_type type;
} Entry;

// Whether value is an object with these entries; *wrong names the first that it lacks.
static bool has(const json_t *value, const Entry *entries, const char **wrong) {
    for (; entries->name; entries++) {
        const json_t *found = json_object_get(value, entries->name);
        *wrong = entries->name;
        if (!found || json_typeof(found) != entries->type) return false;
    }
    return true;
}

// The same of each object in the list under a name.
static bool each_has(const json_t *value, const char *name, const Entry *entries, const char **wrong) {
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(value, name), i, one) if (!has(one, entries, wrong)) return false;
    return true;
}

static bool has_texts(const json_t *value, const char *name, const char **wrong) {
    const json_t *one;
    size_t i;
    *wrong = name;
    json_array_foreach(json_object_get(value, name), i, one) if (!json_is_string(one)) return false;
    return true;
}

static bool has_memory(const json_t *summary, const char **wrong) {
    static const Entry by_value[] = {{"by_value", JSON_ARRAY}, {0}},
                       entries[] = {{"at_peak_mb", JSON_OBJECT}, {"by_phase_mb", JSON_OBJECT}, {0}};
    const json_t *rank;
    size_t i, values = json_array_size(json_object_get(summary, "values"));
    if (!each_has(summary, "memory", by_value, wrong)) return false;
    json_array_foreach(json_object_get(summary, "memory"), i, rank) {
        *wrong = "by_value";
        if (json_array_size(json_object_get(rank, "by_value")) != values || !each_has(rank, "by_value", entries, wrong))
            return false;
    }
    return true;
}

static bool has_runs(const json_t *summary, const char **wrong) {
    static const Entry whole[] = {{"seeds", JSON_ARRAY},        {"validations", JSON_ARRAY},
                                  {"environment", JSON_OBJECT}, {"proofs", JSON_OBJECT},
                                  {"arms", JSON_ARRAY},         {"accuracy", JSON_ARRAY},
                                  {"differences", JSON_ARRAY},  {0}},
                       proofs[] = {{"initial", JSON_ARRAY}, {0}},
                       arm[] = {{"value", JSON_STRING},         {"accuracy", JSON_ARRAY}, {"reward", JSON_ARRAY},
                                {"reward_average", JSON_ARRAY}, {"peak_mb", JSON_ARRAY},  {0}},
                       accuracy[] = {{"by_value", JSON_ARRAY}, {0}},
                       difference[] = {{"value", JSON_STRING},         {"against", JSON_STRING},
                                       {"verdict", JSON_STRING},       {"interval_questions", JSON_ARRAY},
                                       {"interval_seeds", JSON_ARRAY}, {"decisive", JSON_ARRAY},
                                       {"by_seed", JSON_ARRAY},        {0}},
                       seed[] = {{"interval", JSON_ARRAY}, {0}};
    const json_t *one;
    size_t i;
    if (!has(summary, whole, wrong) || !has(json_object_get(summary, "proofs"), proofs, wrong) ||
        !each_has(summary, "arms", arm, wrong) || !each_has(summary, "accuracy", accuracy, wrong) ||
        !each_has(summary, "differences", difference, wrong))
        return false;
    json_array_foreach(json_object_get(summary, "differences"), i,
                       one) if (!each_has(one, "by_seed", seed, wrong)) return false;
    return true;
}

bool compare_shape_check(bool *planned, const json_t *summary, Error *error) {
    static const Entry whole[] = {{"key", JSON_STRING},    {"baseline", JSON_STRING}, {"values", JSON_ARRAY},
                                  {"command", JSON_ARRAY}, {"memory", JSON_ARRAY},    {0}};
    const char *wrong;
    *planned = json_is_object(json_object_get(summary, "planned"));
    bool good = has(summary, whole, &wrong) && has_texts(summary, "values", &wrong) &&
                has_texts(summary, "command", &wrong) && has_memory(summary, &wrong) &&
                (*planned || has_runs(summary, &wrong));
    return good || error_set(error, "no summary of a comparison: '%s' is missing or of another kind", wrong);
}
