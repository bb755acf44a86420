#include "run/compare_arms.h"

#include "base/file.h"
#include "base/int64.h"
#include "base/log.h"
#include "config/explain.h"
#include "config/recipe.h"
#include "config/settings_suggest.h"
#include "run/compare_pairs.h"
#include "run/report.h"
#include "run/train_command.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { MOST_VALUES = 64, MOST_SEEDS = 1000 };

CompareArm *compare_arms_at(const Comparison *c, int value, int seed) {
    return &c->arms[value * c->seed_count + seed];
}

// --- one key ----------------------------------------------------------------------------------------------------------

static bool is_output(const char *key) {
    return !strcmp(key, "logger.log_dir") || !strcmp(key, "checkpointing.checkpoint_dir");
}

// Whether both recipes compute the key's value from others by the same formula.
static bool is_computed(const Settings *one, const Settings *other, const char *key) {
    const Value *a = value_find(one->tree, key), *b = value_find(other->tree, key);
    return a && b && a->formula && b->formula && !strcmp(a->formula, b->formula);
}

// Whether two values of `key`, which the varied key lies within, are the same but for that.
static bool same_besides(const Comparison *c, const Settings *one, const Settings *other, const char *key) {
    const Value *a = value_find(one->tree, key), *b = value_find(other->tree, key);
    if (!strcmp(key, c->key)) return true;
    if (!a || !b || a->kind != b->kind || value_count(a) != value_count(b)) return false;
    for (const Value *child = a->first; child; child = child->next) {
        const char *path = value_path(c->arena, child);
        if (settings_key_at_or_below(c->key, path)
                ? !same_besides(c, one, other, path)
                : strcmp(explain_value(c->arena, one, path), explain_value(c->arena, other, path)))
            return false;
    }
    return true;
}

// Refuses an arm whose recipe differs from that of the baseline with the same seed in a key that is neither the varied one, nor
// computed, nor an output path. Fills *differs, and appends the computed keys to following where they are not yet.
static bool check_value(const Comparison *c, const CompareArm *arm, const CompareArm *baseline, bool *differs,
                        StrBuf *following, Error *error) {
    ExplainChange *changes;
    int64_t count = explain_differing(&changes, c->arena, baseline->settings, arm->settings);
    *differs = false;
    for (int64_t i = 0; i < count; i++) {
        const char *key = changes[i].key;
        if (is_output(key)) continue;
        if (settings_key_at_or_below(key, c->key) ||
            (settings_key_at_or_below(c->key, key) && same_besides(c, baseline->settings, arm->settings, key))) {
            *differs = true;
        } else if (!is_computed(baseline->settings, arm->settings, key)) {
            return error_set(error, "%s and %s differ in a second key besides %s: %s is %s and %s", baseline->folder,
                             arm->folder, c->key, key, changes[i].before, changes[i].after);
        } else {
            *differs = *differs || strcmp(arm->value, baseline->value); // a key that acts through others alone
            if (!strstr(following->text, key)) strbuf_format(following, "%s%s", following->length ? ", " : "", key);
        }
    }
    return true;
}

// Whether a key differs as the seeds do.
static bool is_seed(Arena *arena, const ExplainChange *change, const CompareArm *before, const CompareArm *after) {
    return !strcmp(change->before, arena_format(arena, "%lld", (long long)before->seed)) &&
           !strcmp(change->after, arena_format(arena, "%lld", (long long)after->seed));
}

// The same between seeds of the baseline: they may differ in the seed, and in what is the seed in both.
static bool check_seed(const Comparison *c, const CompareArm *arm, Error *error) {
    ExplainChange *changes;
    int64_t count = explain_differing(&changes, c->arena, c->arms->settings, arm->settings);
    for (int64_t i = 0; i < count; i++)
        if (!is_output(changes[i].key) && !is_seed(c->arena, &changes[i], c->arms, arm) &&
            !is_computed(c->arms->settings, arm->settings, changes[i].key))
            return error_set(error, "%s and %s, which should differ in the seed, differ in %s: it is %s and %s",
                             c->arms->folder, arm->folder, changes[i].key, changes[i].before, changes[i].after);
    return true;
}

