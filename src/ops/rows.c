#include "ops/rows.h"

#include "ops/rows_job.h"
#include "ops/sincos.h"

#include <math.h>

enum { SQUARE_BLOCK = 4096, SLAB_BLOCKS = 512 };

// out[i] = a[indices[i]]
static void gather_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        Numbers from = numbers(job->a, job->indices[row] * job->columns);
        job->kernels->rows_convert(numbers(job->out, row * job->columns), from, job->columns);
    }
}

static void check_indices(const int32_t *indices, int64_t count, int64_t limit) {
    for (int64_t i = 0; i < count; i++)
        CHECK(indices[i] >= 0 && indices[i] < limit, "index %lld is %d, of %lld rows", (long long)i, (int)indices[i],
              (long long)limit);
}

void rows_gather(Ops *ops, Tensor *out_TD, const Tensor *x_SD, const int32_t *rows) {
    check_matrix(out_TD, "out", out_TD->size[0], x_SD->size[1]);
    check_matrix(x_SD, "x", x_SD->size[0], out_TD->size[1]);
    uint64_t picked = (uint64_t)tensor_count(out_TD) * dtype_size(x_SD->dtype);
    if (!ops_starts(ops, 0, OPS_BYTES(out_TD) + picked)) return;
    check_indices(rows, out_TD->size[0], x_SD->size[0]);
    RowsJob job = {.rows = out_TD->size[0], .columns = out_TD->size[1], .out = out_TD, .a = x_SD, .indices = rows};
    run_rows(ops, job, gather_task);
    ops_wrote(ops, __func__, out_TD);
}

static void first_columns_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    size_t size = dtype_size(job->out->dtype);
    EACH_ROW(job, task, row) {
        memcpy((char *)job->out->data + (size_t)(row * job->columns) * size,
               (const char *)job->a->data + (size_t)(row * job->a->size[1]) * size, (size_t)job->columns * size);
    }
}

void rows_first_columns(Ops *ops, Tensor *out_TO, const Tensor *x_TC) {
    check_matrix(out_TO, "out", x_TC->size[0], out_TO->size[1]);
    CHECK(out_TO->dtype == x_TC->dtype && x_TC->rank == 2 && x_TC->size[1] >= out_TO->size[1], "%s of %lld columns",
          dtype_name(x_TC->dtype), (long long)x_TC->size[1]);
    if (!ops_starts(ops, 0, 2 * OPS_BYTES(out_TO))) return;
    run_rows(ops, (RowsJob){.rows = out_TO->size[0], .columns = out_TO->size[1], .out = out_TO, .a = x_TC},
             first_columns_task);
    ops_wrote(ops, __func__, out_TO);
}

static void embedding_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        int64_t id = job->indices[row], to = row * job->columns;
        if (id >= 0)
            job->kernels->rows_convert(numbers(job->out, to), numbers(job->a, id * job->columns), job->columns);
        else
            for (int64_t i = 0; i < job->columns; i++) dtype_store(job->out->data, job->out->dtype, to + i, -0.0f);
    }
}

void embedding_forward(Ops *ops, Tensor *y_TD, const Tensor *table_VD, const int32_t *ids) {
    check_matrix(y_TD, "y", y_TD->size[0], table_VD->size[1]);
    check_matrix(table_VD, "table", table_VD->size[0], y_TD->size[1]);
    if (!ops_starts(ops, 0, 2 * OPS_BYTES(y_TD))) return;
    for (int64_t t = 0; t < y_TD->size[0]; t++)
        CHECK(ids[t] >= -1 && ids[t] < table_VD->size[0], "id %lld is %d, of %lld", (long long)t, (int)ids[t],
              (long long)table_VD->size[0]);
    RowsJob job = {.rows = y_TD->size[0], .columns = y_TD->size[1], .out = y_TD, .a = table_VD, .indices = ids};
    run_rows(ops, job, embedding_task);
}

