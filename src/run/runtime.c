#include "run/runtime.h"

#include <sys/resource.h>

bool runtime_open(Runtime *runtime, Arguments *arguments, const char *path, Error *error) {
    *runtime = (Runtime){0};
    const char *precision = command_text(arguments, "--precision");
    int64_t threads = 0;
    if (!precision_parse_compute(&runtime->policy.compute, "--precision", precision ? precision : "float32", error) ||
        !precision_parse_output(&runtime->policy.output, "--output-dtype", command_text(arguments, "--output-dtype"),
                                runtime->policy.compute, error))
        return command_misuse(arguments);
    return command_integer(arguments, "--threads", &threads, 1, 1024, error) &&
           ops_open(&runtime->ops, (OpsOptions){.threads = (int)threads}, error) &&
           loaded_model_open(&runtime->model, path, NULL, command_text(arguments, "--chat-template"), NULL, error);
}

bool runtime_load(Runtime *runtime, int64_t rows, int64_t positions, Error *error) {
    const LoadedModel *model = &runtime->model;
    resident_open(&runtime->resident, &runtime->ops, model->architecture, model->parameters, NULL, runtime->policy,
                  MEMORY_ROLLOUT_WEIGHTS, rows, positions);
    return resident_load_file(&runtime->resident, model->file, error);
}

void runtime_say_memory(const Runtime *runtime) {
    const LedgerPeak *peak = &runtime->ops.device.ledger.peak;
    struct rusage usage;
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++)
        if (peak->by_tag[tag])
            log_verbose("  %-16s %8.1f MiB", ledger_tag_name(tag), (double)peak->by_tag[tag] / 0x1p20);
    getrusage(RUSAGE_SELF, &usage);
    log_verbose("memory at the peak %.1f MiB; the process held %.1f MiB at most", (double)peak->total / 0x1p20,
                (double)usage.ru_maxrss / 0x1p10);
}

void runtime_close(Runtime *runtime) {
    resident_close(&runtime->resident);
    loaded_model_close(&runtime->model);
    if (runtime->ops.kernels) ops_close(&runtime->ops);
    *runtime = (Runtime){0};
}
