// Storage types of tensors. Arithmetic is fp32 everywhere; bf16 and fp16 are storage only (docs/numbers.md).
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum DType { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32, DTYPE_COUNT } DType;

size_t dtype_size(DType dtype);      // bytes of one element
const char *dtype_name(DType dtype); // "float32", "bfloat16", "float16", "int32"

static inline uint32_t dtype_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float dtype_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float dtype_from_bf16(uint16_t half) {
    return dtype_float((uint32_t)half << 16);
}

// Round to nearest, ties to even; NaN stays a (quiet) NaN.
static inline uint16_t dtype_to_bf16(float value) {
    uint32_t bits = dtype_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

// IEEE binary16, subnormals included; round to nearest even; beyond 65504 + half a step: infinity, as F16C does.
float dtype_from_f16(uint16_t half);
uint16_t dtype_to_f16(float value);

// Element i of an array of dtype (F32, BF16, F16), read as or rounded from float.
float dtype_load(const void *data, DType dtype, int64_t i);
void dtype_store(void *data, DType dtype, int64_t i, float value);
