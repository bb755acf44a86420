#include "run/plan_fit.h"

#include "base/int64.h"
#include "ops/attention.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRIED = 8 };

typedef struct Search {
    const PlanArm *arm;
    PlanOptions options;
    uint64_t memory;
    Arena *arena;
} Search;

// Overrides of one trial.
typedef struct Trial {
    int count;
    char *overrides[MOST_TRIED];
} Trial;

__attribute__((format(printf, 3, 4))) static void set(Trial *trial, Arena *arena, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    CHECK(trial->count < MOST_TRIED, "%d overrides", trial->count);
    trial->overrides[trial->count++] = arena_string(arena, text);
}

// The peak of a step with the trial's overrides, on the ranks that `only` says. False: the recipe refuses them.
static bool try_it(uint64_t *peak, const Search *search, int only, const Trial *trial, Error *error) {
    PlanOptions options = search->options;
    options.only = only;
    const PlanArm *arm = search->arm;
    int count = arm->override_count;
    char **overrides = arena_array(search->arena, char *, count + MOST_TRIED);
    if (count) memcpy(overrides, arm->overrides, (size_t)count * sizeof *overrides);
    for (int i = 0; i < trial->count; i++) overrides[count++] = trial->overrides[i];
    Arena arena = {0};
    Settings *settings;
    Plan plan;
    bool good = settings_load(&settings, &arena, arm->settings->recipe_path, count, overrides, error) &&
                plan_make(&plan, settings, &options, error);
    if (good) *peak = plan.peak.total;
    arena_close(&arena);
    return good;
}

// n samples of the given length in a micro-batch.
static void set_budget(Trial *trial, const Search *search, int64_t samples, int64_t length) {
    const PolicyOptions *policy = &search->arm->settings->policy;
    const char *mode = policy->sequence_packing.enabled   ? "sequence_packing"
                       : policy->dynamic_batching.enabled ? "dynamic_batching"
                                                          : NULL;
    if (!mode) return;
    set(trial, search->arena, "policy.%s.train_mb_tokens=%lld", mode, (long long)(samples * length));
    set(trial, search->arena, "policy.%s.logprob_mb_tokens=%lld", mode, (long long)(samples * length));
}

typedef void SetTrial(Trial *trial, const Search *search, int64_t size);

// Micro-batches are multiples of it.
static int64_t block_of(const Search *search) {
    return int64_larger(search->arm->settings->whet.reduction_block, 1);
}

static void set_micro_batch(Trial *trial, const Search *search, int64_t blocks) {
    int64_t samples = blocks * block_of(search);
    set(trial, search->arena, "policy.train_micro_batch_size=%lld", (long long)samples);
    set_budget(trial, search, samples, search->arm->settings->policy.max_total_sequence_length);
}

static int64_t samples_of_budget(const PolicyOptions *policy) {
    int64_t tokens = policy->batching.mode == BATCHING_STATIC ? 0 : policy->batching.max_tokens;
    return tokens ? int64_larger(tokens / policy->max_total_sequence_length, 1) : policy->train_micro_batch_size;
}

static void set_length(Trial *trial, const Search *search, int64_t pages) {
    int64_t length = pages * KV_PAGE_TOKENS;
    set(trial, search->arena, "policy.max_total_sequence_length=%lld", (long long)length);
    set(trial, search->arena, "policy.generation.vllm_cfg.max_model_len=%lld", (long long)length);
    set(trial, search->arena, "data.max_input_seq_length=%lld", (long long)length);
    set_budget(trial, search, samples_of_budget(&search->arm->settings->policy), length);
}

static bool fits(uint64_t *peak, const Search *search, int only, SetTrial *set_trial, int64_t size) {
    Trial trial = {0};
    Error error;
    uint64_t found;
    set_trial(&trial, search, size);
    if (!try_it(&found, search, only, &trial, &error) || found > search->memory) return false;
    *peak = found;
    return true;
}

