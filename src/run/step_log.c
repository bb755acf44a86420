#include "run/step_log.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "run/board_samples.h"
#include "run/memory_log.h"
#include "text/detokenize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put(json_t *line, const char *name, double value) {
    json_object_set_new(line, name, jsonio_real(value));
}

// Sums over the answers of a step; advantages over their tokens, as in NeMo-RL.
typedef struct AnswerStats {
    double reward, reward_square, answer_tokens, prompt_tokens, truncated, longest, tokens;
    double advantage, advantage_min, advantage_max, baseline_zero, baseline_one, masked, nan, scored, shortest,
        terminated_tokens;
} AnswerStats;

static AnswerStats answer_stats(const StepReport *report) {
    static const Samples none;
    const Samples *s = report->samples ? report->samples : &none;
    AnswerStats a = {.advantage_min = INFINITY, .advantage_max = -INFINITY, .shortest = INFINITY};
    for (int64_t b = 0; b < s->count; b++) {
        double reward = (double)s->reward[b], length = (double)(s->offset[b + 1] - s->offset[b] - s->prompt_length[b]);
        if (s->valid[b] != 0) a.reward += reward, a.reward_square += reward * reward, a.scored++;
        a.answer_tokens += length, a.prompt_tokens += (double)s->prompt_length[b];
        a.longest = fmax(a.longest, length), a.shortest = fmin(a.shortest, length);
        if (s->finish[b] != FINISH_LENGTH) a.terminated_tokens += length;
        a.truncated += s->finish[b] == FINISH_LENGTH;
        a.nan += s->finish[b] == FINISH_NAN;
        for (int64_t t = s->offset[b] + s->prompt_length[b]; t < s->offset[b + 1]; t++) {
            double advantage = (double)s->advantage[t];
            a.advantage += advantage;
            a.advantage_min = fmin(a.advantage_min, advantage), a.advantage_max = fmax(a.advantage_max, advantage);
        }
        a.baseline_zero += report->baseline[b] == 0, a.baseline_one += report->baseline[b] == 1;
        a.masked += report->sample_mask[b] == 0;
    }
    a.tokens = a.answer_tokens + a.prompt_tokens;
    return a;
}

static void put_losses(json_t *line, const UpdateResult *u, const LossOptions *options) {
    const LossMetrics *m = &u->metrics;
    const struct {
        const char *name;
        double value;
    } rows[] = {{"train/loss", m->loss},
                {"train/grad_norm", u->grad_norm},
                {"train/kl_penalty", m->kl_penalty},
                {"train/probs_ratio", m->probs_ratio},
                {"train/probs_ratio_min", m->probs_ratio_min},
                {"train/probs_ratio_max", m->probs_ratio_max},
                {"train/probs_ratio_clamped", m->probs_ratio_clamped},
                {"train/probs_ratio_clamped_min", m->probs_ratio_clamped_min},
                {"train/probs_ratio_clamped_max", m->probs_ratio_clamped_max},
                {"train/token_mult_prob_error", m->token_mult_prob_error},
                {"train/mean_abs_logprob_error", m->mean_abs_logprob_error},
                {"train/gen_kl_error", m->gen_kl_error},
                {"train/policy_kl_error", m->policy_kl_error},
                {"train/js_divergence_error", m->js_divergence_error},
                {"train/sampling_importance_ratio", m->sampling_importance_ratio},
                {"train/approx_entropy", m->approx_entropy},
                {"train/positive_nll_loss", m->positive_nll_loss},
                {"train/num_valid_samples", m->num_valid_samples},
                {"train/clipped_tokens", m->clipped_tokens},
                {"train/global_valid_seqs", u->global_valid_seqs},
                {"train/global_valid_toks", u->global_valid_toks},
                {"train/filtered_tokens", (double)u->filtered_tokens},
                {"train/output_overflows", (double)u->overflow.count},
                {"train/nonfinite_gradients", (double)u->nonfinite_gradients}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = rows[i].value;
        // Extrema over no token are infinite; NeMo-RL reports −1 then.
        put(line, rows[i].name, isinf(value) && strstr(rows[i].name, "probs_ratio") ? -1 : value);
    }
    if (options->truncated_importance_sampling_type) put(line, "train/is_oob_ratio", m->is_oob_ratio);
}

