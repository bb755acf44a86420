#include "run/trainer.h"

#include "base/int64.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "model/tensor_layout.h"
#include "run/deal.h"
#include "run/ranks.h"
#include "run/share.h"

#include <string.h>

// No more seats, and pages for them, than a rank's share of the answers of a step or of a validation takes.
static GenerationOptions engine_options(const Trainer *t) {
    const Settings *s = t->settings;
    GenerationOptions options = s->generation;
    int64_t ranks = t->sampling.mesh.data.size;
    int64_t answers = (settings_prompts_per_batch(s) + ranks - 1) / ranks * s->grpo.num_generations_per_prompt;
    if (settings_validates(s)) // products of at most 1e18
        answers = int64_larger(answers,
                               (s->grpo.val_batch_size + ranks - 1) / ranks * s->grpo.val_num_generations_per_prompt);
    options.max_sequences = int64_smaller(options.max_sequences, answers);
    return options;
}

// segments 0: those of the model (model/tensor_share.h).
static bool open_layout(TrainerLayout *layout, Trainer *t, const Comm *world, int64_t ranks, int64_t segments,
                        const char *key, Error *error) {
    const Architecture *whole = t->model.architecture;
    if (!mesh_open(&layout->mesh, world, ranks, &t->ops.device, error)) return error_prefix(error, "%s ", key);
    if (!tensor_share_open(&layout->share, whole, layout->mesh.tensor.rank, layout->mesh.tensor.size, segments, key,
                           error))
        return false;
    layout->parameters = t->model.parameters;
    if (ranks == 1) return true;
    parameters_open(&layout->own, &layout->share);
    layout->parameters = &layout->own;
    return true;
}

// How many ranks share the rollout's weights: as many as the recipe says, where the run has them.
static int64_t sampling_ranks(const Settings *s, const Comm *world) {
    if (s->algorithm == ALGORITHM_SFT)
        return s->policy.tensor_parallel_size; // validation's, which is all that it is for
    int64_t wanted = s->generation.tensor_parallel_size;
    if (world->size % wanted == 0) return wanted;
    log_info(
        "policy.generation.vllm_cfg.tensor_parallel_size is %lld, which does not divide %d rank%s: each samples alone",
        (long long)wanted, world->size, world->size == 1 ? "" : "s");
    return 1;
}

static bool open_layouts(Trainer *t, const Comm *world, Error *error) {
    const Settings *s = t->settings;
    int64_t training = s->policy.tensor_parallel_size, sampling = sampling_ranks(s, world);
    if (!open_layout(&t->training, t, world, training, s->whet.tensor_segments, settings_tensor_key(s), error))
        return false;
    t->mesh = t->training.mesh;
    int segments = t->training.share.segments * (int)training, own = tensor_share_segments(t->model.architecture);
    if (!s->whet.tensor_segments && segments != own)
        log_info("%d ranks cannot share the model's %d segments of sums: results are those of whet.tensor_segments=%d",
                 (int)training, own, segments);
    if (s->policy.sequence_parallel && training == 1)
        log_info("sequence_parallel has no effect: one tensor-parallel rank has all rows");
    return open_layout(&t->sampling, t, world, sampling, t->training.share.segments * training,
                       "policy.generation.vllm_cfg.tensor_parallel_size", error);
}

static void close_layout(TrainerLayout *layout) {
    mesh_close(&layout->mesh);
    parameters_close(&layout->own);
}

// The root on many ranks: a slice at a time, of rows of embedding or head or with the final norm.
static void load_root_slice(Resident *resident, Shards *shards, int slice) {
    int root = shards->table->unit_count - 1;
    const ShardSlice *of = &shards->units[root].slices[slice];
    Tensor gathered = shard_gather(shards, &shards->weight[root], root, slice, resident->policy.compute);
    for (int i = 0; i < shards->table->count; i++) {
        const Parameter *parameter = &shards->table->items[i];
        int64_t from = parameter->offset - of->first; // of the parameter, in the slice
        if (parameter->unit != root || from >= of->count || from + parameter->rows * parameter->cols <= 0) continue;
        if (parameter->vector) {
            Tensor norm_D = tensor_rows(&gathered, from, parameter->rows);
            resident_load_norm(resident, &norm_D);
        } else {
            Tensor rows = tensor_rows(&gathered, 0, of->count);
            rows = TENSOR_RESHAPE(&rows, of->count / parameter->cols, parameter->cols);
            resident_load_rows(resident, parameter, -from / parameter->cols, &rows);
        }
    }
    shard_release(shards, &gathered);
}