static void scatter_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        Numbers to = numbers(job->out, job->indices[row] * job->columns);
        job->kernels->rows_convert(to, numbers(job->a, row * job->columns), job->columns);
    }
}

void rows_scatter(Ops *ops, Tensor *out_SD, const Tensor *x_TD, const int32_t *rows) {
    check_matrix(out_SD, "out", out_SD->size[0], x_TD->size[1]);
    check_matrix(x_TD, "x", x_TD->size[0], out_SD->size[1]);
    uint64_t written = (uint64_t)tensor_count(x_TD) * dtype_size(out_SD->dtype);
    if (!ops_starts(ops, 0, OPS_BYTES(x_TD) + written)) return;
    check_indices(rows, x_TD->size[0], out_SD->size[0]);
    RowsJob job = {.rows = x_TD->size[0], .columns = x_TD->size[1], .out = out_SD, .a = x_TD, .indices = rows};
    run_rows(ops, job, scatter_task);
    ops_wrote(ops, __func__, out_SD);
}

static void embedding_backward_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    int64_t first = task * job->step, count = int64_smaller(job->step, job->columns - first);
    float *table = job->out->data;
    for (int64_t row = 0; row < job->rows; row++)
        if (job->indices[row] >= 0)
            job->kernels->rows_accumulate(table + job->indices[row] * job->columns + first,
                                          numbers(job->a, row * job->columns + first), count);
}

void embedding_backward(Ops *ops, Tensor *dtable_UD, const Tensor *dy_TD, const int32_t *rows) {
    check_matrix(dtable_UD, "dtable", dtable_UD->size[0], dy_TD->size[1]);
    check_matrix(dy_TD, "dy", dy_TD->size[0], dtable_UD->size[1]);
    check_f32(dtable_UD, "dtable");
    uint64_t added = 2 * (uint64_t)tensor_count(dy_TD) * sizeof(float);
    if (!ops_starts(ops, 0, OPS_BYTES(dy_TD) + added)) return;
    for (int64_t t = 0; t < dy_TD->size[0]; t++)
        CHECK(rows[t] >= -1 && rows[t] < dtable_UD->size[0], "row %lld is %d, of %lld", (long long)t, (int)rows[t],
              (long long)dtable_UD->size[0]);
    RowsJob job = {.rows = dy_TD->size[0], .columns = dy_TD->size[1], .out = dtable_UD, .a = dy_TD, .indices = rows};
    run_columns(ops, job, embedding_backward_task);
    ops_wrote(ops, __func__, dtable_UD);
}

static void add_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    int64_t at = task * job->step;
    job->kernels->rows_plus(numbers(job->out, at), numbers(job->a, at), numbers(job->b, at),
                            int64_smaller(job->step, job->columns - at));
}

void rows_add(Ops *ops, Tensor *out, const Tensor *a, const Tensor *b) {
    int64_t count = tensor_count(out);
    check_count(out, "out", count);
    check_count(a, "a", count);
    check_count(b, "b", count);
    if (!ops_starts(ops, 0, OPS_BYTES(out, a, b))) return;
    run_elements(ops, (RowsJob){.rows = 1, .columns = count, .out = out, .a = a, .b = b}, add_task);
    ops_wrote(ops, __func__, out);
}

// The smallest magnitude that rounds to infinity: half a step beyond the largest finite number.
static float overflow_limit(DType dtype) {
    switch (dtype) {
    case DTYPE_BF16: return 0x1.ffp+127f;
    case DTYPE_F16: return 65520.0f;
    default: return INFINITY;
    }
}

static void cast_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    int64_t at = task * job->step, count = int64_smaller(job->step, job->columns - at);
    Numbers out = numbers(job->out, at), in = numbers(job->a, at);
    if (out.dtype == in.dtype || out.dtype == DTYPE_F32) {
        job->kernels->rows_convert(out, in, count);
        return;
    }
    int64_t found = job->kernels->rows_convert_counting(out, in, overflow_limit(out.dtype), count);
    if (found) atomic_fetch_add(job->found, found);
}

