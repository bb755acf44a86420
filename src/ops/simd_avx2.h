// Sixteen logical fp32 lanes in two ymm registers: the names and results of simd_scalar.h. Needs AVX2, FMA and F16C.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#define SIMD_PRAGMA(text) _Pragma(#text)
#define SIMD_UNROLL(count) SIMD_PRAGMA(GCC unroll count)

typedef struct v16 {
    __m256 low, high;
} v16;

typedef struct m16 {
    __m256 low, high; // all bits of a lane, or none
} m16;

// Lanes whose number, counted from `from`, is below n: all ones.
static inline __m256i v16_below(int n, int from) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - from), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline m16 m16_first(int n) {
    return (m16){_mm256_castsi256_ps(v16_below(n, 0)), _mm256_castsi256_ps(v16_below(n, 8))};
}
static inline uint32_t m16_bits(m16 m) {
    return (uint32_t)_mm256_movemask_ps(m.low) | (uint32_t)_mm256_movemask_ps(m.high) << 8;
}

static inline v16 v16_zero(void) {
    return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline v16 v16_set(float x) {
    return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline v16 v16_load(const float *p) {
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline v16 v16_load_n(const float *p, int n) {
    return (v16){_mm256_maskload_ps(p, v16_below(n, 0)), _mm256_maskload_ps(p + 8, v16_below(n, 8))};
}
static inline void v16_store(float *p, v16 x) {
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
}
static inline void v16_store_n(float *p, v16 x, int n) {
    _mm256_maskstore_ps(p, v16_below(n, 0), x.low);
    _mm256_maskstore_ps(p + 8, v16_below(n, 8), x.high);
}

// The first n of sixteen 16-bit numbers, the rest 0: AVX2 masks only pairs of them, so an odd one is fetched alone.
static inline __m256i v16_load_halves_n(const uint16_t *p, int n) {
    __m256i pairs = _mm256_maskload_epi32((const int *)(const void *)p, v16_below(n / 2, 0));
    if (n % 2 == 0) return pairs;
    __m256i last = _mm256_andnot_si256(v16_below(n / 2, 0), v16_below(n / 2 + 1, 0));
    return _mm256_or_si256(pairs, _mm256_and_si256(last, _mm256_set1_epi32(p[n - 1])));
}
static inline void v16_store_halves_n(uint16_t *p, __m256i halves, int n) {
    _mm256_maskstore_epi32((int *)(void *)p, v16_below(n / 2, 0), halves);
    if (n % 2 == 0) return;
    __m256i last = _mm256_permutevar8x32_epi32(halves, _mm256_set1_epi32(n / 2));
    p[n - 1] = (uint16_t)_mm256_extract_epi16(last, 0);
}

// A bf16 is the upper half of a float.
static inline v16 v16_from_bf16(__m256i halves) {
    __m256i low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(halves));
    __m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(halves, 1));
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}
static inline __m256i v16_half_to_bf16(__m256 x) { // in 32 bits each
    __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
static inline __m256i v16_to_bf16(v16 x) {
    __m256i packed = _mm256_packus_epi32(v16_half_to_bf16(x.low), v16_half_to_bf16(x.high));
    return _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
}
static inline v16 v16_load_bf16(const uint16_t *p) {
    return v16_from_bf16(_mm256_loadu_si256((const __m256i *)p));
}
static inline v16 v16_load_bf16_n(const uint16_t *p, int n) {
    return v16_from_bf16(v16_load_halves_n(p, n));
}
static inline void v16_store_bf16(uint16_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, v16_to_bf16(x));
}
static inline void v16_store_bf16_n(uint16_t *p, v16 x, int n) {
    v16_store_halves_n(p, v16_to_bf16(x), n);
}

static inline void v16_load_bf16_pairs(const uint16_t *p, v16 *low, v16 *high) {
    __m256i first = _mm256_loadu_si256((const __m256i *)p), second = _mm256_loadu_si256((const __m256i *)(p + 16));
    __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    *low = (v16){_mm256_castsi256_ps(_mm256_slli_epi32(first, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(second, 16))};
    *high = (v16){_mm256_castsi256_ps(_mm256_and_si256(first, upper)),
                  _mm256_castsi256_ps(_mm256_and_si256(second, upper))};
}
static inline __m256i v16_half_pairs(__m256 low, __m256 high) {
    __m256i upper = _mm256_and_si256(_mm256_castps_si256(high), _mm256_set1_epi32((int)0xffff0000));
    return _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(low), 16), upper);
}
static inline void v16_store_bf16_pairs(uint16_t *p, v16 low, v16 high) {
    _mm256_storeu_si256((__m256i *)p, v16_half_pairs(low.low, high.low));
    _mm256_storeu_si256((__m256i *)(p + 16), v16_half_pairs(low.high, high.high));
}