static bool check_recipes(Comparison *c, Error *error) {
    StrBuf following = {0};
    bool good = true, differs;
    strbuf_clear(&following);
    for (int s = 1; s < c->seed_count && good; s++) good = check_seed(c, compare_arms_at(c, 0, s), error);
    for (int v = 1; v < c->value_count && good; v++) {
        for (int s = 0; s < c->seed_count && good; s++) {
            good = check_value(c, compare_arms_at(c, v, s), compare_arms_at(c, 0, s), &differs, &following, error);
            if (good && !differs)
                good = error_set(error, "%s: %s and %s come to the same settings: the key makes no difference here",
                                 c->key, c->values[0], c->values[v]);
        }
    }
    c->following = arena_string(c->arena, following.text);
    strbuf_close(&following);
    return good;
}

// Refuses keys that the runs' proofs (compare_pairs.h) can never be given for: arms that differ in one are not asked alike.
static bool check_key(const char *key, Error *error) {
    static const struct {
        const char *key, *what, *remedy;
    } unlike[] = {
        {"grpo.seed", "which questions are asked and in which order",
         "; --seeds 1,2 runs every value of another key with each seed"},
        {"data.shuffle", "in which order questions are asked", ""},
        {"data.use_multiple_dataloader", "in which order questions are asked", ""},
        {"data.num_prompts_per_dataloader", "in which order questions are asked", ""},
        {"data.train", "which questions are asked, and how", ""},
        {"grpo.max_val_samples", "which held-out questions are asked", ""},
        {"grpo.val_num_generations_per_prompt", "how often held-out questions are asked", ""},
        {"grpo.val_period", "after which steps held-out questions are asked", ""},
        {"grpo.val_start_at", "after which steps held-out questions are asked", ""},
    };
    char shared[SETTINGS_KEY_SIZE];
    const char *row = settings_key_row(shared, key); // data.train for data.validation and data.default too
    if (!strcmp(row, "data.train.env_name") || !strcmp(row, "data.train.processor")) return true;
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        if (settings_key_at_or_below(row, unlike[i].key))
            return error_set(error, "%s decides %s, so arms that differ in it cannot be paired%s", key, unlike[i].what,
                             unlike[i].remedy);
    return true;
}

// --- arms of a recipe -------------------------------------------------------------------------------------------------

int compare_arms_split(const char **parts, int most, const char *text, Arena *arena) {
    int count = 0, depth = 0;
    const char *begin = text;
    char quote = 0;
    for (const char *at = text;; at++) {
        if (*at && quote) {
            quote = *at == quote ? 0 : quote;
            continue;
        }
        if (*at == '"' || *at == '\'') quote = *at;
        depth += *at == '[' || *at == '{';
        depth -= *at == ']' || *at == '}';
        if (*at && (*at != ',' || depth > 0)) continue;
        if (count == most || at == begin) return -1;
        parts[count++] = arena_bytes(arena, begin, (size_t)(at - begin));
        if (!*at) return count;
        begin = at + 1;
    }
}

static bool take_vary(Comparison *c, const char *vary, Error *error) {
    const char *equals = strchr(vary, '=');
    c->values = arena_array(c->arena, const char *, MOST_VALUES);
    c->value_count = equals && equals != vary ? compare_arms_split(c->values, MOST_VALUES, equals + 1, c->arena) : -1;
    if (c->value_count < 2)
        return error_set(error, "--vary is '%s'; expected KEY=A,B with two to %d values", vary, MOST_VALUES);
    c->key = recipe_canonical(
        c->arena, arena_bytes(c->arena, vary + strspn(vary, "+"), (size_t)(equals - vary) - strspn(vary, "+")));
    return true;
}

