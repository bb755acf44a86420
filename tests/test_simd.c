// The vector lanes of every instruction set against the plain ones, bit by bit (a NaN that is computed may be any NaN).
#include "ops/ops.h"
#include "support/simd_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const SimdProbe *const probes[] = {&simd_probe_scalar, &simd_probe_avx2, &simd_probe_avx512};
enum { PROBES = 3 };

static bool present(const SimdProbe *probe) {
    Ops ops;
    Error error;
    bool opened = ops_open(&ops, (OpsOptions){.threads = 1, .isa = probe->isa}, &error);
    if (opened) ops_close(&ops);
    return opened;
}

// Where things go wrong: zeros, subnormals, ties, the ends of the ranges of fp16 and bf16, infinities, quiet and other NaN.
static const uint32_t corners[] = {
    0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x33000000, 0x33000001, 0x33800000, 0x387fc000,
    0x38800000, 0x387fe000, 0x3f000000, 0xbf000000, 0x3fc00000, 0x40200000, 0x3f800000, 0x3f808000, 0x3f818000,
    0x3f801000, 0x3f803000, 0x3f7fffff, 0x3f3504f3, 0x3f3504f2, 0x3fb504f3, 0x4b000000, 0x4affffff, 0xcb800001,
    0x477fe000, 0x477fefff, 0x477ff000, 0xc77ff001, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0xff7fffff, 0x7f800000,
    0xff800000, 0x7fc00000, 0xffc01234, 0x7f800001, 0xff812345, 0x7f80ffff, 0x7fffffff, 0x12345678, 0xc2f6e979};
enum { CORNERS = sizeof corners / sizeof *corners };

static uint32_t random_bits(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static void draw(SimdInput *in, uint64_t *state, SimdOp op) {
    for (int i = 0; i < 16; i++) {
        float *numbers[] = {&in->a[i], &in->b[i], &in->c[i]};
        for (int j = 0; j < 3; j++) {
            uint32_t bits = random_bits(state);
            if (bits % 3 == 0)
                bits = corners[bits / 3 % CORNERS];
            else if (bits % 3 == 1)
                bits = (bits & 0x807fffff) | ((bits >> 8 & 31) + 112) << 23; // of medium size
            *numbers[j] = dtype_float(bits);
        }
        if (random_bits(state) % 8 == 0) in->b[i] = in->a[i];
        in->halves[i] = (uint16_t)random_bits(state);
        if (op == SIMD_SCALE) in->b[i] = (float)(random_bits(state) % 254) - 126;
        if (op == SIMD_SPLIT) in->a[i] = dtype_float(random_bits(state) % 0x7f000000 + 0x00800000);
        if (op == SIMD_LARGEST && isnan(in->a[i])) in->a[i] = -1;
    }
    in->n = (int)(random_bits(state) % 17);
}

static bool same(float a, float b, bool exact) {
    return dtype_bits(a) == dtype_bits(b) || (!exact && isnan(a) && isnan(b));
}

static void compare(const SimdProbe *probe, SimdOp op, const SimdInput *in) {
    SimdOutput expected = {.bits = 0}, got = {.bits = 0};
    bool moves = op == SIMD_SELECT || op == SIMD_FIRST || op >= SIMD_SET; // moves or converts bits: NaN too
    simd_probe_scalar.run(op, in, &expected);
    probe->run(op, in, &got);
    for (int i = 0; i < 16; i++) {
        if (!same(got.x[i], expected.x[i], moves) || !same(got.y[i], expected.y[i], moves) ||
            got.halves[i] != expected.halves[i])
            fail_msg("%s, operation %d, lane %d of (%08x, %08x, %08x, %04x): %08x %08x %04x, expected %08x %08x %04x",
                     probe->isa, op, i, dtype_bits(in->a[i]), dtype_bits(in->b[i]), dtype_bits(in->c[i]), in->halves[i],
                     dtype_bits(got.x[i]), dtype_bits(got.y[i]), got.halves[i], dtype_bits(expected.x[i]),
                     dtype_bits(expected.y[i]), expected.halves[i]);
    }
    assert_int_equal(got.bits, expected.bits);
}

static void test_operations(void **state) {
    (void)state;
    for (int p = 1; p < PROBES; p++) {
        if (!present(probes[p])) continue;
        uint64_t seed = 1;
        for (int op = 0; op < SIMD_OPS; op++) {
            for (int i = 0; i < 20000; i++) {
                SimdInput in;
                draw(&in, &seed, (SimdOp)op);
                compare(probes[p], (SimdOp)op, &in);
            }
        }
    }
}

// All 16-bit numbers read, and floats from all over written: with each pattern of the bits that are rounded away.
static void test_conversions(void **state) {
    (void)state;
    for (int p = 0; p < PROBES; p++) {
        if (!present(probes[p])) continue;
        SimdInput in = {.n = 0};
        for (uint32_t half = 0; half < 65536; half += 16) {
            for (uint32_t i = 0; i < 16; i++) in.halves[i] = (uint16_t)(half + i);
            compare(probes[p], SIMD_WIDEN, &in);
        }
        for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 16 * 521) {
            for (uint32_t i = 0; i < 16; i++) in.a[i] = dtype_float((uint32_t)bits + 521 * i);
            compare(probes[p], SIMD_BF16, &in);
            compare(probes[p], SIMD_F16, &in);
        }
        for (int i = 0; i < CORNERS; i++) {
            in.a[i % 16] = dtype_float(corners[i]);
            compare(probes[p], SIMD_BF16, &in);
            compare(probes[p], SIMD_F16, &in);
        }
        // and the plain ones are what device/dtype.h says
        SimdOutput out = {.bits = 0};
        probes[p]->run(SIMD_BF16, &in, &out);
        for (int i = 0; i < 16; i++) assert_int_equal(out.halves[i], dtype_to_bf16(in.a[i]));
        probes[p]->run(SIMD_F16, &in, &out);
        for (int i = 0; i < 16; i++) assert_int_equal(out.halves[i], dtype_to_f16(in.a[i]));
    }
}

// Partial loads and stores touch nothing behind their elements: behind them lies a page that nobody may touch.
static void test_partial(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *from = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *to = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(from != MAP_FAILED && to != MAP_FAILED);
    assert_int_equal(mprotect(from + page, page, PROT_NONE) | mprotect(to + page, page, PROT_NONE), 0);
    for (size_t i = 0; i < page; i++) from[i] = (char)(i * 7 % 51 + 1);
    for (int p = 0; p < PROBES; p++) {
        if (!present(probes[p])) continue;
        for (int kind = 0; kind < 3; kind++) {
            for (int n = 0; n <= 16; n++) {
                size_t bytes = (size_t)n * (kind ? 2 : 4);
                memset(to, 0, page);
                probes[p]->copy(kind, to + page - bytes, from + page - bytes, n);
                assert_memory_equal(to + page - bytes, from + page - bytes, bytes);
                probes[p]->copy(kind, to, from + page - bytes, n); // and store nothing more
                assert_memory_equal(to, from + page - bytes, bytes);
                for (size_t i = bytes; i < 128; i++) assert_int_equal(to[i], 0);
            }
        }
    }
    munmap(from, 2 * page);
    munmap(to, 2 * page);
}

static void test_transpose(void **state) {
    (void)state;
    for (int p = 0; p < PROBES; p++) {
        if (!present(probes[p])) continue;
        float matrix[16][16];
        for (int i = 0; i < 256; i++) matrix[i / 16][i % 16] = (float)i;
        probes[p]->transpose(matrix);
        for (int i = 0; i < 256; i++) assert_true(matrix[i % 16][i / 16] == (float)i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_transpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