static inline v16 v16_from_f16(__m256i halves) {
    return (v16){_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
static inline __m256i v16_to_f16(v16 x) {
    return _mm256_set_m128i(_mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
}
static inline v16 v16_load_f16(const uint16_t *p) {
    return v16_from_f16(_mm256_loadu_si256((const __m256i *)p));
}
static inline v16 v16_load_f16_n(const uint16_t *p, int n) {
    return v16_from_f16(v16_load_halves_n(p, n));
}
static inline void v16_store_f16(uint16_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, v16_to_f16(x));
}
static inline void v16_store_f16_n(uint16_t *p, v16 x, int n) {
    v16_store_halves_n(p, v16_to_f16(x), n);
}

static inline v16 v16_add(v16 a, v16 b) {
    return (v16){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
static inline v16 v16_sub(v16 a, v16 b) {
    return (v16){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
static inline v16 v16_mul(v16 a, v16 b) {
    return (v16){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
static inline v16 v16_div(v16 a, v16 b) {
    return (v16){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
static inline v16 v16_sqrt(v16 a) {
    return (v16){_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}
static inline v16 v16_fma(v16 a, v16 b, v16 c) {
    return (v16){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
static inline v16 v16_fma_one(const float *a, v16 b, v16 c) {
    return v16_fma((v16){_mm256_broadcast_ss(a), _mm256_broadcast_ss(a)}, b, c);
}
static inline v16 v16_fnma(v16 a, v16 b, v16 c) {
    return (v16){_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
static inline v16 v16_max(v16 a, v16 b) {
    return (v16){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
static inline v16 v16_min(v16 a, v16 b) {
    return (v16){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
static inline v16 v16_round(v16 a) {
    return (v16){_mm256_round_ps(a.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 _mm256_round_ps(a.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline __m256 v16_power(__m256 n) { // 2^n
    __m256i exponent = _mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
static inline v16 v16_scale(v16 x, v16 n) {
    return (v16){_mm256_mul_ps(x.low, v16_power(n.low)), _mm256_mul_ps(x.high, v16_power(n.high))};
}
static inline m16 v16_less(v16 a, v16 b) {
    return (m16){_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
}
static inline m16 v16_equal(v16 a, v16 b) {
    return (m16){_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)};
}
static inline v16 v16_select(m16 m, v16 yes, v16 no) {
    return (v16){_mm256_blendv_ps(no.low, yes.low, m.low), _mm256_blendv_ps(no.high, yes.high, m.high)};
}
static inline __m256 v16_half_split(__m256 x, __m256 *e) {
    __m256i half = _mm256_set1_epi32(0x3f3504f3), bits = _mm256_sub_epi32(_mm256_castps_si256(x), half);
    *e = _mm256_cvtepi32_ps(_mm256_srai_epi32(bits, 23));
    bits = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff));
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, half));
}
static inline v16 v16_split(v16 x, v16 *e) {
    v16 fraction, exponent;
    fraction.low = v16_half_split(x.low, &exponent.low);
    fraction.high = v16_half_split(x.high, &exponent.high);
    *e = exponent;
    return fraction;
}
static inline float v16_sum(v16 x) {
    __m256 eight = _mm256_add_ps(x.low, x.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float v16_largest(v16 x) {
    __m256 eight = _mm256_max_ps(x.low, x.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
static inline void v16_half_transpose(const __m256 row[8], __m256 column[8]) {
    __m256 pair[8], four[8];
    SIMD_UNROLL(4)
    for (int i = 0; i < 8; i += 2) { // of each group of 4 lanes: 2×2 blocks
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    SIMD_UNROLL(2)
    for (int i = 0; i < 8; i += 4) { // four[i + c]: column c of each group, rows i..i+3
        four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], _MM_SHUFFLE(1, 0, 1, 0));
        four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], _MM_SHUFFLE(3, 2, 3, 2));
        four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], _MM_SHUFFLE(1, 0, 1, 0));
        four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], _MM_SHUFFLE(3, 2, 3, 2));
    }
    SIMD_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        column[i] = _mm256_permute2f128_ps(four[i], four[i + 4], 0x20);
        column[i + 4] = _mm256_permute2f128_ps(four[i], four[i + 4], 0x31);
    }
}
static inline __attribute__((always_inline)) void v16_transpose_quarters(v16 row[16], int quarters) {
    __m256 block[4][8], column[8];
    SIMD_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        block[0][i] = row[i].low;
        block[1][i] = row[i].high;
        if (quarters < 4) continue;
        block[2][i] = row[i + 8].low;
        block[3][i] = row[i + 8].high;
    }
    SIMD_UNROLL(4)
    for (int quarter = 0; quarter < quarters; quarter++) {
        v16_half_transpose(block[quarter], column);
        SIMD_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            v16 *to = &row[quarter % 2 * 8 + i];
            if (quarter < 2)
                *to = (v16){column[i], _mm256_setzero_ps()};
            else
                to->high = column[i];
        }
    }
}

static inline void v16_transpose(v16 row[16]) {
    v16_transpose_quarters(row, 4);
}

// The same where rows 8 to 15 are 0.
static inline void v16_transpose_8(v16 row[16]) {
    v16_transpose_quarters(row, 2);
}

enum { SIMD_NARROW_ROWS = 6, SIMD_WIDE_ROWS = 3, SIMD_PANEL = 16, SIMD_REREAD_ROWS = 0 };