static bool take_seeds(Comparison *c, const char *seeds, Error *error) {
    const char **parts = arena_array(c->arena, const char *, MOST_SEEDS);
    int count = compare_arms_split(parts, MOST_SEEDS, seeds, c->arena);
    c->seeds = arena_array(c->arena, int64_t, MOST_SEEDS);
    for (int i = 0; i < count; i++) {
        char *end;
        errno = 0;
        c->seeds[i] = strtoll(parts[i], &end, 10);
        bool again = false;
        for (int j = 0; j < i; j++) again = again || c->seeds[j] == c->seeds[i];
        if (*end || errno || again) count = -1;
    }
    c->seed_count = count;
    return count > 0 || error_set(error, "--seeds is '%s'; expected different integers like 42,43,44", seeds);
}

// Letters, digits and what file names take; for people to recognise.
static const char *file_name(Arena *arena, const char *text) {
    char *name = arena_string(arena, text);
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at)) *at = '_';
    return name;
}

static const char *default_folder(const Comparison *c, const char *recipe) {
    const char *slash = strrchr(recipe, '/'), *stem = slash ? slash + 1 : recipe, *dot = strrchr(stem, '.');
    size_t length = dot && dot != stem ? (size_t)(dot - stem) : strlen(stem);
    const char *part = strrchr(c->key, '.');
    return arena_format(c->arena, "results/compare/%.*s_%s", (int)length, stem,
                        file_name(c->arena, part ? part + 1 : c->key));
}

static bool load_arm(Comparison *c, int value, int seed, const char *recipe, const char *vary, int override_count,
                     char **overrides, Error *error) {
    CompareArm *arm = compare_arms_at(c, value, seed);
    char **all = arena_array(c->arena, char *, override_count + 4);
    int count = 0;
    for (; count < override_count; count++) all[count] = overrides[count];
    all[count++] = arena_format(c->arena, "%.*s=%s", (int)strcspn(vary, "="), vary, c->values[value]);
    if (c->seeds) all[count++] = arena_format(c->arena, "grpo.seed=%lld", (long long)c->seeds[seed]);
    const char *name = c->seeds ? arena_format(c->arena, "%s_seed%lld", c->values[value], (long long)c->seeds[seed])
                                : c->values[value];
    arm->folder = arena_format(c->arena, "%s/%s", c->folder, file_name(c->arena, name));
    all[count++] = arena_format(c->arena, "logger.log_dir=%s", arm->folder);
    all[count++] = arena_format(c->arena, "checkpointing.checkpoint_dir=%s", arm->folder);
    if (!settings_load(&arm->settings, c->arena, recipe, count, all, error)) return false;
    arm->seed = arm->settings->run.seed;
    arm->value = explain_value(c->arena, arm->settings, c->key);
    return true;
}

// Validation before the first step and after the last.
static bool check_validation(const CompareArm *arm, Error *error) {
    const RunOptions *g = &arm->settings->run;
    bool periodic = g->val_period > 0 && g->max_num_steps % g->val_period == 0 && g->max_num_steps >= g->val_start_at;
    if (!settings_validates(arm->settings))
        return error_set(error, "the recipe has no validation: nothing to compare by");
    if (!g->val_at_start)
        return error_set(
            error,
            "grpo.val_at_start is false: nothing would show that the arms begin alike; give grpo.val_at_start=true");
    return g->val_at_end || periodic ||
           error_set(error, "grpo.val_period %lld asks nothing after the last step, %lld; give grpo.val_at_end=true",
                     (long long)g->val_period, (long long)g->max_num_steps);
}

// What stands in an arm's folder already must be a run by the same recipe; it may have been shorter.
static bool check_folder(const Comparison *c, const CompareArm *arm, Error *error) {
    const char *path = arena_format(c->arena, "%s/config.yaml", arm->folder);
    Settings *before;
    ExplainChange *changes;
    if (!file_exists(path)) return true;
    if (!settings_load(&before, c->arena, path, 0, NULL, error)) return false;
    int64_t count = explain_differing(&changes, c->arena, before, arm->settings);
    for (int64_t i = 0; i < count; i++)
        if (!is_output(changes[i].key) && strcmp(changes[i].key, "grpo.max_num_steps"))
            return error_set(error, "%s holds a run by another recipe: %s was %s and is %s now; choose another --out",
                             arm->folder, changes[i].key, changes[i].before, changes[i].after);
    return true;
}

