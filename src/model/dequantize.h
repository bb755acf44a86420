// Stored forms of weights turned into fp32: plain ones and the block formats of GGUF. The numbers are those of ggml, bit by
// bit: every product and sum below is one fp32 operation, in the order in which it is written. Source of the blocks: ggml,
// ggml-common.h and ggml-quants.c.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// d and m are fp16. Formats of 32 values: the first 16 are low nibbles, the others high nibbles of the same bytes; a fifth
// bit lies apart. K formats: 256 values in parts of 16 or 32, each with a scale s (and a minimum t) of a few bits of its own.
typedef enum WeightFormat {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_Q8_0, // 32 values: d, 32 int8 q;                                  d·q
    WEIGHT_Q4_0, // 32 values: d, 16 bytes;                                   d·(q − 8)
    WEIGHT_Q4_1, // 32 values: d, m, 16 bytes;                                d·q + m
    WEIGHT_Q5_0, // 32 values: d, 32 high bits, 16 bytes;                     d·(q − 16)
    WEIGHT_Q5_1, // 32 values: d, m, 32 high bits, 16 bytes;                  d·q + m
    WEIGHT_Q2_K, // 16 bytes of s and t (4 bits each), 64 of q (2 bits), d, m; parts of 16;   (d·s)·q − (m·t)
    WEIGHT_Q3_K, // 32 bytes of high bits, 64 of low 2 bits, 12 of s (6 bits), d; parts of 16; (d·(s − 32))·(q − 4)
    WEIGHT_Q4_K, // d, m, 12 bytes of s and t (6 bits), 128 of nibbles; parts of 32;          (d·s)·q − (m·t)
    WEIGHT_Q5_K, // d, m, 12 bytes of s and t, 32 of high bits, 128 of nibbles; parts of 32;  (d·s)·q − (m·t)
    WEIGHT_Q6_K, // 128 bytes of nibbles, 64 of high 2 bits, 16 int8 s, d; parts of 16;       (d·s)·(q − 32)
    WEIGHT_FORMAT_COUNT
} WeightFormat;

const char *dequantize_name(WeightFormat format); // "Q4_1"
enum { DEQUANTIZE_MOST = 256 };
int64_t dequantize_block(WeightFormat format);      // values of one block: 256, 32, or 1 for plain formats
size_t dequantize_block_bytes(WeightFormat format); // its bytes

// out[count] from stored data, which need not be aligned and must not overlap out; count is a multiple of the block. Returns
// whether all values are finite.
bool dequantize(float *out, const void *data, WeightFormat format, int64_t count);
