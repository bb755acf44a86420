#include "model/dequantize.h"

#include "base/error.h"
#include "device/dtype.h"

enum { BLOCK = 32, K_BLOCK = 256, PIECE = 8192 }; // PIECE: a multiple of both

static const struct {
    const char *name;
    int64_t block;
    size_t bytes;
} formats[WEIGHT_FORMAT_COUNT] = {
    [WEIGHT_F32] = {"F32", 1, 4},           [WEIGHT_F16] = {"F16", 1, 2},
    [WEIGHT_BF16] = {"BF16", 1, 2},         [WEIGHT_Q8_0] = {"Q8_0", BLOCK, 34},
    [WEIGHT_Q4_0] = {"Q4_0", BLOCK, 18},    [WEIGHT_Q4_1] = {"Q4_1", BLOCK, 20},
    [WEIGHT_Q5_0] = {"Q5_0", BLOCK, 22},    [WEIGHT_Q5_1] = {"Q5_1", BLOCK, 24},
    [WEIGHT_Q2_K] = {"Q2_K", K_BLOCK, 84},  [WEIGHT_Q3_K] = {"Q3_K", K_BLOCK, 110},
    [WEIGHT_Q4_K] = {"Q4_K", K_BLOCK, 144}, [WEIGHT_Q5_K] = {"Q5_K", K_BLOCK, 176},
    [WEIGHT_Q6_K] = {"Q6_K", K_BLOCK, 210},
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

static void from_f16(float *restrict out, const uint8_t *restrict data, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_to_float(load16(data + 2 * i));
}

static void from_bf16(float *restrict out, const uint8_t *restrict data, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = dtype_from_bf16(load16(data + 2 * i));
}

static void from_q8_0(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 34, out += BLOCK) {
        float scale = half_to_float(load16(data));
        const int8_t *q = (const int8_t *)(data + 2);
        for (int i = 0; i < BLOCK; i++) out[i] = scale * (float)q[i];
    }
}

static void from_q4_0(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 18, out += BLOCK) {
        float scale = half_to_float(load16(data));
        const uint8_t *q = data + 2;
        for (int i = 0; i < BLOCK / 2; i++) out[i] = scale * (float)((q[i] & 15) - 8);
        for (int i = 0; i < BLOCK / 2; i++) out[i + BLOCK / 2] = scale * (float)((q[i] >> 4) - 8);
    }
}

static void from_q4_1(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 20, out += BLOCK) {
        float scale = half_to_float(load16(data)), minimum = half_to_float(load16(data + 2));
        const uint8_t *q = data + 4;
        for (int i = 0; i < BLOCK / 2; i++) out[i] = scale * (float)(q[i] & 15) + minimum;
        for (int i = 0; i < BLOCK / 2; i++) out[i + BLOCK / 2] = scale * (float)(q[i] >> 4) + minimum;
    }
}

// The fifth bits of 32 values as their sixteens: bit i of `bits`, as 0 or 16.
static inline int fifth_bit(uint32_t bits, int i) {
    return bits & 1u << i ? 16 : 0; // no shift of the bits: vectors compare faster
}

static inline uint32_t load32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void from_q5_0(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 22, out += BLOCK) {
        float scale = half_to_float(load16(data));
        uint32_t high = load32(data + 2);
        const uint8_t *q = data + 6;
        for (int i = 0; i < 16; i++) out[i] = scale * (float)(((q[i] & 15) | fifth_bit(high, i)) - 16);
        for (int i = 0; i < 16; i++) out[i + 16] = scale * (float)(((q[i] >> 4) | fifth_bit(high, i + 16)) - 16);
    }
}

static void from_q5_1(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 24, out += BLOCK) {
        float scale = half_to_float(load16(data)), minimum = half_to_float(load16(data + 2));
        uint32_t high = load32(data + 4);
        const uint8_t *q = data + 8;
        for (int i = 0; i < 16; i++) out[i] = scale * (float)((q[i] & 15) | fifth_bit(high, i)) + minimum;
        for (int i = 0; i < 16; i++) out[i + 16] = scale * (float)((q[i] >> 4) | fifth_bit(high, i + 16)) + minimum;
    }
}

// Part p of a block's 2-bit numbers (16 values): a half of 64 bytes has 32 bytes, whose lowest bits are the first 32 values.
static inline const uint8_t *two_bits(const uint8_t *q, int part, int *shift) {
    *shift = part % 8 / 2 * 2;
    return q + part / 8 * 32 + part % 2 * 16;
}