int64_t rows_cast(Ops *ops, Tensor *out, const Tensor *in) {
    int64_t count = tensor_count(out);
    check_count(out, "out", count);
    check_count(in, "in", count);
    if (!ops_starts(ops, 0, OPS_BYTES(out, in))) return 0;
    _Atomic int64_t found = 0;
    run_elements(ops, (RowsJob){.rows = 1, .columns = count, .out = out, .a = in, .found = &found}, cast_task);
    ops_wrote(ops, __func__, out);
    return atomic_load(&found);
}

static void swiglu_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        int64_t f = job->columns, at = row * 2 * f;
        job->kernels->swiglu_row(numbers(job->out, row * f), numbers(job->a, at), numbers(job->a, at + f), f);
    }
}

void swiglu_forward(Ops *ops, Tensor *act_TF, const Tensor *gate_up_T2F) {
    int64_t rows = act_TF->size[0], columns = act_TF->size[1];
    check_matrix(act_TF, "act", rows, columns);
    check_matrix(gate_up_T2F, "gate_up", rows, 2 * columns);
    if (!ops_starts(ops, 0, OPS_BYTES(act_TF, gate_up_T2F))) return;
    run_rows(ops, (RowsJob){.rows = rows, .columns = columns, .out = act_TF, .a = gate_up_T2F}, swiglu_task);
    ops_wrote(ops, __func__, act_TF);
}

static void swiglu_backward_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        int64_t f = job->columns, at = row * 2 * f;
        job->kernels->swiglu_row_backward(numbers(job->out, at), numbers(job->out, at + f), numbers(job->c, row * f),
                                          numbers(job->a, row * f), numbers(job->b, at), numbers(job->b, at + f), f);
    }
}

void swiglu_backward(Ops *ops, Tensor *dgate_up_T2F, Tensor *act_TF, const Tensor *dact_TF, const Tensor *gate_up_T2F) {
    int64_t rows = dact_TF->size[0], columns = dact_TF->size[1];
    check_matrix(dact_TF, "dact", rows, columns);
    check_matrix(gate_up_T2F, "gate_up", rows, 2 * columns);
    check_matrix(dgate_up_T2F, "dgate_up", rows, 2 * columns);
    check_matrix(act_TF, "act", rows, columns);
    if (!ops_starts(ops, 0, OPS_BYTES(dgate_up_T2F, act_TF, dact_TF, gate_up_T2F))) return;
    RowsJob job = {.rows = rows, .columns = columns, .out = dgate_up_T2F, .a = dact_TF, .b = gate_up_T2F, .c = act_TF};
    run_rows(ops, job, swiglu_backward_task);
    ops_wrote(ops, __func__, dgate_up_T2F);
    ops_wrote(ops, "swiglu_forward", act_TF);
}

static void rope_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        const float *cos_sin = job->values + job->indices[row] * job->head_dim;
        job->kernels->rope_row(numbers(job->out, row * job->columns), cos_sin, job->heads, job->head_dim, job->number);
    }
}

void rope_apply(Ops *ops, Tensor *x_TC, const Tensor *cos_sin_PE, const int32_t *positions, int64_t heads,
                int64_t head_dim, bool inverse) {
    int64_t rows = x_TC->size[0], columns = x_TC->size[1];
    check_matrix(x_TC, "x", rows, columns);
    check_matrix(cos_sin_PE, "cos_sin", cos_sin_PE->size[0], head_dim);
    check_f32(cos_sin_PE, "cos_sin");
    CHECK(head_dim > 0 && head_dim % 2 == 0 && heads >= 0 && heads <= columns / head_dim,
          "%lld heads of %lld in %lld columns", (long long)heads, (long long)head_dim, (long long)columns);
    uint64_t turned = (uint64_t)(rows * heads * head_dim) * dtype_size(x_TC->dtype);
    if (!ops_starts(ops, 0, 2 * turned)) return;
    check_indices(positions, rows, cos_sin_PE->size[0]);
    RowsJob job = {.rows = rows, .columns = columns, .out = x_TC, .values = cos_sin_PE->data, .indices = positions};
    job.heads = heads;
    job.head_dim = head_dim;
    job.number = inverse ? -1.0f : 1.0f;
    run_rows(ops, job, rope_task);
    ops_wrote(ops, __func__, x_TC);
}