// The largest size of 1..most that fits on the ranks that `only` says, 0 when none does.
static int64_t largest_on(uint64_t *peak, const Search *search, int only, SetTrial *set_trial, int64_t most) {
    int64_t low = 0, high = 1; // low fits; high is the next to try
    while (high <= most && fits(peak, search, only, set_trial, high)) {
        low = high;
        if (low == most) return low;
        high = int64_smaller(2 * high, most);
    }
    if (high > most) high = most + 1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (fits(peak, search, only, set_trial, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The rank that needs most in the recipe as it is, as PlanOptions.only has it: where a trial fits there, mostly all ranks do.
static int neediest(const Search *search) {
    return search->arm->plan.peak_rank + 1;
}

// The largest size that fits on all ranks. Most of the search asks one of them.
static int64_t largest(uint64_t *peak, const Search *search, SetTrial *set_trial, int64_t most) {
    int64_t size = largest_on(peak, search, neediest(search), set_trial, most);
    if (!size || fits(peak, search, PLAN_EVERY_RANK, set_trial, size)) return size;
    return largest_on(peak, search, PLAN_EVERY_RANK, set_trial, size - 1);
}

// ---- settings that help

static void add_help(PlanFit *fit, const Search *search, const Trial *trial) {
    Error error; // what the recipe does not allow helps nobody
    uint64_t peak, whole = search->arm->plan.peak.total;
    StrBuf text = {0};
    if (!try_it(&peak, search, neediest(search), trial, &error) || peak >= whole) return;
    if (!try_it(&peak, search, PLAN_EVERY_RANK, trial, &error) || peak >= whole) return;
    for (int i = 0; i < trial->count; i++) strbuf_format(&text, "%s%s", i ? " " : "", trial->overrides[i]);
    fit->helps[fit->help_count++] = (PlanHelp){.setting = arena_string(search->arena, text.text),
                                               .saved = (int64_t)(whole - peak),
                                               .fits = peak <= search->memory};
    strbuf_close(&text);
}

static void try_setting(PlanFit *fit, const Search *search, const char *setting) {
    Trial trial = {0};
    const char *key = arena_bytes(search->arena, setting, strcspn(setting, "="));
    if (settings_key_unused(key, search->arm->settings->megatron.enabled)) return;
    set(&trial, search->arena, "%s", setting);
    add_help(fit, search, &trial);
}

static int most_first(const void *a, const void *b) {
    const PlanHelp *x = a, *y = b;
    return (x->saved < y->saved) - (x->saved > y->saved);
}

static void find_helps(PlanFit *fit, const Search *search) {
    const Settings *s = search->arm->settings;
    int64_t samples = samples_of_budget(&s->policy),
            sample = search->arm->plan.prompt_tokens + search->arm->plan.answer_tokens;
    static const char *const settings[] = {"policy.automodel_cfg.activation_checkpointing=selective",
                                           "policy.automodel_cfg.activation_checkpointing=true",
                                           "policy.megatron_cfg.activation_checkpointing=true",
                                           "policy.automodel_cfg.fsdp_output_dtype=bfloat16",
                                           "policy.precision=bfloat16",
                                           "policy.logprob_chunk_size=64",
                                           "loss_fn.reference_policy_kl_penalty=0"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) try_setting(fit, search, settings[i]);
    if (s->policy.tensor_parallel_size > 1)
        try_setting(fit, search,
                    s->megatron.enabled ? "policy.megatron_cfg.sequence_parallel=true"
                                        : "policy.automodel_cfg.sequence_parallel=true");
    Trial half = {0}, cache = {0}, tensor = {0};
    if (samples > 1) {
        set_micro_batch(&half, search, samples / 2);
        add_help(fit, search, &half);
    }
    int64_t pages = kv_pages_of(sample) * s->generation.max_sequences / 4;
    set(&cache, search->arena, "whet.kv_cache_tokens=%lld",
        (long long)int64_larger(s->generation.kv_cache_tokens / 4,
                                int64_larger(pages, kv_pages_of(sample)) * KV_PAGE_TOKENS));
    add_help(fit, search, &cache);
    if (search->arm->plan.ranks > 1) {
        set(&tensor, search->arena, "%s=%d", settings_tensor_key(s), 2);
        add_help(fit, search, &tensor);
    }
    qsort(fit->helps, (size_t)fit->help_count, sizeof *fit->helps, most_first);
}

bool plan_fit(PlanFit *fit, uint64_t memory, const PlanArm *arm, const PlanOptions *options, Arena *arena,
              Error *error) {
    PlanModel model;
    Search search = {.arm = arm, .options = *options, .memory = memory, .arena = arena};
    const PolicyOptions *policy = &arm->settings->policy;
    search.options.memory_only = true;
    *fit = (PlanFit){.memory = memory, .fits = arm->plan.peak.total <= memory};
    if (!plan_model_open(&model, policy->model_name, policy->hf_config_overrides, error)) return false;
    int64_t pages = model.architecture.max_positions / KV_PAGE_TOKENS;
    plan_model_close(&model);
    int64_t block = block_of(&search), blocks = int64_larger(policy->train_global_batch_size / block, 1);
    fit->micro_batch = block * largest(&fit->peak_micro_batch, &search, set_micro_batch, blocks);
    fit->whole_batch = fit->micro_batch == block * blocks;
    fit->sequence_length = KV_PAGE_TOKENS * largest(&fit->peak_sequence_length, &search, set_length, pages);
    fit->all_positions = fit->sequence_length == pages * KV_PAGE_TOKENS;
    find_helps(fit, &search);
    return true;
}

// ---- what is printed

void plan_fit_text(StrBuf *out, const PlanFit *fit, const PlanArm *arm) {
    char number[32];
    const double mib = 0x1p20;
    strbuf_format(out, "\nInto %.1f MiB the step %s, its peak is %.1f MiB in %s", (double)fit->memory / mib,
                  fit->fits ? "fits" : "does not fit", (double)arm->plan.peak.total / mib,
                  ledger_phase_name(arm->plan.peak_phase));
    if (!fit->micro_batch)
        strbuf_puts(out, "\n  micro-batch: not even one sample fits");
    else
        strbuf_format(out, "\n  largest micro-batch: %s samples (%.1f MiB)%s",
                      plan_report_number(number, fit->micro_batch), (double)fit->peak_micro_batch / mib,
                      fit->whole_batch ? ", the whole global batch" : "");
    if (!fit->sequence_length)
        strbuf_puts(out, "\n  sequences: not even the shortest fit");
    else
        strbuf_format(out, "\n  longest sequences: %s tokens (%.1f MiB)%s",
                      plan_report_number(number, fit->sequence_length), (double)fit->peak_sequence_length / mib,
                      fit->all_positions ? ", all positions of the model" : "");
    if (fit->help_count) strbuf_puts(out, "\n  settings that take less, each alone:");
    for (int i = 0; i < fit->help_count; i++)
        strbuf_format(out, "\n  %12.1f MiB  %s%s", -(double)fit->helps[i].saved / mib, fit->helps[i].setting,
                      fit->helps[i].fits && !fit->fits ? "  (then it fits)" : "");
    strbuf_puts(out, "\n");
}

json_t *plan_fit_json(const PlanFit *fit) {
    json_t *helps = json_array();
    for (int i = 0; i < fit->help_count; i++)
        json_array_append_new(helps, json_pack("{s:s, s:I, s:b}", "setting", fit->helps[i].setting, "saves",
                                               (json_int_t)fit->helps[i].saved, "fits", (int)fit->helps[i].fits));
    return json_pack("{s:I, s:b, s:I, s:I, s:I, s:I, s:o}", "memory", (json_int_t)fit->memory, "fits", (int)fit->fits,
                     "micro_batch", (json_int_t)fit->micro_batch, "micro_batch_peak", (json_int_t)fit->peak_micro_batch,
                     "sequence_length", (json_int_t)fit->sequence_length, "sequence_length_peak",
                     (json_int_t)fit->peak_sequence_length, "helps", helps);
}