// Where sampling divides the model as training does.
static void load_resident(Resident *resident, Shards *shards) {
    int root = shards->table->unit_count - 1;
    for (int unit = 0; unit <= root; unit++) {
        if (shard_whole(shards)) {
            resident_load_unit(resident, unit, &shards->weight[unit]);
            continue;
        }
        for (int slice = 0; unit == root && slice < shards->units[root].slice_count; slice++)
            load_root_slice(resident, shards, slice);
        if (unit == root) return;
        Tensor gathered = shard_gather(shards, &shards->weight[unit], unit, SHARD_ALL, resident->policy.compute);
        Tensor flat = tensor_rows(&gathered, 0, shards->table->unit_sizes[unit]);
        resident_load_unit(resident, unit, &flat);
        shard_release(shards, &gathered);
    }
}

static bool open_policies(Trainer *t, Error *error) {
    const Settings *s = t->settings;
    const Architecture *architecture = &t->training.share;
    PrecisionPolicy dtypes = s->policy.dtypes;
    int64_t positions = s->policy.max_total_sequence_length;
    if (positions > architecture->max_positions)
        return error_set(error, "policy.max_total_sequence_length: %lld, but the model was made for %lld positions",
                         (long long)positions, (long long)architecture->max_positions);
    if (s->whet.kept_blocks > architecture->layer_count)
        return error_set(error, "whet.kept_blocks: %lld, but the model has %lld blocks", (long long)s->whet.kept_blocks,
                         (long long)architecture->layer_count);
    int64_t rows = int64_larger(s->generation.prefill_chunk, engine_options(t).max_sequences);
    t->has_reference = s->algorithm == ALGORITHM_GRPO &&
                       (loss_needs_reference(&s->loss_fn) || advantage_needs_reference(&s->adv_estimator, &s->loss_fn));
    shard_open_ranks(&t->shards, &t->ops, t->training.parameters, (ShardOptions){.comm = &t->mesh.data});
    walk_open(&t->walk, &t->ops, architecture, &t->shards,
              (WalkOptions){.policy = dtypes,
                            .activation_checkpointing = s->policy.activation_checkpointing,
                            .kept_blocks = s->whet.kept_blocks,
                            .max_positions = positions,
                            .tensor = &t->training.mesh.tensor,
                            .sequence_parallel = s->policy.sequence_parallel});
    resident_open(&t->rollout, &t->ops, &t->sampling.share, t->sampling.parameters, &t->sampling.mesh.tensor, dtypes,
                  MEMORY_ROLLOUT_WEIGHTS, rows, positions);
    if (!comm_agree(&t->mesh.world, shard_load(&t->shards, t->model.file, error), error)) return false;
    if (!t->has_reference) return true;
    resident_open(&t->reference, &t->ops, architecture, t->training.parameters, &t->training.mesh.tensor, dtypes,
                  MEMORY_REFERENCE, rows, positions);
    return true;
}

static bool open_engine(Trainer *t, EngineStops stops, Error *error) {
    GenerationOptions options = engine_options(t);
    if (t->settings->algorithm == ALGORITHM_SFT) return true;
    if (!stops.tokenizer) options.stop_string_count = 0; // nothing is drawn that could be read
    return engine_open(&t->engine, &t->rollout, &options, stops, error);
}

// What a rank does alone.
static bool open_inputs(Trainer *t, int threads, Error *error) {
    const Settings *settings = t->settings;
    const PolicyOptions *policy = &settings->policy;
    if (!ops_open(&t->ops, (OpsOptions){.threads = threads}, error) ||
        !loaded_model_open(&t->model, policy->model_name, policy->tokenizer_name, policy->chat_template,
                           policy->hf_config_overrides, error) ||
        !loaded_model_chat_options(&t->model, policy->chat_template_kwargs, policy->template_time, error))
        return false;
    model_file_digest(t->model.file, t->model_digest);
    return task_open(&t->task, settings, &t->model, trainer_writes(t), error);
}