static void rope_table_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        float *cosine = (float *)job->out->data + row * job->columns, *sine = cosine + job->columns / 2;
        for (int64_t i = 0; i < job->columns / 2; i++) {
            sincos_of((float)row * job->values[i], sine + i, cosine + i);
            sine[i] *= job->number;
            cosine[i] *= job->number;
        }
    }
}

void rope_table(Ops *ops, Tensor *cos_sin_PE, const float *inv_freq, float scale) {
    int64_t rows = cos_sin_PE->size[0], columns = cos_sin_PE->size[1];
    check_matrix(cos_sin_PE, "cos_sin", rows, columns);
    check_f32(cos_sin_PE, "cos_sin");
    CHECK(columns % 2 == 0, "%lld columns", (long long)columns);
    if (!ops_starts(ops, 0, OPS_BYTES(cos_sin_PE))) return;
    RowsJob job = {.rows = rows, .columns = columns, .out = cos_sin_PE, .values = inv_freq, .number = scale};
    run_rows(ops, job, rope_table_task);
}

static void magnitude_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, block) {
        int64_t at = (job->first + block) * SQUARE_BLOCK, rest = tensor_count(job->a) - at;
        job->rstd[block] = job->kernels->rows_magnitude_block(numbers(job->a, at), int64_smaller(SQUARE_BLOCK, rest));
    }
}

float rows_magnitude(Ops *ops, const Tensor *x) {
    int64_t blocks = (tensor_count(x) + SQUARE_BLOCK - 1) / SQUARE_BLOCK;
    check_floats(x, "x");
    if (!ops_starts(ops, 0, OPS_BYTES(x))) return 0;
    float found[SLAB_BLOCKS];
    uint32_t largest = 0;
    RowsJob job = {.columns = SQUARE_BLOCK, .a = x, .rstd = found};
    for (job.first = 0; job.first < blocks; job.first += SLAB_BLOCKS) {
        job.rows = int64_smaller(SLAB_BLOCKS, blocks - job.first);
        run_rows(ops, job, magnitude_task);
        for (int64_t i = 0; i < job.rows; i++)
            if (dtype_bits(found[i]) > largest) largest = dtype_bits(found[i]);
    }
    return dtype_float(largest);
}

RowsSquares rows_squares_grid(float largest, int64_t count) {
    int exponent, bits = 1;
    CHECK(isfinite(largest), "largest %g", (double)largest);
    while (bits < 62 && count > (int64_t)1 << bits) bits++;
    frexp((double)largest * (double)largest, &exponent); // x² <= 2^exponent
    int coarse = exponent + bits;                        // 2^52 multiples: no sum is larger
    return (RowsSquares){ldexp(1.5, coarse), ldexp(1.5, coarse - 53 + bits)};
}

static void squares_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, block) {
        int64_t at = (job->first + block) * SQUARE_BLOCK, rest = tensor_count(job->a) - at;
        job->kernels->rows_squares_block(numbers(job->a, at), int64_smaller(SQUARE_BLOCK, rest), job->grid,
                                         &job->squares[block]);
    }
}

