// Sixteen logical fp32 lanes in one zmm register: the names and results of simd_scalar.h.
// Needs AVX-512 F, BW, DQ and VL.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#define SIMD_PRAGMA(text) _Pragma(#text)
#define SIMD_UNROLL(count) SIMD_PRAGMA(GCC unroll count)

typedef __m512 v16;
typedef __mmask16 m16;

static inline m16 m16_first(int n) {
    return (m16)((1u << n) - 1);
}
static inline uint32_t m16_bits(m16 m) {
    return m;
}

static inline v16 v16_zero(void) {
    return _mm512_setzero_ps();
}
static inline v16 v16_set(float x) {
    return _mm512_set1_ps(x);
}
static inline v16 v16_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline v16 v16_load_n(const float *p, int n) {
    return _mm512_maskz_loadu_ps(m16_first(n), p);
}
static inline void v16_store(float *p, v16 x) {
    _mm512_storeu_ps(p, x);
}
static inline void v16_store_n(float *p, v16 x, int n) {
    _mm512_mask_storeu_ps(p, m16_first(n), x);
}

// A bf16 is the upper half of a float.
static inline v16 v16_from_bf16(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
// Not VCVTNEPS2BF16, which takes subnormals for zero.
static inline __m256i v16_to_bf16(v16 x) {
    __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    rounded = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}
static inline v16 v16_load_bf16(const uint16_t *p) {
    return v16_from_bf16(_mm256_loadu_si256((const __m256i *)p));
}
static inline v16 v16_load_bf16_n(const uint16_t *p, int n) {
    return v16_from_bf16(_mm256_maskz_loadu_epi16(m16_first(n), p));
}
static inline void v16_store_bf16(uint16_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, v16_to_bf16(x));
}
static inline void v16_store_bf16_n(uint16_t *p, v16 x, int n) {
    _mm256_mask_storeu_epi16(p, m16_first(n), v16_to_bf16(x));
}

static inline void v16_load_bf16_pairs(const uint16_t *p, v16 *low, v16 *high) {
    __m512i pairs = _mm512_loadu_si512(p);
    *low = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    *high = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}
static inline void v16_store_bf16_pairs(uint16_t *p, v16 low, v16 high) {
    __m512i upper = _mm512_and_si512(_mm512_castps_si512(high), _mm512_set1_epi32((int)0xffff0000));
    _mm512_storeu_si512(p, _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(low), 16), upper));
}

static inline __m256i v16_to_f16(v16 x) {
    return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline v16 v16_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline v16 v16_load_f16_n(const uint16_t *p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m16_first(n), p));
}
static inline void v16_store_f16(uint16_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, v16_to_f16(x));
}
static inline void v16_store_f16_n(uint16_t *p, v16 x, int n) {
    _mm256_mask_storeu_epi16(p, m16_first(n), v16_to_f16(x));
}

static inline v16 v16_add(v16 a, v16 b) {
    return _mm512_add_ps(a, b);
}
static inline v16 v16_sub(v16 a, v16 b) {
    return _mm512_sub_ps(a, b);
}
static inline v16 v16_mul(v16 a, v16 b) {
    return _mm512_mul_ps(a, b);
}
static inline v16 v16_div(v16 a, v16 b) {
    return _mm512_div_ps(a, b);
}
static inline v16 v16_sqrt(v16 a) {
    return _mm512_sqrt_ps(a);
}
static inline v16 v16_fma(v16 a, v16 b, v16 c) {
    return _mm512_fmadd_ps(a, b, c);
}
// An instruction less than v16_set and v16_fma, but a read of its own.
static inline v16 v16_fma_one(const float *a, v16 b, v16 c) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*a));
    return c;
}
static inline v16 v16_fnma(v16 a, v16 b, v16 c) {
    return _mm512_fnmadd_ps(a, b, c);
}
static inline v16 v16_max(v16 a, v16 b) {
    return _mm512_max_ps(a, b);
}
static inline v16 v16_min(v16 a, v16 b) {
    return _mm512_min_ps(a, b);
}
static inline v16 v16_round(v16 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline v16 v16_scale(v16 x, v16 n) {
    __m512i exponent = _mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_mul_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)));
}
static inline m16 v16_less(v16 a, v16 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline m16 v16_equal(v16 a, v16 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
static inline v16 v16_select(m16 m, v16 yes, v16 no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
static inline v16 v16_split(v16 x, v16 *e) {
    __m512i half = _mm512_set1_epi32(0x3f3504f3), bits = _mm512_sub_epi32(_mm512_castps_si512(x), half);
    *e = _mm512_cvtepi32_ps(_mm512_srai_epi32(bits, 23));
    bits = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffff));
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, half));
}
static inline float v16_sum(v16 x) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float v16_largest(v16 x) {
    __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
static inline void v16_transpose(v16 row[16]) {
    v16 pair[16], four[16], eight[16];
    SIMD_UNROLL(8)
    for (int i = 0; i < 16; i += 2) { // of each group of 4 lanes: 2×2 blocks
        pair[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
    }
    SIMD_UNROLL(4)
    for (int i = 0; i < 16; i += 4) { // four[i + c]: column c of each group, rows i..i+3
        __m512d a = _mm512_castps_pd(pair[i]), b = _mm512_castps_pd(pair[i + 1]);
        __m512d c = _mm512_castps_pd(pair[i + 2]), d = _mm512_castps_pd(pair[i + 3]);
        four[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        four[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        four[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        four[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    SIMD_UNROLL(4)
    for (int i = 0; i < 4; i++) { // groups 0 and 2, then 1 and 3, of rows 0..7 and of rows 8..15
        eight[i] = _mm512_shuffle_f32x4(four[i], four[i + 4], 0x88);
        eight[i + 4] = _mm512_shuffle_f32x4(four[i], four[i + 4], 0xdd);
        eight[i + 8] = _mm512_shuffle_f32x4(four[i + 8], four[i + 12], 0x88);
        eight[i + 12] = _mm512_shuffle_f32x4(four[i + 8], four[i + 12], 0xdd);
    }
    SIMD_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        row[i] = _mm512_shuffle_f32x4(eight[i], eight[i + 8], 0x88);
        row[i + 8] = _mm512_shuffle_f32x4(eight[i], eight[i + 8], 0xdd);
        row[i + 4] = _mm512_shuffle_f32x4(eight[i + 4], eight[i + 12], 0x88);
        row[i + 12] = _mm512_shuffle_f32x4(eight[i + 4], eight[i + 12], 0xdd);
    }
}
static inline void v16_transpose_8(v16 row[16]) {
    v16_transpose(row);
}

enum { SIMD_NARROW_ROWS = 14, SIMD_WIDE_ROWS = 14, SIMD_PANEL = 32, SIMD_REREAD_ROWS = 0x3dfb };