bool compare_arms_of_recipe(Comparison *c, const char *recipe, const char *vary, const char *seeds, int override_count,
                            char **overrides, const char *folder, Arena *arena, Error *error) {
    *c = (Comparison){.arena = arena, .seed_count = 1};
    if (!take_vary(c, vary, error)) return false;
    if (seeds && (!take_seeds(c, seeds, error) || !check_key(c->key, error))) return false;
    c->folder = folder ? folder : default_folder(c, recipe);
    c->arms = arena_array(arena, CompareArm, c->value_count * c->seed_count);
    for (int v = 0; v < c->value_count; v++)
        for (int s = 0; s < c->seed_count; s++)
            if (!load_arm(c, v, s, recipe, vary, override_count, overrides, error)) return false;
    for (int v = 0; v < c->value_count; v++) {
        c->values[v] = compare_arms_at(c, v, 0)->value;
        for (int other = 0; other < v; other++)
            if (!strcmp(compare_arms_at(c, v, 0)->folder, compare_arms_at(c, other, 0)->folder))
                return error_set(error, "--vary %s: the value %s is there twice", c->key, c->values[v]);
    }
    if (!c->seeds) {
        c->seeds = arena_array(arena, int64_t, 1);
        c->seeds[0] = c->arms->seed;
    }
    return check_recipes(c, error);
}

static bool check_algorithm(const CompareArm *arm, Error *error) {
    return arm->settings->algorithm == ALGORITHM_GRPO ||
           error_set(error,
                     "supervised fine-tuning has no held-out answers to compare by; --first-difference compares it");
}

// What would only show after both arms have run: batches that cannot have the same prompts.
static bool check_batches(const Comparison *c, const CompareArm *arm, const CompareArm *baseline, Error *error) {
    const Settings *a = baseline->settings, *b = arm->settings;
    ExplainChange *changes;
    int64_t count = explain_differing(&changes, c->arena, a, b);
    for (int64_t i = 0; i < count; i++)
        if (!check_key(settings_key_at_or_below(c->key, changes[i].key) ? c->key : changes[i].key, error)) return false;
    if (a->grpo.use_dynamic_sampling || b->grpo.use_dynamic_sampling)
        return error_set(
            error, "grpo.use_dynamic_sampling: which prompts a batch keeps would depend on the policy, so the arms "
                   "could not be paired");
    if (settings_prompts_per_batch(a) != settings_prompts_per_batch(b))
        return error_set(error, "grpo.num_prompts_per_step: batches of %lld and %lld prompts cannot be paired",
                         (long long)settings_prompts_per_batch(a), (long long)settings_prompts_per_batch(b));
    return a->run.max_num_steps == b->run.max_num_steps ||
           error_set(error, "grpo.max_num_steps: runs of %lld and %lld steps cannot be paired",
                     (long long)a->run.max_num_steps, (long long)b->run.max_num_steps);
}

bool compare_arms_check(const Comparison *c, Error *error) {
    for (int v = 0; v < c->value_count; v++)
        for (int s = 0; s < c->seed_count; s++) {
            const CompareArm *arm = compare_arms_at(c, v, s), *baseline = compare_arms_at(c, 0, s);
            if (!check_algorithm(arm, error) || !check_validation(arm, error) ||
                !check_batches(c, arm, baseline, error) || !check_folder(c, arm, error))
                return false;
        }
    return true;
}

// --- arms of runs -----------------------------------------------------------------------------------------------------

// A key given for runs: a setting, or one that some recipe has below an open one.
static bool check_known(Comparison *c, int count, const CompareArm *runs, Error *error) {
    bool known = settings_table_knows(c->key);
    for (int i = 0; i < count; i++) known = known || (*c->key && value_find(runs[i].settings->tree, c->key));
    if (known) return true;
    error_set(error, "--vary is '%s'; there is no such setting", c->key);
    settings_suggest(error, c->arena, c->key);
    return false;
}