RowsSquares rows_squares(Ops *ops, const Tensor *x, RowsSquares grid) {
    int64_t blocks = (tensor_count(x) + SQUARE_BLOCK - 1) / SQUARE_BLOCK;
    RowsSquares total = {0}, sums[SLAB_BLOCKS];
    check_floats(x, "x");
    if (!ops_starts(ops, 0, OPS_BYTES(x))) return total;
    RowsJob job = {.columns = SQUARE_BLOCK, .a = x, .grid = grid, .squares = sums};
    for (job.first = 0; job.first < blocks; job.first += SLAB_BLOCKS) {
        job.rows = int64_smaller(SLAB_BLOCKS, blocks - job.first);
        run_rows(ops, job, squares_task);
        for (int64_t i = 0; i < job.rows; i++) {
            total.coarse += sums[i].coarse;
            total.fine += sums[i].fine;
        }
    }
    return total;
}

double rows_square_sum(Ops *ops, const Tensor *x) {
    float largest = rows_magnitude(ops, x);
    if (!isfinite(largest)) return (double)largest;
    RowsSquares sum = rows_squares(ops, x, rows_squares_grid(largest, tensor_count(x)));
    return sum.coarse + sum.fine;
}

static void nonfinite_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    int64_t at = task * job->step;
    int64_t found = job->kernels->rows_nonfinite(numbers(job->a, at), int64_smaller(job->step, job->columns - at));
    if (found) atomic_fetch_add(job->found, found);
}

int64_t rows_count_nonfinite(Ops *ops, const Tensor *x) {
    check_floats(x, "x");
    if (!ops_starts(ops, 0, OPS_BYTES(x))) return 0;
    _Atomic int64_t found = 0;
    run_elements(ops, (RowsJob){.rows = 1, .columns = tensor_count(x), .a = x, .found = &found}, nonfinite_task);
    return atomic_load(&found);
}

float rows_largest(Ops *ops, const Tensor *x) {
    check_floats(x, "x");
    float largest = 0;
    for (int64_t i = 0; ops_runs(ops) && i < tensor_count(x); i++) {
        float size = fabsf(dtype_load(x->data, x->dtype, i));
        if (isfinite(size) && size > largest) largest = size;
    }
    return largest;
}

static void adamw_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    int64_t at = task * job->step;
    job->kernels->adamw_block((float *)job->out->data + at, (float *)job->a->data + at, (float *)job->b->data + at,
                              (const float *)job->c->data + at, int64_smaller(job->step, job->columns - at),
                              job->adamw);
}

// base^n by squaring: the same on every machine.
static double power(double base, int64_t n) {
    double result = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1) result *= base;
    return result;
}

void adamw_update(Ops *ops, Tensor *w, Tensor *m, Tensor *v, const Tensor *gradient, AdamwStep step) {
    int64_t count = tensor_count(w);
    const Tensor *all[] = {w, m, v, gradient};
    const char *const names[] = {"w", "m", "v", "gradient"};
    for (int i = 0; i < 4; i++) {
        check_count(all[i], names[i], count);
        check_f32(all[i], names[i]);
    }
    CHECK(step.step >= 1, "step %lld", (long long)step.step);
    if (!ops_starts(ops, 0, 2 * OPS_BYTES(w, m, v) + OPS_BYTES(gradient))) return;
    AdamwFactors factors = {
        .gradient_scale = (float)step.gradient_scale,
        .keep = (float)(1 - step.lr * step.weight_decay),
        .beta1 = (float)step.beta1,
        .rest1 = (float)(1 - step.beta1),
        .beta2 = (float)step.beta2,
        .rest2 = (float)(1 - step.beta2),
        .rate = (float)(step.lr / (1 - power(step.beta1, step.step))),
        .correction = (float)sqrt(1 - power(step.beta2, step.step)),
        .eps = (float)step.eps,
    };
    RowsJob job = {.rows = 1, .columns = count, .out = w, .a = m, .b = v, .c = gradient, .adamw = &factors};
    run_elements(ops, job, adamw_task);
    ops_wrote(ops, __func__, w);
    ops_wrote(ops, __func__, m);
    ops_wrote(ops, __func__, v);
}
