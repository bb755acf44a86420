#include "config/settings_megatron.h"

#include "config/settings_table.h"

#include <math.h>
#include <string.h>

#define SECTION "policy.megatron_cfg"

bool settings_megatron_enabled(const Value *tree) {
    const Value *enabled = value_find(tree, SECTION ".enabled");
    return enabled && (enabled->kind != VALUE_BOOL || enabled->boolean);
}

static bool apply_checkpointing(Settings *settings, Error *error) {
    static const char *const never_kept[] = {"core_attn", "layernorm"};
    const MegatronOptions *megatron = &settings->megatron;
    const Value *modules = value_find(settings->tree, SECTION ".recompute_modules");
    WalkCheckpointing *checkpointing = &settings->policy.activation_checkpointing;
    *checkpointing = WALK_KEEPS_ALL;
    if (!megatron->activation_checkpointing) return true;
    if (!strcmp(megatron->recompute_granularity, "full")) {
        *checkpointing = WALK_KEEPS_INPUTS;
        return true;
    }
    if (!modules || modules->kind == VALUE_NULL) return true;
    if (modules->kind != VALUE_LIST)
        return error_set(error, SECTION ".recompute_modules: expected a list of core_attn, layernorm, mlp, or null");
    for (const Value *at = modules->first; at; at = at->next) {
        const char *module = at->text ? at->text : "";
        if (!strcmp(module, "mlp"))
            *checkpointing = WALK_KEEPS_ATTENTION;
        else if (strcmp(module, never_kept[0]) && strcmp(module, never_kept[1]))
            return error_set(error, SECTION ".recompute_modules: '%s': choose of core_attn, layernorm, mlp", module);
    }
    return true;
}

static bool apply_optimizer(Settings *settings, Error *error) {
    const MegatronOptions *megatron = &settings->megatron;
    double decay = isnan(megatron->end_weight_decay) ? megatron->weight_decay : megatron->end_weight_decay;
    double start = isnan(megatron->start_weight_decay) ? megatron->weight_decay : megatron->start_weight_decay;
    if (start != decay)
        return error_set(error,
                         SECTION ".scheduler.start_weight_decay: %g is not end_weight_decay, %g, which "
                                 "weight_decay_incr_style constant needs",
                         start, decay);
    if (!(decay >= 0)) return error_set(error, SECTION ".scheduler.end_weight_decay: %g is below 0", decay);
    if (megatron->adam_beta1 == 1) return error_set(error, SECTION ".optimizer.adam_beta1: expected a number below 1");
    if (megatron->adam_beta2 == 1) return error_set(error, SECTION ".optimizer.adam_beta2: expected a number below 1");
    if (!(megatron->clip_grad >= 0))
        return error_set(error, SECTION ".optimizer.clip_grad: %g is below 0", megatron->clip_grad);
    settings->optimizer = (OptimizerOptions){.name = "AdamW",
                                             .lr = megatron->lr,
                                             .weight_decay = decay,
                                             .beta1 = megatron->adam_beta1,
                                             .beta2 = megatron->adam_beta2,
                                             .eps = megatron->adam_eps,
                                             .max_grad_norm = megatron->clip_grad,
                                             .spares_vectors = true};
    return true;
}

static bool check_rates(const MegatronOptions *megatron, bool decays, Error *error) {
    if (megatron->lr_warmup_iters && megatron->lr_warmup_init > megatron->lr)
        return error_set(error, SECTION ".scheduler.lr_warmup_init: %g is above optimizer.lr, %g",
                         megatron->lr_warmup_init, megatron->lr);
    if (!decays) return true;
    if (megatron->min_lr > megatron->lr)
        return error_set(error, SECTION ".optimizer.min_lr: %g is above optimizer.lr, %g", megatron->min_lr,
                         megatron->lr);
    if (!megatron->lr_decay_iters)
        return error_set(error,
                         SECTION ".scheduler.lr_decay_iters: null, but lr_decay_style '%s' needs a number of steps",
                         megatron->lr_decay_style);
    return megatron->lr_decay_iters > megatron->lr_warmup_iters ||
           error_set(error, SECTION ".scheduler.lr_decay_iters: %lld is not above lr_warmup_iters, %lld",
                     (long long)megatron->lr_decay_iters, (long long)megatron->lr_warmup_iters);
}

static void add_part(ScheduleOptions *schedule, SchedulePart part, int64_t first_step) {
    if (schedule->part_count) schedule->milestones[schedule->part_count - 1] = first_step;
    schedule->parts[schedule->part_count++] = part;
}

static bool apply_schedule(Settings *settings, Error *error) {
    const MegatronOptions *megatron = &settings->megatron;
    ScheduleOptions *schedule = &settings->scheduler;
    bool decays = strcmp(megatron->lr_decay_style, "constant"), cosine = !strcmp(megatron->lr_decay_style, "cosine");
    double base = megatron->lr, length = (double)(megatron->lr_decay_iters - megatron->lr_warmup_iters);
    *schedule = (ScheduleOptions){0};
    if (!check_rates(megatron, decays, error)) return false;
    if (base == 0) return true; // and so are all others
    double last = megatron->min_lr / base;
    SchedulePart warmup = {SCHEDULE_LINEAR, .start_factor = megatron->lr_warmup_init / base, .end_factor = 1,
                           .total_iters = (double)megatron->lr_warmup_iters};
    if (megatron->lr_warmup_iters) add_part(schedule, warmup, 0);
    if (!decays) return true; // behind its end a linear part stays there
    SchedulePart decay = {SCHEDULE_LINEAR, .start_factor = 1, .end_factor = last, .total_iters = length};
    if (cosine) decay = (SchedulePart){SCHEDULE_COSINE, .total_iters = length, .eta_min = megatron->min_lr};
    add_part(schedule, decay, megatron->lr_warmup_iters);
    SchedulePart rest = {SCHEDULE_CONSTANT, .start_factor = last, .total_iters = INFINITY};
    if (cosine) add_part(schedule, rest, megatron->lr_decay_iters);
    return true;
}

bool settings_megatron_apply(Settings *settings, Error *error) {
    const Value *other = value_find(settings->tree, "policy.automodel_cfg.enabled");
    if (other && other->kind == VALUE_BOOL && other->boolean && strcmp(other->origin.place, SETTINGS_TABLE_DEFAULT))
        return error_set(error,
                         "policy.automodel_cfg.enabled: true, and so is " SECTION ".enabled; a recipe trains by one");
    settings->policy.tensor_parallel_size = settings->megatron.tensor_model_parallel_size;
    settings->policy.sequence_parallel = settings->megatron.sequence_parallel;
    return apply_checkpointing(settings, error) && apply_optimizer(settings, error) && apply_schedule(settings, error);
}