bool trainer_open_ranks(Trainer *t, const Settings *settings, Comm *world, Error *error) {
    *t = (Trainer){.settings = settings, .started = log_seconds()};
    int threads = ranks_threads(world); // which all ask, also a rank that was given a number of its own
    if (settings->whet.threads) threads = (int)settings->whet.threads;
    if (!comm_agree(world, open_inputs(t, threads, error), error) ||
        !ranks_same(world, "the model", t->model_digest, error) || !ranks_same_model(world, &t->model, error) ||
        !ranks_same(world, "what data.train and data.validation name", t->task.data_digest, error) ||
        !ranks_same_recipe(world, settings, error))
        return false;
    EngineStops stops = {t->model.tokenizer, t->model.stop_ids, t->model.stop_count};
    if (!open_layouts(t, world, error)) return false; // by what all know alike
    return comm_agree(world, open_policies(t, error) && open_engine(t, stops, error), error);
}

bool trainer_open_plan(Trainer *t, const Settings *settings, const Comm *world, const Architecture *architecture,
                       const ParameterTable *parameters, Error *error) {
    *t = (Trainer){.settings = settings, .started = log_seconds()};
    if (!ops_open(&t->ops, (OpsOptions){.device = DEVICE_PLAN}, error)) return false;
    t->model =
        (LoadedModel){.path = settings->policy.model_name, .architecture = architecture, .parameters = parameters};
    return open_layouts(t, world, error) && open_policies(t, error) && open_engine(t, (EngineStops){0}, error);
}

bool trainer_open(Trainer *t, const Settings *settings, Error *error) {
    Comm world = comm_self();
    return trainer_open_ranks(t, settings, &world, error);
}

void trainer_close(Trainer *t) {
    engine_close(t->engine);
    tensorboard_close(&t->board);
    resident_close(&t->reference);
    resident_close(&t->rollout);
    walk_close(&t->walk);
    shard_close(&t->shards);
    task_close(&t->task);
    loaded_model_close(&t->model);
    close_layout(&t->training);
    close_layout(&t->sampling);
    if (t->ops.kernels) ops_close(&t->ops);
    *t = (Trainer){0};
}

void trainer_rest(Trainer *t) {
    if (t->engine) engine_rest(t->engine);
    resident_drop_weights(&t->rollout);
    resident_drop_scratch(&t->rollout);
}

// From training's share of the unit to sampling's, by way of the whole unit.
static void refit_unit(Trainer *t, int unit) {
    const ParameterTable *whole = t->model.parameters;
    Device *device = &t->ops.device;
    Tensor share = shard_gather(&t->shards, &t->shards.weight[unit], unit, SHARD_ALL, t->rollout.policy.compute);
    Tensor joined = {0}, part = {0};
    Tensor flat = tensor_rows(&share, 0, t->training.parameters->unit_sizes[unit]);
    if (t->training.mesh.tensor.size > 1) {
        joined = DEVICE_TENSOR_RAW(device, MEMORY_GATHERED_UNIT, flat.dtype, whole->unit_sizes[unit]);
        tensor_layout_join(&t->ops, &t->training.mesh.tensor, &t->training.share, whole, unit, &joined, &flat);
        flat = joined;
    }
    if (t->sampling.mesh.tensor.size > 1) {
        part = DEVICE_TENSOR_RAW(device, MEMORY_GATHERED_UNIT, flat.dtype, t->sampling.parameters->unit_sizes[unit]);
        tensor_layout_cut(&t->ops, t->sampling.parameters, whole, unit, &part, &flat);
        flat = part;
    }
    resident_load_unit(&t->rollout, unit, &flat);
    device_release(device, &part);
    device_release(device, &joined);
    shard_release(&t->shards, &share);
}

void trainer_refit(Trainer *t) {
    MemoryPhase before = ledger_enter(&t->ops.device.ledger, PHASE_REFIT);
    if (t->training.mesh.tensor.size == t->sampling.mesh.tensor.size)
        load_resident(&t->rollout, &t->shards);
    else
        for (int unit = 0; unit < t->model.parameters->unit_count; unit++) refit_unit(t, unit);
    ledger_enter(&t->ops.device.ledger, before);
}

// The answers as text, special tokens left out.
static void decode_answers(const Trainer *t, Samples *samples, Arena *arena) {
    samples->text = arena_array(arena, const char *, samples->count);
    StrBuf text = {0};
    for (int64_t b = 0; b < samples->count; b++) {
        int64_t first = samples->offset[b] + samples->prompt_length[b];
        strbuf_clear(&text);
        tokenizer_decode(t->model.tokenizer, &text, samples->ids + first, (size_t)(samples->offset[b + 1] - first),
                         true);
        samples->text[b] = arena_bytes(arena, text.text, text.length);
    }
    strbuf_close(&text);
}