// Means over the samples that could be scored.
static void put_components(json_t *line, const Samples *s, double scored) {
    char name[96];
    for (int c = 0; c < s->component_count; c++) {
        double sum = 0;
        for (int64_t b = 0; b < s->count; b++)
            if (s->valid[b] != 0) sum += (double)s->component[c][b];
        snprintf(name, sizeof name, "train/reward_components/%.60s", s->component_name[c]);
        put(line, name, sum / scored);
    }
}

static void put_rollout(json_t *line, const StepReport *r, const AnswerStats *a, bool dynamic) {
    double B = (double)r->samples->count;
    double mean = a->reward / a->scored, n = a->scored;
    double variance = n > 1 ? (a->reward_square - n * mean * mean) / (n - 1) : 0;
    put(line, "train/reward", r->collected.reward);
    if (dynamic) {
        put(line, "train/filtered_reward", mean);
        put(line, "train/dynamic_sampling_num_gen_batches", (double)r->collected.gen_batches);
        put(line, "train/dynamic_sampling_num_discarded_valid_samples", (double)r->collected.discarded);
    }
    put_components(line, r->samples, a->scored);
    put(line, "train/unscored_samples", (double)r->collected.unscored);
    put(line, "train/reward_std", sqrt(fmax(variance, 0)));
    put(line, "train/frac_reward_zero_std", (double)r->collected.groups.equal / (double)r->collected.groups.groups);
    double none = 100 * a->baseline_zero / B, all = 100 * a->baseline_one / B;
    put(line, "train/baseline_reward/pct_0", none);
    put(line, "train/baseline_reward/pct_1", all);
    put(line, "train/baseline_reward/pct_mixed", 100 - none - all);
    put(line, "train/mean_prompt_length", a->prompt_tokens / B);
    put(line, "train/total_num_tokens", a->tokens);
    put(line, "train/advantages/mean", a->advantage / a->answer_tokens);
    put(line, "train/advantages/min", a->advantage_min);
    put(line, "train/advantages/max", a->advantage_max);
    put(line, "train/truncation_rate", a->truncated / B);
    put(line, "train/natural_termination_rate", 1 - (a->truncated + a->nan) / B);
    put(line, "train/nan_samples", a->nan);
    put(line, "train/mean_gen_tokens_per_sample", a->answer_tokens / B);
    put(line, "train/min_gen_tokens_per_sample", a->shortest);
    put(line, "train/max_gen_tokens_per_sample", a->longest);
    put(line, "train/mean_terminated_tokens_per_sample", a->terminated_tokens / (B - a->truncated));
    put(line, "train/mean_total_tokens_per_sample", a->tokens / B);
    put(line, "train/num_mask_sample_filtered", a->masked);
}

static void put_engine(json_t *line, const EngineCounts *counts) {
    put(line, "performance/walked_prompt_tokens", (double)counts->prompt_tokens);
    put(line, "performance/cached_prompt_tokens", (double)counts->cached_tokens);
    put(line, "performance/preemptions", (double)counts->preemptions);
    put(line, "performance/recomputed_tokens", (double)counts->recomputed_tokens);
}

// Of rank 0; the others send as much.
static void put_wire(json_t *line, const CommCounts *sent) {
    put(line, "performance/all_gather_bytes", (double)sent->bytes[COMM_ALL_GATHER]);
    put(line, "performance/all_to_all_bytes", (double)sent->bytes[COMM_ALL_TO_ALL]);
    put(line, "performance/broadcast_bytes", (double)sent->bytes[COMM_BROADCAST]);
    put(line, "performance/ranks_waited_seconds", sent->waited);
    put(line, "performance/bytes_moved_seconds", sent->moved);
}

static void put_times(json_t *line, const StepReport *r, const AnswerStats *a, double B) {
    const StepTimes *t = &r->times;
    const ExperienceCounts *c = &r->collected;
    put(line, "timing/train/total_step_time", t->total);
    put(line, "timing/train/prepare_for_generation/total", t->refit);
    put(line, "timing/train/generation", c->generation_seconds);
    put(line, "timing/train/reward_calculation", c->reward_seconds);
    put(line, "timing/train/policy_and_reference_logprobs", t->logprob);
    put(line, "timing/train/advantage_calculation", t->advantage);
    put(line, "timing/train/policy_training", t->training);
    put(line, "performance/generation_tokens_per_sec", (double)c->rollout.answer_tokens / c->generation_seconds);
    put(line, "performance/policy_training_tokens_per_sec", a->tokens / t->training);
    put(line, "performance/tokens_per_sec", a->tokens / t->total);
    put(line, "performance/samples_per_sec", B / t->total);
}

