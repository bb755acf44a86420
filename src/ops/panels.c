#include "ops/panels.h"

#include "ops/gemm.h"

typedef struct GatherJob {
    const Tensor *y_TK, *panels;
    const int32_t *ids;
} GatherJob;

static void gather_task(void *context, int64_t t, int worker) {
    (void)worker;
    const GatherJob *job = context;
    int64_t K = job->y_TK->size[1], id = job->ids[t];
    if (id < 0) {
        for (int64_t k = 0; k < K; k++) dtype_store(job->y_TK->data, job->y_TK->dtype, t * K + k, -0.0f);
    } else if (dtype_size(job->y_TK->dtype) == 4) {
        uint32_t *row = (uint32_t *)job->y_TK->data + t * K;
        const uint32_t *panels = job->panels->data;
        for (int64_t k = 0; k < K; k++) row[k] = panels[gemm_panels_at(id, k, K, job->panels->dtype)];
    } else {
        uint16_t *row = (uint16_t *)job->y_TK->data + t * K;
        const uint16_t *panels = job->panels->data;
        for (int64_t k = 0; k < K; k++) row[k] = panels[gemm_panels_at(id, k, K, job->panels->dtype)];
    }
}

void panels_gather(Ops *ops, Tensor *y_TK, const LinearWeight *weight, const int32_t *ids) {
    const Tensor *panels = &weight->panels;
    CHECK(panels->data && y_TK->dtype == panels->dtype, "y is %s, the panels are %s", dtype_name(y_TK->dtype),
          panels->data ? dtype_name(panels->dtype) : "not there");
    CHECK(y_TK->rank == 2 && y_TK->size[1] == weight->k, "y has %lld columns, the weight %lld",
          (long long)y_TK->size[1], (long long)weight->k);
    for (int64_t t = 0; t < y_TK->size[0]; t++)
        CHECK(ids[t] >= -1 && ids[t] < weight->n, "id %d at %lld of %lld", ids[t], (long long)t, (long long)weight->n);
    if (!ops_starts(ops, 0, 2 * OPS_BYTES(y_TK))) return;
    GatherJob job = {y_TK, panels, ids};
    team_run(ops->team, y_TK->size[0], gather_task, &job);
    ops_wrote(ops, __func__, y_TK);
}