// The one key in which runs of the same seed differ, or, where no two have the same, any.
static bool find_key(Comparison *c, int count, const CompareArm *runs, Error *error) {
    bool pairs = false;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) pairs = pairs || runs[i].seed == runs[j].seed;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            ExplainChange *changes;
            if (pairs && runs[i].seed != runs[j].seed) continue;
            int64_t differing = explain_differing(&changes, c->arena, runs[j].settings, runs[i].settings);
            for (int64_t k = 0; k < differing && !c->key; k++)
                if (!is_output(changes[k].key) && !is_seed(c->arena, &changes[k], &runs[j], &runs[i]))
                    c->key = changes[k].key;
        }
    }
    return c->key ||
           error_set(error, "the recipes of the runs differ in nothing but seed and folders: nothing to compare");
}

static int place_of_value(Comparison *c, const char *value) {
    for (int v = 0; v < c->value_count; v++)
        if (!strcmp(c->values[v], value)) return v;
    c->values[c->value_count] = value;
    return c->value_count++;
}

static int place_of_seed(Comparison *c, int64_t seed) {
    for (int s = 0; s < c->seed_count; s++)
        if (c->seeds[s] == seed) return s;
    c->seeds[c->seed_count] = seed;
    return c->seed_count++;
}

// Sorts the runs by value and seed.
static bool arrange(Comparison *c, int count, const CompareArm *runs, Error *error) {
    int *value = arena_array(c->arena, int, count), *seed = arena_array(c->arena, int, count);
    c->values = arena_array(c->arena, const char *, count);
    c->seeds = arena_array(c->arena, int64_t, count);
    for (int i = 0; i < count; i++)
        value[i] = place_of_value(c, runs[i].value), seed[i] = place_of_seed(c, runs[i].seed);
    if (c->value_count < 2)
        return *c->values[0] ? error_set(error, "%s is %s in every run", c->key, c->values[0])
                             : error_set(error, "%s is given in no run", c->key);
    c->arms = arena_array(c->arena, CompareArm, (int64_t)c->value_count * c->seed_count);
    for (int i = 0; i < count; i++) {
        CompareArm *arm = compare_arms_at(c, value[i], seed[i]);
        if (arm->folder)
            return error_set(error, "%s and %s both have %s %s and seed %lld", arm->folder, runs[i].folder, c->key,
                             runs[i].value, (long long)runs[i].seed);
        *arm = runs[i];
    }
    for (int v = 0; v < c->value_count; v++)
        for (int s = 0; s < c->seed_count; s++)
            if (!compare_arms_at(c, v, s)->folder)
                return error_set(error, "no run has %s %s and seed %lld: each value wants the same seeds", c->key,
                                 c->values[v], (long long)c->seeds[s]);
    return true;
}

static const char *parent_folder(Arena *arena, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    while (length && path[length - 1] != '/') length--;
    return length > 1 ? arena_bytes(arena, path, length - 1) : length ? "/" : ".";
}

bool compare_arms_of_runs(Comparison *c, int count, char *const *folders, const char *key, const char *folder,
                          Arena *arena, Error *error) {
    *c = (Comparison){.arena = arena, .key = key ? recipe_canonical(arena, key) : NULL, .folder = folder};
    if (count < 2) return error_set(error, "%s is one run; give the others to compare it with", folders[0]);
    CompareArm *runs = arena_array(arena, CompareArm, count);
    for (int i = 0; i < count; i++) {
        const char *logs;
        if (!report_folder(&logs, folders[i], arena, error)) return false;
        if (!run_record_is_run(logs))
            return error_set(error, "%s is no run: no config.yaml and metrics.jsonl in it", folders[i]);
        if (!run_record_open(&runs[i].record, logs, arena, error)) return false;
        runs[i].folder = runs[i].record.folder;
        runs[i].settings = runs[i].record.settings;
        if (!check_algorithm(&runs[i], error)) return false;
        runs[i].seed = runs[i].settings->run.seed;
    }
    if (!(c->key ? check_known : find_key)(c, count, runs, error) || !check_key(c->key, error)) return false;
    for (int i = 0; i < count; i++) runs[i].value = explain_value(arena, runs[i].settings, c->key);
    if (!arrange(c, count, runs, error) || !check_recipes(c, error)) return false;
    if (!c->folder) c->folder = parent_folder(arena, folders[0]);
    for (int v = 0; v < c->value_count; v++)
        for (int s = 0; s < c->seed_count; s++)
            if (!compare_arms_whole(compare_arms_at(c, v, s), error) || !compare_pairs_check(c, v, s, error))
                return false;
    return true;
}