// Of supervised fine-tuning, names as NeMo-RL has them.
static void put_conversations(json_t *line, const StepReport *r) {
    const UpdateResult *u = &r->update;
    const StepTimes *times = &r->times;
    double tokens = (double)r->tokens, conversations = (double)r->consumed_samples;
    put(line, "train/loss", u->metrics.loss);
    put(line, "train/grad_norm", u->grad_norm);
    put(line, "train/global_valid_seqs", u->global_valid_seqs);
    put(line, "train/global_valid_toks", u->global_valid_toks);
    put(line, "train/num_unmasked_tokens", u->global_valid_toks);
    put(line, "train/num_valid_samples", u->metrics.num_valid_samples);
    put(line, "train/num_mask_sample_filtered", (double)r->left_out);
    put(line, "train/total_num_tokens", tokens);
    put(line, "train/output_overflows", (double)u->overflow.count);
    put(line, "train/nonfinite_gradients", (double)u->nonfinite_gradients);
    put(line, "timing/train/total_step_time", times->total);
    put(line, "timing/train/data_processing", times->data);
    put(line, "timing/train/policy_training", times->training);
    put(line, "timing/train/valid_tokens_per_sec_per_gpu", u->global_valid_toks / times->total);
    put(line, "performance/policy_training_tokens_per_sec", tokens / times->training);
    put(line, "performance/tokens_per_sec", tokens / times->total);
    put(line, "performance/samples_per_sec", conversations / times->total);
}

static void put_memory(json_t *line, const MemorySeen *seen) {
    char name[64];
    put(line, "memory/peak_memory_allocated_mb", (double)seen->peak.total / 1048576);
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++) {
        snprintf(name, sizeof name, "memory/at_peak/%s", ledger_tag_name(tag));
        json_object_set_new(line, name, json_integer((json_int_t)seen->peak.by_tag[tag]));
        snprintf(name, sizeof name, "memory/peak/%s", ledger_tag_name(tag));
        json_object_set_new(line, name, json_integer((json_int_t)seen->tag_peak[tag]));
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (!seen->phase_peak[phase].total) continue;
        snprintf(name, sizeof name, "memory/phase/%s", ledger_phase_name(phase));
        json_object_set_new(line, name, json_integer((json_int_t)seen->phase_peak[phase].total));
    }
}

static bool append(const json_t *line, int64_t step, const Trainer *t, Error *error) {
    Arena arena = {0};
    bool good = jsonio_append(line, arena_format(&arena, "%s/metrics.jsonl", t->settings->logger.log_dir), error) &&
                (!t->settings->logger.tensorboard_enabled || tensorboard_scalars(&t->board, line, step, error));
    arena_close(&arena);
    return good;
}

static void put_left(StrBuf *text, double seconds) {
    int64_t left = seconds < 1e9 ? (int64_t)seconds : (int64_t)1e9;
    if (left < 3600)
        strbuf_format(text, "  left %dm%02ds", (int)left / 60, (int)left % 60);
    else
        strbuf_format(text, "  left %dh%02dm", (int)left / 3600, (int)left / 60 % 60);
}

static void put_rewarded(StrBuf *text, const StepReport *r, const AnswerStats *a) {
    double B = (double)r->samples->count;
    const LossMetrics *m = &r->update.metrics;
    strbuf_format(text, "  reward %.3f  loss %+.4f  kl %.4f  entropy %.2f  grad %.2f  lr %.1e", r->collected.reward,
                  m->loss, m->kl_penalty, m->approx_entropy, r->update.grad_norm, r->lr);
    strbuf_format(text, "  length %.1f  cut %.0f%%  mismatch %g  gen %.0f train %.0f tok/s", a->answer_tokens / B,
                  100 * a->truncated / B, r->max_abs_logprob_error,
                  (double)r->collected.rollout.answer_tokens / r->collected.generation_seconds,
                  a->tokens / r->times.training);
}