// Numbers that were lost are no reason to stop a run: the samples take no part in it.
static void say_lost(const Samples *samples, const char *label) {
    int64_t first = 0, lost = 0;
    for (int64_t b = samples->count; b-- > 0;)
        if (samples->finish[b] == FINISH_NAN) first = b, lost++;
    if (lost)
        log_warn("%s: %lld of %lld samples ended because their logits held NaN or infinity, the first of prompt %d "
                 "after %lld "
                 "tokens; they are left out",
                 label, (long long)lost, (long long)samples->count, samples->prompt[first],
                 (long long)(samples->offset[first + 1] - samples->offset[first] - samples->prompt_length[first]));
}

CommCounts trainer_sent(Trainer *t) {
    Mesh *meshes[] = {&t->mesh, &t->training.mesh, &t->sampling.mesh};
    CommCounts sum = {0};
    for (int m = 0; m < 3; m++) {
        Comm *comms[] = {&meshes[m]->world, &meshes[m]->data, &meshes[m]->tensor};
        for (int c = 0; c < 3; c++) {
            CommCounts *part = &comms[c]->counts;
            for (int call = 0; call < COMM_CALL_COUNT; call++) {
                sum.calls[call] += part->calls[call];
                sum.bytes[call] += part->bytes[call];
            }
            sum.waited += part->waited, sum.moved += part->moved;
            *part = (CommCounts){0};
        }
    }
    return sum;
}

bool trainer_asked(Trainer *t) {
    int before = t->stop;
    if (!before) t->stop = (int)comm_largest(&t->mesh.world, (uint64_t)stop_signal_taken());
    return t->stop;
}

bool trainer_stops(Trainer *t) {
    int before = t->stop;
    if (trainer_asked(t) && !before)
        log_info("%s: the step under way is %s; the next signal ends the run at once", stop_signal_name(t->stop),
                 t->committed ? "finished first" : "abandoned");
    return t->stop && !t->committed;
}

// Walks this rank's requests, and those that it takes over, to their ends. False: the rollout was stopped.
static bool sample(Trainer *t, Deal *deal, const char *label, int64_t samples, int64_t most_tokens, Error *error) {
    // Answers end at any time: a finished one counts as its limit, and until answers finish the drawn tokens count.
    Progress progress;
    bool stopped = false, good = true;
    progress_begin(&progress, label, samples * most_tokens);
    for (bool more = true; good && more && !stopped;) {
        good = deal_take_over(deal, t->engine, error);
        more = good && (engine_step(t->engine) || !deal->over);
        EngineCounts counts = engine_counts(t->engine);
        progress_update(&progress, int64_larger(counts.answer_tokens, counts.finished * most_tokens));
        stopped = deal_stops(deal, !t->committed && stop_signal_taken());
    }
    deal_close(deal);
    progress_end(&progress);
    return good;
}

bool trainer_rollout(Trainer *t, Samples *samples, EngineCounts *counts, bool *complete, Arena *arena,
                     const EngineRequest *requests, int64_t count, const GenerationOptions *options, EngineRun run,
                     const char *label, Error *error) {
    Arena scratch = {0};
    Deal deal;
    EngineRequest *first;
    int64_t own, total = 0;
    engine_set_sampling(t->engine, options);
    deal_open(&deal, &first, &own, &t->sampling.mesh, requests, count, engine_options(t).max_sequences, &scratch);
    for (int64_t i = 0; i < own; i++) total += first[i].samples;
    bool good = comm_agree(&t->mesh.world, engine_start(t->engine, first, own, run, error), error) &&
                comm_agree(&t->mesh.world, sample(t, &deal, label, total, options->max_new_tokens, error), error);
    *complete = good && !trainer_stops(t);
    if (*complete) {
        Samples collected;
        engine_collect(t->engine, &collected, t->sampling.mesh.data.size > 1 ? &scratch : arena);
        share_samples(samples, &collected, &t->sampling.mesh.data, arena);
        say_lost(samples, label);
        if (trainer_writes(t) && t->model.tokenizer) decode_answers(t, samples, arena);
    }
    if (counts) *counts = share_counts(engine_counts(t->engine), &t->sampling.mesh.data);
    arena_close(&scratch);
    return good;
}

bool trainer_reward(Trainer *t, Samples *samples, bool held_out, int64_t step, Arena *arena, Error *error) {
    bool good = !trainer_writes(t) || task_reward(&t->task, samples, held_out, step, arena, error);
    if (!comm_agree(&t->mesh.world, good, error)) return false;
    share_rewards(samples, &t->mesh.world, arena);
    return true;
}
