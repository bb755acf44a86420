// Sixteen logical fp32 lanes, plain C: the reference of the vector bodies, and the definition of each operation.
// simd_avx2.h (two ymm) and simd_avx512.h (one zmm) define the same names with the same results, bit by bit.
// A body (*.inc) includes none of them: kernels_<isa>.c includes the one it is built for, then the bodies.
#pragma once
#include "device/dtype.h"

#include <math.h>

typedef struct v16 {
    float lane[16];
} v16;

// A truth value per lane.
typedef struct m16 {
    uint16_t bits;
} m16;

// Before a loop over registers: the vector sets write it out, so that arrays of v16 need no memory.
#define SIMD_UNROLL(count)

#define V16_EACH(expression)                                                                                           \
    v16 r;                                                                                                             \
    for (int i = 0; i < 16; i++) r.lane[i] = (expression);                                                             \
    return r

static inline v16 v16_zero(void) {
    V16_EACH(0.0f);
}
static inline v16 v16_set(float x) {
    V16_EACH(x);
}
static inline v16 v16_load(const float *p) {
    V16_EACH(p[i]);
}
// The first n (0..16) lanes from memory, the rest +0; nothing behind them is read.
static inline v16 v16_load_n(const float *p, int n) {
    V16_EACH(i < n ? p[i] : 0.0f);
}
static inline void v16_store(float *p, v16 x) {
    for (int i = 0; i < 16; i++) p[i] = x.lane[i];
}
static inline void v16_store_n(float *p, v16 x, int n) {
    for (int i = 0; i < n; i++) p[i] = x.lane[i];
}
static inline v16 v16_load_bf16(const uint16_t *p) {
    V16_EACH(dtype_from_bf16(p[i]));
}
static inline v16 v16_load_bf16_n(const uint16_t *p, int n) {
    V16_EACH(i < n ? dtype_from_bf16(p[i]) : 0.0f);
}
static inline void v16_store_bf16(uint16_t *p, v16 x) {
    for (int i = 0; i < 16; i++) p[i] = dtype_to_bf16(x.lane[i]);
}
static inline void v16_store_bf16_n(uint16_t *p, v16 x, int n) {
    for (int i = 0; i < n; i++) p[i] = dtype_to_bf16(x.lane[i]);
}
// Sixteen pairs of bf16: lane i of low is p[2i], of high p[2i + 1].
static inline void v16_load_bf16_pairs(const uint16_t *p, v16 *low, v16 *high) {
    for (int i = 0; i < 16; i++) {
        low->lane[i] = dtype_from_bf16(p[2 * i]);
        high->lane[i] = dtype_from_bf16(p[2 * i + 1]);
    }
}
static inline void v16_store_bf16_pairs(uint16_t *p, v16 low, v16 high) { // cuts off what bf16 cannot hold
    for (int i = 0; i < 16; i++) {
        p[2 * i] = (uint16_t)(dtype_bits(low.lane[i]) >> 16);
        p[2 * i + 1] = (uint16_t)(dtype_bits(high.lane[i]) >> 16);
    }
}
static inline v16 v16_load_f16(const uint16_t *p) {
    V16_EACH(dtype_from_f16(p[i]));
}
static inline v16 v16_load_f16_n(const uint16_t *p, int n) {
    V16_EACH(i < n ? dtype_from_f16(p[i]) : 0.0f);
}
static inline void v16_store_f16(uint16_t *p, v16 x) {
    for (int i = 0; i < 16; i++) p[i] = dtype_to_f16(x.lane[i]);
}
static inline void v16_store_f16_n(uint16_t *p, v16 x, int n) {
    for (int i = 0; i < n; i++) p[i] = dtype_to_f16(x.lane[i]);
}
static inline v16 v16_add(v16 a, v16 b) {
    V16_EACH(a.lane[i] + b.lane[i]);
}
static inline v16 v16_sub(v16 a, v16 b) {
    V16_EACH(a.lane[i] - b.lane[i]);
}
static inline v16 v16_mul(v16 a, v16 b) {
    V16_EACH(a.lane[i] * b.lane[i]);
}
static inline v16 v16_div(v16 a, v16 b) {
    V16_EACH(a.lane[i] / b.lane[i]);
}
static inline v16 v16_sqrt(v16 a) {
    V16_EACH(sqrtf(a.lane[i]));
}
// a·b + c, rounded once.
static inline v16 v16_fma(v16 a, v16 b, v16 c) {
    V16_EACH(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]));
}
// The same with one number of a for all lanes.
static inline v16 v16_fma_one(const float *a, v16 b, v16 c) {
    V16_EACH(__builtin_fmaf(*a, b.lane[i], c.lane[i]));
}
// c − a·b, rounded once.
static inline v16 v16_fnma(v16 a, v16 b, v16 c) {
    V16_EACH(__builtin_fmaf(-a.lane[i], b.lane[i], c.lane[i]));
}
// a > b ? a : b, so b when either is NaN (as MAXPS).
static inline v16 v16_max(v16 a, v16 b) {
    V16_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
static inline v16 v16_min(v16 a, v16 b) {
    V16_EACH(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}
// To the nearest integer, ties to even.
static inline v16 v16_round(v16 a) {
    V16_EACH(nearbyintf(a.lane[i]));
}
// x · 2^n for integral n in −126..127 given as a float: multiplies by the float whose exponent is n.
static inline v16 v16_scale(v16 x, v16 n) {
    V16_EACH(x.lane[i] * dtype_float((uint32_t)((int32_t)n.lane[i] + 127) << 23));
}
static inline m16 v16_less(v16 a, v16 b) { // ordered: false for NaN
    m16 m = {0};
    for (int i = 0; i < 16; i++) m.bits |= (uint16_t)((a.lane[i] < b.lane[i]) << i);
    return m;
}
static inline m16 v16_equal(v16 a, v16 b) {
    m16 m = {0};
    for (int i = 0; i < 16; i++) m.bits |= (uint16_t)((a.lane[i] == b.lane[i]) << i);
    return m;
}
static inline m16 m16_first(int n) { // the first n lanes
    return (m16){(uint16_t)((1u << n) - 1)};
}
static inline uint32_t m16_bits(m16 m) {
    return m.bits;
}
static inline v16 v16_select(m16 m, v16 yes, v16 no) {
    V16_EACH(m.bits >> i & 1 ? yes.lane[i] : no.lane[i]);
}
// For exponent and mantissa work: x = f · 2^e with f in [sqrt(1/2), sqrt(2)) for positive normal x. Returns f, *e as float.
static inline v16 v16_split(v16 x, v16 *e) {
    v16 r;
    for (int i = 0; i < 16; i++) {
        uint32_t bits = dtype_bits(x.lane[i]) - 0x3f3504f3u;
        e->lane[i] = (float)((int32_t)bits >> 23);
        r.lane[i] = dtype_float((bits & 0x7fffffu) + 0x3f3504f3u);
    }
    return r;
}
// The one tree of every reduction: lanes i and i + 8, then + 4, + 2, + 1.
static inline float v16_sum(v16 x) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) x.lane[i] = x.lane[i] + x.lane[i + half];
    return x.lane[0];
}
static inline float v16_largest(v16 x) { // no NaN among the lanes
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) x.lane[i] = x.lane[i] > x.lane[i + half] ? x.lane[i] : x.lane[i + half];
    return x.lane[0];
}
// Sixteen rows become sixteen columns.
static inline void v16_transpose(v16 row[16]) {
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < i; j++) {
            float swapped = row[i].lane[j];
            row[i].lane[j] = row[j].lane[i];
            row[j].lane[i] = swapped;
        }
    }
}
static inline void v16_transpose_8(v16 row[16]) {
    v16_transpose(row);
}

// How many v16 fit into the registers as sums of a matrix product (gemm.inc): rows of a tile of 16 columns and of one
// of 32; the width of its packed panels; and for which rows of a tile of 32 (a bit each) a number of A is read for each
// multiply-add (v16_fma_one) instead of once for both, by streams of 16 bits and, where it suits the CPU, by panels of fp32
// (Ops.rereads): what is scarcer, instructions or reads.
enum { SIMD_NARROW_ROWS = 4, SIMD_WIDE_ROWS = 4, SIMD_PANEL = 16, SIMD_REREAD_ROWS = 0 };