static void print_line(const StepReport *r, const AnswerStats *a, const MemorySeen *seen, double seconds_left) {
    StrBuf text = {0};
    int width = snprintf(NULL, 0, "%lld", (long long)r->last_step);
    strbuf_format(&text, "step %*lld/%lld", width, (long long)r->step, (long long)r->last_step);
    if (r->samples)
        put_rewarded(&text, r, a);
    else
        strbuf_format(&text, "  loss %.4f  grad %.2f  lr %.1e  tokens %.0f of %lld  train %.0f tok/s",
                      r->update.metrics.loss, r->update.grad_norm, r->lr, r->update.global_valid_toks,
                      (long long)r->tokens, (double)r->tokens / r->times.training);
    strbuf_format(&text, "  %.1f s  peak %.2f GiB", r->times.total, (double)seen->peak.total / 0x1p30);
    put_left(&text, seconds_left);
    if (r->samples && r->collected.groups.equal == r->collected.groups.groups)
        strbuf_puts(&text, "  (equal rewards in every group: nothing to learn)");
    log_info("%s", text.text);
    strbuf_close(&text);
}

// Everything that a step tells, under its names, but for its memory. New reference.
static json_t *step_metrics(const StepReport *r, const AnswerStats *a, const Trainer *t) {
    json_t *line = json_object();
    json_object_set_new(line, "step", json_integer(r->step));
    put(line, "train/lr", r->lr);
    if (t->settings->algorithm == ALGORITHM_SFT) {
        put_conversations(line, r);
    } else {
        put_rollout(line, r, a, t->settings->grpo.use_dynamic_sampling);
        put_engine(line, &r->collected.rollout);
        put(line, "train/max_abs_logprob_error", r->max_abs_logprob_error);
        put_losses(line, &r->update, &t->settings->loss_fn);
        put_times(line, r, a, (double)r->samples->count);
    }
    return line;
}

static json_t *validation_metrics(const Validation *v, int64_t step, const Trainer *t) {
    json_t *line = json_object();
    json_object_set_new(line, "step", json_integer(step));
    if (t->settings->algorithm == ALGORITHM_SFT) {
        put(line, "validation/val_loss", v->loss);
    } else {
        put(line, "validation/accuracy", v->accuracy);
        if (t->settings->grpo.val_num_generations_per_prompt > 1) put(line, "validation/pass_k", v->pass_k);
        put(line, "validation/avg_length", v->avg_length);
        put(line, "validation/unscored_samples", (double)v->unscored);
    }
    put(line, "timing/validation/total_validation_time", v->seconds);
    return line;
}

static bool refuse_metric(const char *metric_name, const json_t *metrics, const char *group, Error *error) {
    Arena arena = {0};
    const char **names = arena_array(&arena, const char *, json_object_size(metrics)), *key;
    size_t count = 0, length = strlen(group);
    json_t *value;
    json_object_foreach((json_t *)metrics, key, value) if (!strncmp(key, group, length)) names[count++] = key + length;
    const char *colon = strchr(metric_name, ':'), *near = strbuf_nearest(colon + 1, names, count);
    error_set(error, "checkpointing.metric_name: a step has no metric '%s'", metric_name);
    if (near)
        error_set(error, "checkpointing.metric_name: a step has no metric '%s'; did you mean %.*s:%s?", metric_name,
                  (int)(colon - metric_name), metric_name, near);
    arena_close(&arena);
    return false;
}

bool step_log_metric(double *value, const char *metric_name, const StepReport *r, const Trainer *t, Error *error) {
    bool validation = !strncmp(metric_name, "val:", 4);
    const char *group = validation ? "validation/" : "train/", *name = strchr(metric_name, ':') + 1;
    AnswerStats a = answer_stats(r);
    json_t *metrics = validation ? validation_metrics(&r->validation, r->step, t) : step_metrics(r, &a, t);
    Arena arena = {0};
    const json_t *found = json_object_get(metrics, arena_format(&arena, "%s%s", group, name));
    bool there = json_is_number(found) && (!validation || r->validation.done);
    *value = there ? json_number_value(found) : NAN;
    bool good = found || refuse_metric(metric_name, metrics, group, error);
    arena_close(&arena);
    json_decref(metrics);
    return good;
}

// What every rank has seen, and the one whose peak is the highest.
static const MemorySeen *gather_memory(const MemorySeen **highest, Trainer *t, Arena *arena) {
    Comm *world = &t->mesh.world;
    MemorySeen *seen = arena_array(arena, MemorySeen, world->size);
    seen[world->rank] = memory_log_seen(&t->ops.device.ledger);
    comm_all_gather(world, seen, sizeof *seen);
    *highest = seen;
    for (int rank = 1; rank < world->size; rank++)
        if (seen[rank].peak.total > (*highest)->peak.total) *highest = &seen[rank];
    return seen;
}

