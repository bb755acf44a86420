// Each operation of the vector lanes (ops/simd_*.h), built for each instruction set, so that one test can compare them.
#pragma once
#include <stdint.h>

typedef enum SimdOp {
    SIMD_ADD,
    SIMD_SUB,
    SIMD_MUL,
    SIMD_DIV,
    SIMD_SQRT,
    SIMD_FMA,
    SIMD_FMA_ONE,
    SIMD_FNMA,
    SIMD_MAX,
    SIMD_MIN,
    SIMD_ROUND,
    SIMD_SCALE, // b: exponents
    SIMD_LESS,
    SIMD_EQUAL,
    SIMD_SELECT, // by a < b
    SIMD_FIRST,
    SIMD_SPLIT,
    SIMD_SUM,
    SIMD_LARGEST,
    SIMD_SET,
    SIMD_BF16,  // out and back
    SIMD_F16,   // out and back
    SIMD_WIDEN, // halves read as bf16 (x) and as fp16 (y)
    SIMD_PAIRS, // a and b as pairs of bf16, out and back
    SIMD_OPS
} SimdOp;

typedef struct SimdInput {
    float a[16], b[16], c[16];
    uint16_t halves[16];
    int n;
} SimdInput;

typedef struct SimdOutput {
    float x[16], y[16];
    uint16_t halves[16];
    uint32_t bits;
} SimdOutput;

typedef struct SimdProbe {
    const char *isa;
    void (*run)(SimdOp op, const SimdInput *in, SimdOutput *out); // out: zero before
    // The first n elements to `to`, through a register, by the partial load and store of 0: F32, 1: BF16, 2: F16.
    void (*copy)(int kind, void *to, const void *from, int n);
    void (*transpose)(float matrix[16][16]);
} SimdProbe;

extern const SimdProbe simd_probe_scalar, simd_probe_avx2, simd_probe_avx512;
