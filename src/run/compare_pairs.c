#include "run/compare_pairs.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "text/records.h"

#include <string.h>

bool compare_pairs_key_is_forward(const char *key) {
    static const char *const keys[] = {"policy.precision",
                                       "policy.automodel_cfg.fsdp_output_dtype",
                                       "policy.generation",
                                       "policy.model_name",
                                       "policy.hf_config_overrides",
                                       "policy.tokenizer",
                                       "whet.min_p",
                                       "whet.val_min_p",
                                       "policy.max_total_sequence_length",
                                       "whet.template_time",
                                       "whet.tensor_segments",
                                       "data.max_input_seq_length"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (settings_key_at_or_below(key, keys[i]) || settings_key_at_or_below(keys[i], key)) return true;
    return false;
}

static bool check_origin(const Comparison *c, const CompareArm *arm, const CompareArm *baseline, Error *error) {
    if (strcmp(arm->record.model_digest, baseline->record.model_digest) && strncmp(c->key, "policy.model_name", 17))
        return error_set(error, "%s and %s began with different models: digests %s and %s", baseline->folder,
                         arm->folder, baseline->record.model_digest, arm->record.model_digest);
    return !strcmp(arm->record.data_digest, baseline->record.data_digest) ||
           error_set(error, "%s and %s have different questions: digests %s and %s", baseline->folder, arm->folder,
                     baseline->record.data_digest, arm->record.data_digest);
}

static bool check_steps(const CompareArm *arm, const CompareArm *baseline, Error *error) {
    const RunRecord *a = &baseline->record, *b = &arm->record;
    if (a->step_count != b->step_count)
        return error_set(error, "%s has %lld steps and %s %lld", a->folder, (long long)a->step_count, b->folder,
                         (long long)b->step_count);
    bool same = a->validation_count == b->validation_count;
    for (int64_t i = 0; same && i < a->validation_count; i++) same = a->validation_step[i] == b->validation_step[i];
    return same || error_set(error, "%s and %s were validated after different steps", a->folder, b->folder);
}

// --- before training --------------------------------------------------------------------------------------------------

// The question of a line: its number, the sample's, the conversation without the answer. New reference.
static json_t *question_of(const json_t *line) {
    json_t *question = json_object(), *asked = json_copy(json_object_get(line, "content"));
    if (json_array_size(asked)) json_array_remove(asked, json_array_size(asked) - 1);
    json_object_set(question, "idx", json_object_get(line, "idx"));
    json_object_set(question, "sample", json_object_get(line, "sample"));
    json_object_set_new(question, "content", asked);
    return question;
}

// One line of each run. *same: byte for byte the same record.
static bool compare_line(bool *same, const Records *one, const Records *other, int64_t index, Error *error) {
    json_t *a = NULL, *b = NULL;
    if (!records_row(&a, one, index, error)) return false;
    if (!records_row(&b, other, index, error)) return json_decref(a), false;
    const RecordPlace *place = &one->places[index], *against = &other->places[index];
    *same = place->size == against->size &&
            !memcmp(one->map.data + place->begin, other->map.data + against->begin, place->size);
    json_t *asked = question_of(a), *asked_too = question_of(b);
    bool good =
        json_equal(asked, asked_too) ||
        error_set(error, "the validations before training asked different questions: %s:%lld and %s:%lld", one->path,
                  (long long)records_line(one, index), other->path, (long long)records_line(other, index));
    json_decref(asked), json_decref(asked_too);
    json_decref(a), json_decref(b);
    return good;
}

bool compare_pairs_initial(int64_t *differing, int64_t *count, const Comparison *c, int value, int seed, Error *error) {
    Records one = {0}, other = {0};
    const CompareArm *baseline = compare_arms_at(c, 0, seed), *arm = compare_arms_at(c, value, seed);
    bool good = records_open(&one, run_record_validation_path(&baseline->record, 0, c->arena), c->arena, error) &&
                records_open(&other, run_record_validation_path(&arm->record, 0, c->arena), c->arena, error);
    if (good && one.count != other.count)
        good = error_set(error, "the validations before training have %lld and %lld answers: %s, %s",
                         (long long)one.count, (long long)other.count, one.path, other.path);
    *count = one.count, *differing = 0;
    for (int64_t i = 0; good && i < one.count; i++) {
        bool same = true;
        good = compare_line(&same, &one, &other, i, error);
        *differing += !same;
    }
    records_close(&one), records_close(&other);
    return good;
}

static bool check_initial(const Comparison *c, int value, int seed, Error *error) {
    int64_t differing, count;
    if (!compare_pairs_initial(&differing, &count, c, value, seed, error)) return false;
    return !differing || compare_pairs_key_is_forward(c->key) ||
           error_set(
               error,
               "the arms do not begin alike: %lld of %lld records of the validation before training differ between %s "
               "and %s, though %s does not reach them",
               (long long)differing, (long long)count, compare_arms_at(c, 0, seed)->folder,
               compare_arms_at(c, value, seed)->folder, c->key);
}

// --- while training ---------------------------------------------------------------------------------------------------

static bool check_prompts(const CompareArm *arm, const CompareArm *baseline, Error *error) {
    Arena arena = {0};
    bool good = true;
    for (int64_t step = 1; good && step <= arm->record.step_count; step++) {
        char one[DIGEST_HEX], other[DIGEST_HEX];
        good = run_record_prompts(one, &baseline->record, step, &arena, error) &&
               run_record_prompts(other, &arm->record, step, &arena, error);
        if (good && strcmp(one, other))
            good =
                error_set(error, "the prompts of step %lld are not the same, or not in the same order, in %s and %s%s",
                          (long long)step, baseline->folder, arm->folder,
                          arm->settings->grpo.use_dynamic_sampling
                              ? ": with grpo.use_dynamic_sampling which are kept depends on the policy"
                              : "");
        arena_reset(&arena);
    }
    arena_close(&arena);
    return good;
}

bool compare_pairs_check(const Comparison *c, int value, int seed, Error *error) {
    const CompareArm *arm = compare_arms_at(c, value, seed), *baseline = compare_arms_at(c, 0, seed);
    return !value || (check_origin(c, arm, baseline, error) && check_steps(arm, baseline, error) &&
                      check_initial(c, value, seed, error) && check_prompts(arm, baseline, error));
}
