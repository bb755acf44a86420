// Stored forms of weights turned into fp32: plain ones and the block formats of GGUF. Exact: each value is one fp32 product
// (and, for Q4_1, one sum) of what is stored. Source of the blocks: ggml, ggml-common.h and ggml-quants.c.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum WeightFormat {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_Q8_0, // 32 values: fp16 scale d, 32 int8 q;                 d·q
    WEIGHT_Q4_0, // 32 values: fp16 scale d, 16 bytes of two nibbles q;  d·(q − 8); low nibbles are values 0..15
    WEIGHT_Q4_1, // 32 values: fp16 scale d, fp16 minimum m, 16 bytes;   d·q + m
    WEIGHT_FORMAT_COUNT
} WeightFormat;

const char *dequantize_name(WeightFormat format);   // "Q4_1"
int64_t dequantize_block(WeightFormat format);      // values of one block: 32, or 1 for plain formats
size_t dequantize_block_bytes(WeightFormat format); // its bytes

// out[count] from stored data, which need not be aligned; count is a multiple of the block. Returns whether all values are
// finite.
bool dequantize(float *out, const void *data, WeightFormat format, int64_t count);