bool step_log_write(const StepReport *r, Trainer *t, double seconds_left, Error *error) {
    AnswerStats a = answer_stats(r);
    Arena arena = {0};
    const MemorySeen *highest, *seen = gather_memory(&highest, t, &arena);
    json_t *line = step_metrics(r, &a, t);
    put_memory(line, highest);
    CommCounts sent = trainer_sent(t);
    if (t->mesh.world.size > 1) put_wire(line, &sent);
    bool good =
        !trainer_writes(t) || (append(line, r->step, t, error) &&
                               memory_log_write(seen, t->mesh.world.size, r->step, t->settings->logger.log_dir, error));
    json_decref(line);
    print_line(r, &a, highest, seconds_left);
    arena_close(&arena);
    if (r->update.overflow.count) {
        char text[192];
        overflow_text(text, &r->update.overflow, t->walk.architecture->layer_count);
        log_warn("step %lld: %s", (long long)r->step, text);
    }
    if (r->update.nonfinite_gradients)
        log_warn("step %lld: the gradient norm is not finite; %lld optimizer steps were left out", (long long)r->step,
                 (long long)r->update.nonfinite_gradients);
    return good;
}

bool step_log_validation(const Validation *v, int64_t step, const Trainer *t, Error *error) {
    if (!v->done) return true;
    json_t *line = validation_metrics(v, step, t);
    bool good = !trainer_writes(t) || append(line, step, t, error);
    json_decref(line);
    if (t->settings->algorithm == ALGORITHM_SFT) {
        log_info(
            "  validation at step %lld: loss %.4f of %lld tokens in %lld held-out conversations, %lld of them left "
            "out as too long, %.1f s",
            (long long)step, v->loss, (long long)v->tokens, (long long)v->questions, (long long)v->unscored,
            v->seconds);
        return good;
    }
    char pass[64] = "";
    long long k = t->settings->grpo.val_num_generations_per_prompt;
    if (k > 1) snprintf(pass, sizeof pass, " (pass@%lld %.4f)", k, v->pass_k);
    log_info("  validation at step %lld: accuracy %.4f%s on %lld held-out questions, average length %.1f, %.1f s",
             (long long)step, v->accuracy, pass, (long long)v->questions, v->avg_length, v->seconds);
    if (v->unscored)
        log_warn("validation at step %lld: %lld of %lld samples could not be scored and do not count", (long long)step,
                 (long long)v->unscored, (long long)v->samples);
    return good;
}

static json_t *floats(const float *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, jsonio_real((double)values[i]));
    return list;
}

// How many bytes of the answer's text came with each of its tokens: 0 where a token is left out, or waits for the rest of a character.
static json_t *token_bytes(const Samples *s, int64_t b, const Trainer *t) {
    json_t *list = json_array();
    StrBuf text = {0};
    DetokenizeState state = {.tokenizer = t->model.tokenizer, .skip_special = true};
    for (int64_t i = s->offset[b] + s->prompt_length[b]; i < s->offset[b + 1]; i++) {
        size_t before = text.length;
        detokenize_push(&state, &text, s->ids[i]);
        if (i + 1 == s->offset[b + 1]) detokenize_flush(&state, &text);
        json_array_append_new(list, json_integer((json_int_t)(text.length - before)));
    }
    detokenize_close(&state);
    strbuf_close(&text);
    return list;
}

void step_log_put_components(json_t *line, const Samples *samples, int64_t sample) {
    if (!samples->component_count) return;
    json_t *components = json_object();
    for (int c = 0; c < samples->component_count; c++)
        json_object_set_new(components, samples->component_name[c],
                            samples->valid[sample] != 0 ? jsonio_real((double)samples->component[c][sample])
                                                        : json_null());
    json_object_set_new(line, "reward_components", components);
}

