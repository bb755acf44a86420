#include "model/dequantize.h"

#include "base/error.h"
#include "device/dtype.h"

enum { BLOCK = 32, PIECE = 8192 }; // PIECE: a multiple of BLOCK

static const struct {
    const char *name;
    int64_t block;
    size_t bytes;
} formats[WEIGHT_FORMAT_COUNT] = {
    [WEIGHT_F32] = {"F32", 1, 4},        [WEIGHT_F16] = {"F16", 1, 2},        [WEIGHT_BF16] = {"BF16", 1, 2},
    [WEIGHT_Q8_0] = {"Q8_0", BLOCK, 34}, [WEIGHT_Q4_0] = {"Q4_0", BLOCK, 18}, [WEIGHT_Q4_1] = {"Q4_1", BLOCK, 20},
};

const char *dequantize_name(WeightFormat format) {
    CHECK(format < WEIGHT_FORMAT_COUNT, "format %d", (int)format);
    return formats[format].name;
}

int64_t dequantize_block(WeightFormat format) {
    CHECK(format < WEIGHT_FORMAT_COUNT, "format %d", (int)format);
    return formats[format].block;
}

size_t dequantize_block_bytes(WeightFormat format) {
    CHECK(format < WEIGHT_FORMAT_COUNT, "format %d", (int)format);
    return formats[format].bytes;
}

static inline uint16_t load16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// The same as dtype_from_f16 for every pattern, without a branch, so that a loop of it becomes vector code: a half's
// exponent and mantissa, read as a float's, are 2^112 times too small, subnormals included.
static inline float half_to_float(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13, sign = (uint32_t)(half & 0x8000u) << 16;
    float finite = dtype_float(magnitude) * 0x1p112f;
    uint32_t special = magnitude | 0x7f800000u | (magnitude > 0x0f800000u ? 0x400000u : 0); // infinity, quiet NaN
    uint32_t bits = magnitude >= 0x0f800000u ? special : dtype_bits(finite);
    return dtype_float(bits | sign);
}

static void from_f16(float *out, const uint8_t *data, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_to_float(load16(data + 2 * i));
}

static void from_bf16(float *out, const uint8_t *data, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = dtype_from_bf16(load16(data + 2 * i));
}

static void from_q8_0(float *out, const uint8_t *data, int64_t blocks) {
    for (; blocks; blocks--, data += 34, out += BLOCK) {
        float scale = half_to_float(load16(data));
        const int8_t *q = (const int8_t *)(data + 2);
        for (int i = 0; i < BLOCK; i++) out[i] = scale * (float)q[i];
    }
}

static void from_q4_0(float *out, const uint8_t *data, int64_t blocks) {
    for (; blocks; blocks--, data += 18, out += BLOCK) {
        float scale = half_to_float(load16(data));
        const uint8_t *q = data + 2;
        for (int i = 0; i < BLOCK / 2; i++) out[i] = scale * (float)((q[i] & 15) - 8);
        for (int i = 0; i < BLOCK / 2; i++) out[i + BLOCK / 2] = scale * (float)((q[i] >> 4) - 8);
    }
}

static void from_q4_1(float *out, const uint8_t *data, int64_t blocks) {
    for (; blocks; blocks--, data += 20, out += BLOCK) {
        float scale = half_to_float(load16(data)), minimum = half_to_float(load16(data + 2));
        const uint8_t *q = data + 4;
        for (int i = 0; i < BLOCK / 2; i++) out[i] = scale * (float)(q[i] & 15) + minimum;
        for (int i = 0; i < BLOCK / 2; i++) out[i + BLOCK / 2] = scale * (float)(q[i] >> 4) + minimum;
    }
}

static bool all_finite(const float *values, int64_t count) {
    uint32_t odd = 0;
    for (int64_t i = 0; i < count; i++) odd |= (dtype_bits(values[i]) & 0x7f800000u) == 0x7f800000u;
    return !odd;
}

static void convert(float *out, const uint8_t *data, WeightFormat format, int64_t count) {
    switch (format) {
    case WEIGHT_F32: memcpy(out, data, sizeof *out * (size_t)count); return;
    case WEIGHT_F16: from_f16(out, data, count); return;
    case WEIGHT_BF16: from_bf16(out, data, count); return;
    case WEIGHT_Q8_0: from_q8_0(out, data, count / BLOCK); return;
    case WEIGHT_Q4_0: from_q4_0(out, data, count / BLOCK); return;
    case WEIGHT_Q4_1: from_q4_1(out, data, count / BLOCK); return;
    case WEIGHT_FORMAT_COUNT: break;
    }
    CHECK(false, "format %d", (int)format);
}

bool dequantize(float *out, const void *data, WeightFormat format, int64_t count) {
    int64_t block = dequantize_block(format);
    size_t bytes = dequantize_block_bytes(format);
    CHECK(count >= 0 && count % block == 0, "%lld values of %s", (long long)count, dequantize_name(format));
    bool finite = true;
    for (int64_t at = 0; at < count; at += PIECE) { // so small that the check reads from the cache
        int64_t now = count - at < PIECE ? count - at : PIECE;
        convert(out + at, (const uint8_t *)data + (size_t)(at / block) * bytes, format, now);
        finite &= all_finite(out + at, now);
    }
    return finite;
}
