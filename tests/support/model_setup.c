#include "support/model_setup.h"

bool model_setup_open(ModelSetup *setup, const char *path, PrecisionPolicy policy, OpsOptions options, int64_t rows,
                      int64_t positions, Error *error) {
    *setup = (ModelSetup){0};
    if (!ops_open(&setup->ops, options, error) || !model_file_open(&setup->file, path, error)) return false;
    setup->architecture = model_file_architecture(setup->file);
    setup->parameters = model_file_parameters(setup->file);
    shard_open(&setup->shards, &setup->ops, setup->parameters);
    resident_open(&setup->resident, &setup->ops, setup->architecture, setup->parameters, policy, MEMORY_ROLLOUT_WEIGHTS,
                  rows, positions);
    walk_open(&setup->walk, &setup->ops, setup->architecture, &setup->shards,
              (WalkOptions){.policy = policy, .max_positions = positions});
    return shard_load(&setup->shards, setup->file, error) && resident_load_file(&setup->resident, setup->file, error);
}

void model_setup_close(ModelSetup *setup) {
    walk_close(&setup->walk);
    resident_close(&setup->resident);
    shard_close(&setup->shards);
    model_file_close(setup->file);
    if (setup->ops.kernels) ops_close(&setup->ops);
    *setup = (ModelSetup){0};
}