static json_t *sample_line(const StepReport *r, int64_t b, const Trainer *t) {
    const Samples *s = r->samples;
    int64_t first = s->offset[b], length = s->offset[b + 1] - first;
    json_t *line = json_object(), *ids = json_array(), *mask = json_array();
    for (int64_t i = 0; i < length; i++) {
        json_array_append_new(ids, json_integer(s->ids[first + i]));
        json_array_append_new(mask, json_integer(i >= s->prompt_length[b]));
    }
    json_object_set_new(line, "idx", json_integer(b));
    json_object_set_new(line, "content", task_messages(&t->task, false, s->question[b], s->text[b]));
    json_object_set_new(line, "rewards", jsonio_real((double)s->reward[b]));
    if (t->settings->grpo.use_dynamic_sampling)
        json_object_set(line, "filtered_rewards", json_object_get(line, "rewards"));
    step_log_put_components(line, s, b);
    json_object_set_new(line, "advantages", floats(s->advantage + first, length));
    json_object_set_new(line, "input_lengths", json_integer(length));
    json_object_set_new(line, "finish_reason", json_string(samples_finish_name(s->finish[b])));
    json_object_set_new(line, "sample_loss_mask", jsonio_real((double)r->sample_mask[b]));
    json_object_set_new(line, "token_ids", ids);
    json_object_set_new(line, "token_loss_mask", mask);
    json_object_set_new(line, "token_bytes", token_bytes(s, b, t));
    json_object_set_new(line, "generation_logprobs", floats(s->generation_logprobs + first, length));
    // What the trainer would compute before the first update: the same bits (max_abs_logprob_error).
    json_object_set(line, "prev_logprobs", json_object_get(line, "generation_logprobs"));
    if (s->reference_logprobs)
        json_object_set_new(line, "reference_logprobs", floats(s->reference_logprobs + first, length));
    return line;
}

bool step_log_samples(const StepReport *r, const Trainer *t, Error *error) {
    if (!r->samples || !trainer_writes(t)) return true;
    Arena arena = {0};
    StrBuf lines = {0};
    for (int64_t b = 0; b < r->samples->count; b++) {
        json_t *line = sample_line(r, b, t);
        jsonio_line(&lines, line);
        json_decref(line);
    }
    const char *path =
        arena_format(&arena, "%s/train_data_step%lld.jsonl", t->settings->logger.log_dir, (long long)r->step);
    bool good = file_write(path, lines.text, lines.length, error) && board_samples_step(r, t, error);
    strbuf_close(&lines);
    arena_close(&arena);
    return good;
}

// A run that begins at step 0 where an earlier one wrote: its lines stay under the first free name.
static bool set_aside(const char *path, Arena *arena, Error *error) {
    const char *old = NULL;
    for (int number = 1; !old || file_exists(old); number++) old = arena_format(arena, "%s.%d", path, number);
    if (!file_rename(path, old, error)) return false;
    log_info("the metrics of an earlier run are now in %s", old);
    return true;
}

// Whether the line is one of steps that the run has behind it. *damaged counts what is no JSON; the last line of a killed run
// may have no end.
static bool is_kept(const char *line, size_t length, bool last, int64_t step, int64_t *damaged) {
    json_t *value = json_loadb(line, length, 0, NULL);
    bool kept = json_is_object(value) && json_integer_value(json_object_get(value, "step")) <= step;
    *damaged += !json_is_object(value) && !last;
    json_decref(value);
    return kept;
}

static bool keep_lines(const char *path, int64_t step, Arena *arena, Error *error) {
    char *text;
    size_t size;
    StrBuf kept = {0};
    int64_t damaged = 0;
    if (!file_read(&text, &size, arena, path, error)) return false;
    for (const char *line = text, *end = text + size; line < end;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((line_end ? line_end : end) - line);
        if (is_kept(line, length, !line_end, step, &damaged)) {
            strbuf_append(&kept, line, length);
            strbuf_putc(&kept, '\n');
        }
        line += length + 1;
    }
    if (damaged) log_warn("%s: %lld damaged lines are left out", path, (long long)damaged);
    bool good = file_write(path, kept.text ? kept.text : "", kept.length, error);
    strbuf_close(&kept);
    return good;
}

bool step_log_resume(const char *log_dir, int64_t step, Error *error) {
    Arena arena = {0};
    const char *path = arena_format(&arena, "%s/metrics.jsonl", log_dir);
    bool good = file_make_folders(log_dir, error) && memory_log_resume(log_dir, step, error);
    if (good && file_exists(path)) good = step ? keep_lines(path, step, &arena, error) : set_aside(path, &arena, error);
    arena_close(&arena);
    return good;
}
