#include "run/runtime.h"

bool runtime_open(Runtime *runtime, const Arguments *arguments, const char *path, Error *error) {
    *runtime = (Runtime){0};
    const char *precision = command_text(arguments, "--precision");
    int64_t threads = 0;
    if (!precision_parse_compute(&runtime->policy.compute, precision ? precision : "float32", error) ||
        !precision_parse_output(&runtime->policy.output, command_text(arguments, "--output-dtype"),
                                runtime->policy.compute, error) ||
        !command_integer(arguments, "--threads", &threads, 1, 1024, error))
        return false;
    return ops_open(&runtime->ops, (OpsOptions){.threads = (int)threads}, error) &&
           loaded_model_open(&runtime->model, path, NULL, command_text(arguments, "--chat-template"), error);
}

bool runtime_load(Runtime *runtime, int64_t rows, int64_t positions, Error *error) {
    const LoadedModel *model = &runtime->model;
    if (positions > model->architecture->max_positions)
        return error_set(error, "%s: a sequence of %lld tokens is wanted, the model was made for %lld", model->path,
                         (long long)positions, (long long)model->architecture->max_positions);
    resident_open(&runtime->resident, &runtime->ops, model->architecture, model->parameters, runtime->policy,
                  MEMORY_ROLLOUT_WEIGHTS, rows, positions);
    return resident_load_file(&runtime->resident, model->file, error);
}

void runtime_close(Runtime *runtime) {
    resident_close(&runtime->resident);
    loaded_model_close(&runtime->model);
    if (runtime->ops.kernels) ops_close(&runtime->ops);
    *runtime = (Runtime){0};
}