// --- running ----------------------------------------------------------------------------------------------------------

bool compare_arms_whole(const CompareArm *arm, Error *error) {
    const RunRecord *r = &arm->record;
    int64_t last = r->validation_count ? r->validation_step[r->validation_count - 1] : -1;
    if (!r->validation_count || r->validation_step[0])
        return error_set(error, "%s has no validation before its first step", arm->folder);
    if (!arm->ended && r->step_count < arm->settings->run.max_num_steps)
        return error_set(error, "%s is incomplete: %lld of %lld steps", arm->folder, (long long)r->step_count,
                         (long long)arm->settings->run.max_num_steps);
    return (r->step_count > 0 && last == r->step_count) ||
           error_set(error, "%s is incomplete: no validation after its last step, %lld", arm->folder,
                     (long long)r->step_count);
}

// Whether an earlier call has made it whole.
static bool is_there(CompareArm *arm, Arena *arena) {
    Error ignored;
    return run_record_is_run(arm->folder) && run_record_open(&arm->record, arm->folder, arena, &ignored) &&
           arm->record.settings->run.max_num_steps == arm->settings->run.max_num_steps &&
           compare_arms_whole(arm, &ignored);
}

// Trains an arm unless it is there, and reads what it left.
static bool train_arm(Comparison *c, int value, int seed, Comm *world, int *stop, Error *error) {
    CompareArm *arm = compare_arms_at(c, value, seed);
    int number = seed * c->value_count + value + 1, count = c->value_count * c->seed_count;
    bool there = is_there(arm, c->arena); // the same on all ranks: nobody writes there yet
    log_info("arm %d of %d: %s %s, seed %lld, in %s%s", number, count, c->key, arm->value, (long long)arm->seed,
             arm->folder, there ? ": there already" : "");
    if (there) return true;
    if (!train_command_train(arm->settings, world, NULL, stop, error)) {
        bool named = !strncmp(error->text, arm->folder, strlen(arm->folder)); // what went wrong is in the folder itself
        return named ? false : error_prefix(error, "%s: ", arm->folder);
    }
    if (*stop) return true;
    arm->ended = true;
    bool read = comm_agree(world, true, error) && run_record_open(&arm->record, arm->folder, c->arena, error);
    return comm_agree(world, read && compare_arms_whole(arm, error), error);
}

bool compare_arms_train_one(Comparison *c, int64_t number, Comm *world, int *stop, Error *error) {
    int64_t count = (int64_t)c->value_count * c->seed_count, index = number - 1;
    *stop = 0;
    if (index >= count) return error_set(error, "--arm is %lld; there are %lld", (long long)number, (long long)count);
    settings_log_notes(c->arms->settings);
    return train_arm(c, (int)(index % c->value_count), (int)(index / c->value_count), world, stop, error);
}

bool compare_arms_train(Comparison *c, Comm *world, int *stop, Error *error) {
    *stop = 0;
    settings_log_notes(c->arms->settings);
    for (int s = 0; s < c->seed_count; s++) {
        for (int v = 0; v < c->value_count; v++) {
            if (!train_arm(c, v, s, world, stop, error)) return false;
            if (*stop) return true;
            if (!comm_agree(world, compare_pairs_check(c, v, s, error), error)) return false;
        }
    }
    return true;
}