static void from_q2_k(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 84) {
        float scale = half_to_float(load16(data + 80)), minimum = half_to_float(load16(data + 82));
        for (int part = 0, shift; part < 16; part++, out += 16) {
            float part_scale = scale * (float)(data[part] & 15), part_minimum = minimum * (float)(data[part] >> 4);
            const uint8_t *q = two_bits(data + 16, part, &shift);
            for (int i = 0; i < 16; i++) out[i] = part_scale * (float)(q[i] >> shift & 3) - part_minimum;
        }
    }
}

static void from_q3_k(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 110) {
        float scale = half_to_float(load16(data + 108));
        const uint8_t *scales =
            data + 96; // 8 bytes of low nibbles, first all the lower ones, then 4 bytes of high bits
        for (int part = 0, shift; part < 16; part++, out += 16) {
            int low = scales[part % 8] >> part / 8 * 4 & 15, high = scales[8 + part % 4] >> part / 4 * 2 & 3;
            float part_scale = scale * (float)((low | high << 4) - 32);
            const uint8_t *q = two_bits(data + 32, part, &shift), *third = data + part % 2 * 16;
            for (int i = 0; i < 16; i++)
                out[i] = part_scale * (float)((q[i] >> shift & 3) + (third[i] >> part / 2 & 1) * 4 - 4);
        }
    }
}

// Scale and minimum of part p of 8: six bits each. The first four parts' lie in bytes p and p + 4; the top bits there belong to
// the last four, whose low nibbles share a byte.
static inline void six_bits(const uint8_t *scales, int part, float *scale, float *minimum) {
    int s = scales[part] & 63, t = scales[part + 4] & 63;
    if (part >= 4) {
        s = (scales[part + 4] & 15) | (scales[part - 4] >> 6) << 4;
        t = scales[part + 4] >> 4 | (scales[part] >> 6) << 4;
    }
    *scale *= (float)s;
    *minimum *= (float)t;
}

static void from_q4_k(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 144)
        for (int part = 0; part < 8; part++, out += 32) {
            float scale = half_to_float(load16(data)), minimum = half_to_float(load16(data + 2));
            six_bits(data + 4, part, &scale, &minimum);
            const uint8_t *q = data + 16 + part / 2 * 32;
            int shift = part % 2 * 4;
            for (int i = 0; i < 32; i++) out[i] = scale * (float)(q[i] >> shift & 15) - minimum;
        }
}

static void from_q5_k(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 176)
        for (int part = 0; part < 8; part++, out += 32) {
            float scale = half_to_float(load16(data)), minimum = half_to_float(load16(data + 2));
            six_bits(data + 4, part, &scale, &minimum);
            const uint8_t *high = data + 16, *q = data + 48 + part / 2 * 32;
            int shift = part % 2 * 4;
            for (int i = 0; i < 32; i++)
                out[i] = scale * (float)((q[i] >> shift & 15) | (high[i] >> part & 1) << 4) - minimum;
        }
}

static void from_q6_k(float *restrict out, const uint8_t *restrict data, int64_t blocks) {
    for (; blocks; blocks--, data += 210) {
        float scale = half_to_float(load16(data + 208));
        for (int part = 0, shift; part < 16; part++, out += 16) {
            float part_scale = scale * (float)(int8_t)data[192 + part];
            const uint8_t *q = data + part / 8 * 64 + part % 4 * 16; // 64 bytes hold 64 low nibbles, then 64 high ones
            const uint8_t *high = two_bits(data + 128, part, &shift);
            int nibble = part % 8 / 4 * 4;
            for (int i = 0; i < 16; i++)
                out[i] = part_scale * (float)(((q[i] >> nibble & 15) | (high[i] >> shift & 3) << 4) - 32);
        }
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
    case WEIGHT_Q5_0: from_q5_0(out, data, count / BLOCK); return;
    case WEIGHT_Q5_1: from_q5_1(out, data, count / BLOCK); return;
    case WEIGHT_Q2_K: from_q2_k(out, data, count / K_BLOCK); return;
    case WEIGHT_Q3_K: from_q3_k(out, data, count / K_BLOCK); return;
    case WEIGHT_Q4_K: from_q4_k(out, data, count / K_BLOCK); return;
    case WEIGHT_Q5_K: from_q5_k(out, data, count / K_BLOCK); return;
    case WEIGHT_Q6_K: from_q6_k(out, data, count / K_BLOCK); return;
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
