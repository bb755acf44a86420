#include "device/dtype.h"

#include "base/error.h"

size_t dtype_size(DType dtype) {
    switch (dtype) {
    case DTYPE_F32:
    case DTYPE_I32: return 4;
    case DTYPE_BF16:
    case DTYPE_F16: return 2;
    case DTYPE_COUNT: break;
    }
    CHECK(false, "dtype %d", (int)dtype);
}

const char *dtype_name(DType dtype) {
    static const char *const names[DTYPE_COUNT] = {"float32", "bfloat16", "float16", "int32"};
    CHECK(dtype < DTYPE_COUNT, "dtype %d", (int)dtype);
    return names[dtype];
}

float dtype_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 31) return dtype_float(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0));
    if (exponent) return dtype_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float magnitude = (float)mantissa * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

uint16_t dtype_to_f16(float value) {
    uint32_t bits = dtype_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); // 65520 and more round to infinity
    if (magnitude < 0x38800000u) {                                   // below 2^-14: subnormal, steps of 2^-24
        float scaled = dtype_float(magnitude) * 0x1p24f;             // exact
        return (uint16_t)(sign | (uint32_t)lrintf(scaled));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

float dtype_load(const void *data, DType dtype, int64_t i) {
    switch (dtype) {
    case DTYPE_F32: return ((const float *)data)[i];
    case DTYPE_BF16: return dtype_from_bf16(((const uint16_t *)data)[i]);
    case DTYPE_F16: return dtype_from_f16(((const uint16_t *)data)[i]);
    default: CHECK(false, "dtype %s is not a float", dtype_name(dtype));
    }
}

void dtype_store(void *data, DType dtype, int64_t i, float value) {
    switch (dtype) {
    case DTYPE_F32: ((float *)data)[i] = value; return;
    case DTYPE_BF16: ((uint16_t *)data)[i] = dtype_to_bf16(value); return;
    case DTYPE_F16: ((uint16_t *)data)[i] = dtype_to_f16(value); return;
    default: CHECK(false, "dtype %s is not a float", dtype_name(dtype));
    }
}
