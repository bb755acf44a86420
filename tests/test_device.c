// The device room: conversions of storage types, tensors and views, the plan device, the ledger.
#include "device/device.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Runs body in a child and keeps what it wrote on stderr; returns the signal that ended it, or minus its exit status.
static int signal_of(void (*body)(void), char *said, size_t size) {
    int ends[2];
    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], said + length, size - 1 - length)) > 0;) length += (size_t)n;
    said[length] = 0;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void aborts(void (*body)(void), const char *words) {
    char said[2000];
    if (signal_of(body, said, sizeof said) != SIGABRT) fail_msg("no abort that says \"%s\"", words);
    if (!strstr(said, words)) fail_msg("\"%s\" does not say \"%s\"", said, words);
}

// ---- storage types

// A 16-bit format by its mantissa bits: bf16 has 7, fp16 has 10.
static double half_value(uint16_t half, int mantissa_bits) {
    int exponent_bits = 15 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = half >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = half & ((1 << mantissa_bits) - 1);
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

// The number of steps of the format between 0 and |value|, rounded to nearest even: with the exponent that is the code.
static uint16_t half_nearest(double value, int mantissa_bits) {
    int exponent_bits = 15 - mantissa_bits, smallest = 2 - (1 << (exponent_bits - 1));
    uint32_t sign = signbit(value) ? 0x8000 : 0, infinite = ((1u << exponent_bits) - 1) << mantissa_bits;
    double magnitude = fabs(value);
    if (magnitude == 0) return (uint16_t)sign;
    if (isinf(value)) return (uint16_t)(sign | infinite);
    int exponent = ilogb(magnitude) > smallest ? ilogb(magnitude) : smallest;
    double steps = ldexp(magnitude, mantissa_bits - exponent), whole = floor(steps), rest = steps - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) == 1)) whole++;
    uint32_t code = ((uint32_t)(exponent - smallest) << mantissa_bits) + (uint32_t)whole;
    return (uint16_t)(sign | (code < infinite ? code : infinite));
}

static uint16_t to_half(float value, int mantissa_bits) {
    return mantissa_bits == 7 ? dtype_to_bf16(value) : dtype_to_f16(value);
}

static float from_half(uint16_t half, int mantissa_bits) {
    return mantissa_bits == 7 ? dtype_from_bf16(half) : dtype_from_f16(half);
}

static void rounds_well(float value, int mantissa_bits) {
    uint16_t found = to_half(value, mantissa_bits), expected = half_nearest((double)value, mantissa_bits);
    if (found != expected)
        fail_msg("%a with %d bits: 0x%04x is not 0x%04x", (double)value, mantissa_bits, found, expected);
}

static void test_every_half_is_read_and_written_back(void **state) {
    (void)state;
    for (int bits = 7; bits <= 10; bits += 3)
        for (uint32_t half = 0; half < 0x10000; half++) {
            float value = from_half((uint16_t)half, bits);
            double expected = half_value((uint16_t)half, bits);
            uint16_t back = to_half(value, bits);
            if (isnan(expected)) { // sign and payload stay, the quiet bit is set
                if (!isnan(value) || back != (half | 1u << (bits - 1))) fail_msg("NaN 0x%04x gave 0x%04x", half, back);
                uint32_t widened = (half & 0x8000) << 16 | 0x7fc00000 | (half & 1023) << 13; // as F16C does
                if (bits == 10) assert_int_equal(dtype_bits(value), widened);
            } else if ((double)value != expected || !signbit(value) != !signbit(expected) || back != half) {
                fail_msg("0x%04x with %d bits: %a, expected %a, back 0x%04x", half, bits, (double)value, expected,
                         back);
            }
        }
}

static void test_rounding_at_every_tie(void **state) {
    (void)state;
    for (int bits = 7; bits <= 10; bits += 3) {
        uint16_t infinite = half_nearest((double)INFINITY, bits);
        for (uint16_t half = 0; half < infinite; half++) {
            double here = half_value(half, bits), step = half_value(half | 1, bits) - half_value(half & 0xfffe, bits);
            if (half == infinite - 1) step = ldexp(1, ilogb(here) - bits); // half a step beyond the largest: infinity
            float tie = (float)(here + step / 2);
            if ((double)tie != here + step / 2) continue; // bf16's last subnormals: fp32 has no number between
            for (int sign = -1; sign <= 1; sign += 2) {
                rounds_well((float)sign * tie, bits);
                rounds_well((float)sign * nextafterf(tie, 0), bits);
                rounds_well((float)sign * nextafterf(tie, INFINITY), bits);
            }
        }
        assert_int_equal(to_half(INFINITY, bits), infinite);
        assert_int_equal(to_half(-INFINITY, bits), infinite | 0x8000);
        assert_int_equal(to_half(3.4e38f, bits), half_nearest((double)3.4e38f, bits));
        assert_int_equal(to_half(-0.0f, bits), 0x8000);
    }
    assert_int_equal(dtype_to_f16(65519.996f), 0x7bff);
    assert_int_equal(dtype_to_f16(65520), 0x7c00);
    assert_int_equal(dtype_to_f16(0x1p-25f), 0); // a tie between 0 and the smallest: to even
    assert_int_equal(dtype_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(dtype_to_bf16(dtype_float(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(dtype_to_bf16(dtype_float(0x7f7f8000)), 0x7f80);
}

static void test_rounding_all_over_the_floats(void **state) {
    (void)state;
    for (uint64_t pattern = 0; pattern <= UINT32_MAX; pattern += 2039) {
        float value = dtype_float((uint32_t)pattern);
        for (int bits = 7; bits <= 10; bits += 3)
            if (isnan(value))
                assert_true(isnan(from_half(to_half(value, bits), bits)));
            else
                rounds_well(value, bits);
    }
    // A NaN whose upper bits are all zero must not become an infinity.
    for (uint32_t pattern = 0x7f800001; pattern < 0x7f802000; pattern++)
        assert_true(isnan(dtype_from_bf16(dtype_to_bf16(dtype_float(pattern)))) &&
                    isnan(dtype_from_f16(dtype_to_f16(dtype_float(pattern)))));
}

static void load_integers(void) {
    int32_t values[2] = {1, 2};
    dtype_load(values, DTYPE_I32, 0);
}
static void store_integers(void) {
    int32_t values[2] = {1, 2};
    dtype_store(values, DTYPE_I32, 0, 1);
}
static void size_of_none(void) {
    dtype_size(DTYPE_COUNT);
}
static void name_of_none(void) {
    dtype_name(DTYPE_COUNT);
}

static void test_elements_are_loaded_and_stored(void **state) {
    (void)state;
    const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    const char *names[] = {"float32", "bfloat16", "float16"};
    for (int t = 0; t < 3; t++) {
        unsigned char bytes[5 * 4];
        memset(bytes, 0xee, sizeof bytes);
        size_t size = dtype_size(types[t]);
        assert_int_equal(size, t ? 2 : 4);
        assert_string_equal(dtype_name(types[t]), names[t]);
        dtype_store(bytes, types[t], 2, 1.0009765625f); // 1 + 2^-10: too fine for bf16 alone
        assert_true(dtype_load(bytes, types[t], 2) == (types[t] == DTYPE_BF16 ? 1 : 1.0009765625f));
        for (size_t i = 0; i < sizeof bytes; i++)
            if (i < 2 * size || i >= 3 * size) assert_int_equal(bytes[i], 0xee);
    }
    assert_int_equal(dtype_size(DTYPE_I32), 4);
    assert_string_equal(dtype_name(DTYPE_I32), "int32");
    aborts(load_integers, "int32 is not a float");
    aborts(store_integers, "int32 is not a float");
    aborts(size_of_none, "dtype 4");
    aborts(name_of_none, "dtype 4");
}

// ---- tensors

static void test_tensors_are_aligned_and_zero(void **state) {
    (void)state;
    Device device = {.kind = DEVICE_CPU};
    const int64_t counts[] = {1, 15, 16, 17, 1000, 65536, 1 << 20, (1 << 20) + 1, 3 << 20};
    for (int round = 0; round < 3; round++) // what was freed dirty comes back zeroed
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            Tensor tensor = DEVICE_TENSOR(&device, MEMORY_SCRATCH, DTYPE_F32, counts[i]);
            assert_int_equal((uintptr_t)tensor.data % 64, 0);
            assert_int_equal(tensor_count(&tensor), counts[i]);
            assert_int_equal(tensor_bytes(&tensor), 4 * counts[i]);
            const unsigned char *bytes = tensor.data;
            for (int64_t k = 0; k < 4 * counts[i]; k++)
                if (bytes[k])
                    fail_msg("byte %lld of %lld elements is %d", (long long)k, (long long)counts[i], bytes[k]);
            memset(tensor.data, 0xa5, tensor_bytes(&tensor));
            assert_true(device.ledger.live_total >= tensor_bytes(&tensor));
            device_release(&device, &tensor);
            assert_null(tensor.data);
            assert_int_equal(device.ledger.live_total, 0);
        }
    Tensor none = {0};
    device_release(&device, &none);
    Tensor empty = DEVICE_TENSOR(&device, MEMORY_SCRATCH, DTYPE_BF16, 0, 5);
    assert_non_null(empty.data);
    assert_int_equal(tensor_count(&empty), 0);
    Tensor rows = tensor_rows(&empty, 0, 0);
    assert_int_equal(tensor_bytes(&rows), 0);
    device_release(&device, &empty);
    device_close(&device);
}

// Large tensors whose sizes come again exactly take no more than their pages; those of micro-batches share blocks nearly of a size.
static void test_blocks_are_as_large_as_tags_say(void **state) {
    (void)state;
    Device device = {.kind = DEVICE_CPU};
    const MemoryTag exact[] = {MEMORY_WEIGHT_SHARD, MEMORY_OPTIMIZER, MEMORY_GRADIENT_SHARD, MEMORY_ROLLOUT_WEIGHTS};
    enum { EXACT = sizeof exact / sizeof *exact, COUNT = 1183744 }; // 4.52 MiB: 1156 pages
    Tensor kept[EXACT];
    for (int i = 0; i < EXACT; i++) kept[i] = DEVICE_TENSOR(&device, exact[i], DTYPE_F32, COUNT);
    Tensor longer = DEVICE_TENSOR(&device, MEMORY_ACTIVATION, DTYPE_F32, COUNT);
    void *place = longer.data;
    device_release(&device, &longer);
    Tensor shorter = DEVICE_TENSOR(&device, MEMORY_ACTIVATION, DTYPE_F32, COUNT - 9999);
    if (device.pool.mappings.count) { // not under a sanitizer
        for (int i = 1; i < EXACT; i++) assert_ptr_equal(kept[i].data, (char *)kept[0].data + i * (int64_t)COUNT * 4);
        assert_ptr_equal(shorter.data, place);
    }
    const float *numbers = shorter.data;
    for (int i = 0; i < COUNT - 9999; i++) assert_true(numbers[i] == 0);
    device_release(&device, &shorter);
    for (int i = 0; i < EXACT; i++) device_release(&device, &kept[i]);
    device_close(&device);
}

static void test_views_lie_inside(void **state) {
    (void)state;
    Device device = {.kind = DEVICE_CPU};
    Tensor whole = DEVICE_TENSOR(&device, MEMORY_ACTIVATION, DTYPE_F32, 5, 4, 3);
    for (int i = 0; i < 60; i++) ((float *)whole.data)[i] = (float)i;
    uint64_t live = device.ledger.live_total;
    Tensor rows = tensor_rows(&whole, 2, 2);
    assert_int_equal(rows.rank, 3);
    assert_int_equal(tensor_count(&rows), 24);
    assert_true(((float *)rows.data)[0] == 24 && ((float *)rows.data)[23] == 47);
    Tensor flat = TENSOR_RESHAPE(&rows, 24);
    assert_int_equal(flat.rank, 1);
    assert_true(flat.data == rows.data && flat.size[0] == 24 && flat.dtype == DTYPE_F32);
    Tensor matrix = TENSOR_RESHAPE(&whole, 10, 6), last = tensor_rows(&matrix, 9, 1), end = tensor_rows(&matrix, 10, 0);
    assert_true(((float *)last.data)[5] == 59);
    assert_int_equal(tensor_count(&end), 0);
    ((float *)last.data)[0] = -1; // shared
    assert_true(((float *)whole.data)[54] == -1);
    assert_int_equal(device.ledger.live_total, live);
    device_release(&device, &whole);
    device_close(&device);
}

static Tensor small(Device *device) {
    *device = (Device){.kind = DEVICE_PLAN};
    return DEVICE_TENSOR(device, MEMORY_KV_CACHE, DTYPE_F16, 4, 6);
}
static void rows_behind_the_end(void) {
    Device device;
    Tensor tensor = small(&device);
    tensor_rows(&tensor, 2, 3);
}
static void rows_before_the_start(void) {
    Device device;
    Tensor tensor = small(&device);
    tensor_rows(&tensor, -1, 1);
}
static void rows_of_negative_count(void) {
    Device device;
    Tensor tensor = small(&device);
    tensor_rows(&tensor, 2, -1);
}
static void rows_that_overflow(void) {
    Device device;
    Tensor tensor = small(&device);
    tensor_rows(&tensor, INT64_MAX, 3);
}
static void reshape_to_more(void) {
    Device device;
    Tensor tensor = small(&device);
    TENSOR_RESHAPE(&tensor, 5, 5);
}
static void reshape_to_negative(void) {
    Device device;
    Tensor tensor = small(&device);
    TENSOR_RESHAPE(&tensor, -4, -6);
}
static void reshape_to_rank_five(void) {
    Device device;
    Tensor tensor = small(&device);
    TENSOR_RESHAPE(&tensor, 2, 2, 3, 2, 1);
}
static void reshape_to_overflow(void) {
    Device device;
    Tensor tensor = small(&device);
    TENSOR_RESHAPE(&tensor, INT64_C(1) << 59, 32, 24); // 0 in 64 bits
}
static void tensor_of_rank_zero(void) {
    Device device = {.kind = DEVICE_PLAN};
    device_tensor(&device, MEMORY_SCRATCH, DTYPE_F32, 0, (const int64_t[]){1});
}
static void tensor_of_rank_five(void) {
    Device device = {.kind = DEVICE_PLAN};
    DEVICE_TENSOR(&device, MEMORY_SCRATCH, DTYPE_F32, 1, 1, 1, 1, 1);
}
static void tensor_of_negative_size(void) {
    Device device = {.kind = DEVICE_PLAN};
    DEVICE_TENSOR(&device, MEMORY_SCRATCH, DTYPE_F32, 3, -1);
}
static void tensor_that_overflows(void) {
    Device device = {.kind = DEVICE_PLAN};
    DEVICE_TENSOR(&device, MEMORY_SCRATCH, DTYPE_F32, INT64_C(1) << 32, INT64_C(1) << 32);
}
static void tensor_too_large(void) {
    Device device = {.kind = DEVICE_CPU};
    ledger_enter(&device.ledger, PHASE_BACKWARD);
    DEVICE_TENSOR(&device, MEMORY_UNIT_OUTPUT, DTYPE_F32, INT64_C(1) << 50);
}
static void tensors_too_many(void) {
    Device device = {.kind = DEVICE_CPU, .machine_bytes = 300};
    for (int i = 0; i < 5; i++) DEVICE_TENSOR(&device, MEMORY_KV_CACHE, DTYPE_F32, 16); // the fifth is too much
}
static void close_with_a_tensor(void) {
    Device device;
    small(&device);
    device_close(&device);
}
static void release_twice(void) {
    Device device;
    Tensor tensor = small(&device), copy = tensor;
    device_release(&device, &tensor);
    device_release(&device, &copy);
}

static void test_broken_sizes_end_the_program(void **state) {
    (void)state;
    aborts(rows_behind_the_end, "rows 2 + 3 of 4");
    aborts(rows_before_the_start, "rows -1 + 1 of 4");
    aborts(rows_of_negative_count, "rows 2 + -1 of 4");
    aborts(rows_that_overflow, "rows 9223372036854775807 + 3 of 4");
    aborts(reshape_to_more, "25 elements from 24");
    aborts(reshape_to_negative, "size 0 is -4");
    aborts(reshape_to_rank_five, "rank 5");
    aborts(reshape_to_overflow, "size 1 is 32");
    aborts(tensor_of_rank_zero, "rank 0");
    aborts(tensor_of_rank_five, "rank 5");
    aborts(tensor_of_negative_size, "size 1 is -1");
    aborts(tensor_that_overflows, "size 1 is 4294967296");
    aborts(close_with_a_tensor, "64 bytes were not released");
    aborts(release_twice, "kv_cache: 64 bytes given back, 0 alive");
    char said[2000];
    int ended = signal_of(tensor_too_large, said, sizeof said);
    assert_int_equal(ended, -1);
    assert_ptr_equal(strstr(said, "whet: cannot get 4194304.00 GiB for unit_output in phase backward; with it"), said);
    ended = signal_of(tensors_too_many, said, sizeof said);
    assert_int_equal(ended, -1);
    assert_non_null(
        strstr(said, " for kv_cache in phase load; with it 0.00 GiB would be in use, the machine has 0.00 GiB\n"));
}

// ---- plan

static void *planned_address;
static void read_planned(void) {
    *(volatile char *)planned_address;
}

static void not_mapped(uintptr_t first, uintptr_t last) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && first < end && last >= start)
            fail_msg("%lx..%lx lies in %s", (unsigned long)first, (unsigned long)last, line);
    }
    fclose(maps);
}

static void test_planned_tensors_have_apart_addresses_that_do_not_exist(void **state) {
    (void)state;
    Device device = {.kind = DEVICE_PLAN};
    enum { COUNT = 60 };
    Tensor tensors[COUNT];
    for (int i = 0; i < COUNT; i++) { // large and small by turns, terabytes in all
        int64_t size = i % 3 == 0 ? INT64_C(1) << (20 + i / 3) : 1 + 31 * i;
        tensors[i] = DEVICE_TENSOR(&device, (MemoryTag)(i % MEMORY_TAG_COUNT), i % 2 ? DTYPE_BF16 : DTYPE_F32, size);
        uintptr_t first = (uintptr_t)tensors[i].data, last = first + tensor_bytes(&tensors[i]) - 1;
        assert_int_equal(first % 64, 0);
        not_mapped(first, last);
        for (int j = 0; j < i; j++) {
            uintptr_t other = (uintptr_t)tensors[j].data, other_last = other + tensor_bytes(&tensors[j]) - 1;
            if (first <= other_last && last >= other) fail_msg("tensors %d and %d overlap", j, i);
        }
        char said[2000];
        planned_address = tensors[i].data;
        int ended = signal_of(read_planned, said, sizeof said);
        assert_true(ended == SIGSEGV || ended == SIGBUS);
    }
    for (int i = 0; i < COUNT; i++) device_release(&device, &tensors[i]);
    device_close(&device);
}

// Allocates and releases by a fixed dance.
static void dance(Device *device) {
    Tensor tensors[16] = {0};
    uint32_t word = 12345;
    for (int i = 0; i < 3000; i++) {
        word = word * 1664525 + 1013904223;
        Tensor *tensor = &tensors[word >> 28];
        ledger_enter(&device->ledger, (MemoryPhase)(word >> 20) % PHASE_COUNT);
        if (tensor->data)
            device_release(device, tensor);
        else
            *tensor = DEVICE_TENSOR_RAW(device, (MemoryTag)(word >> 12) % MEMORY_TAG_COUNT,
                                        (DType)(word >> 8) % DTYPE_COUNT, word % 700, 1 + word % 3);
    }
    for (int i = 0; i < 16; i++) device_release(device, &tensors[i]);
}

static void test_plan_keeps_the_account_of_the_cpu(void **state) {
    (void)state;
    Device cpu = {.kind = DEVICE_CPU, .ledger = {.record = true}},
           plan = {.kind = DEVICE_PLAN, .ledger = {.record = true}};
    dance(&cpu);
    dance(&plan);
    assert_true(cpu.ledger.event_count >= 3000);
    assert_int_equal(cpu.ledger.event_count, plan.ledger.event_count);
    for (size_t i = 0; i < cpu.ledger.event_count; i++) {
        LedgerEvent a = cpu.ledger.events[i], b = plan.ledger.events[i];
        assert_true(a.phase == b.phase && a.tag == b.tag && a.bytes == b.bytes);
    }
    assert_memory_equal(&cpu.ledger.peak, &plan.ledger.peak, sizeof cpu.ledger.peak);
    assert_memory_equal(cpu.ledger.phase_peak, plan.ledger.phase_peak, sizeof cpu.ledger.phase_peak);
    assert_memory_equal(cpu.ledger.tag_peak, plan.ledger.tag_peak, sizeof cpu.ledger.tag_peak);
    device_close(&cpu);
    device_close(&plan);
}

// ---- ledger

static void test_ledger_peaks_by_tag_and_phase(void **state) {
    (void)state;
    Ledger ledger = {0};
    assert_int_equal(ledger.phase, PHASE_LOAD);
    ledger_take(&ledger, MEMORY_WEIGHT_SHARD, 100);
    assert_int_equal(ledger_enter(&ledger, PHASE_FORWARD), PHASE_LOAD);
    ledger_take(&ledger, MEMORY_ACTIVATION, 50);
    ledger_take(&ledger, MEMORY_LOGITS, 10);
    ledger_give(&ledger, MEMORY_LOGITS, 10);
    assert_int_equal(ledger_enter(&ledger, PHASE_BACKWARD), PHASE_FORWARD);
    ledger_take(&ledger, MEMORY_GRADIENT_SHARD, 30);
    ledger_give(&ledger, MEMORY_ACTIVATION, 50);
    ledger_take(&ledger, MEMORY_LOGITS, 40);
    assert_int_equal(ledger.live_total, 170);
    assert_int_equal(ledger.peak.total, 180);
    assert_int_equal(ledger.peak.by_tag[MEMORY_ACTIVATION], 50);
    assert_int_equal(ledger.peak.by_tag[MEMORY_GRADIENT_SHARD], 30);
    assert_int_equal(ledger.peak.by_tag[MEMORY_LOGITS], 0);
    assert_int_equal(ledger.phase_peak[PHASE_LOAD].total, 100);
    assert_int_equal(ledger.phase_peak[PHASE_FORWARD].total, 160);
    assert_int_equal(ledger.phase_peak[PHASE_FORWARD].by_tag[MEMORY_LOGITS], 10);
    assert_int_equal(ledger.phase_peak[PHASE_BACKWARD].total, 180);
    assert_int_equal(ledger.phase_peak[PHASE_OPTIMIZER].total, 0);
    assert_int_equal(ledger.tag_peak[MEMORY_LOGITS], 40);
    assert_int_equal(ledger.tag_peak[MEMORY_ACTIVATION], 50);
    // A phase without allocations has what was alive when it began.
    ledger_enter(&ledger, PHASE_OPTIMIZER);
    assert_int_equal(ledger.phase_peak[PHASE_OPTIMIZER].total, 170);
    assert_int_equal(ledger.phase_peak[PHASE_OPTIMIZER].by_tag[MEMORY_LOGITS], 40);
    ledger_close(&ledger);
}

static void test_ledger_reset_starts_from_what_is_alive(void **state) {
    (void)state;
    Ledger ledger = {0};
    ledger_take(&ledger, MEMORY_KV_CACHE, 500);
    ledger_enter(&ledger, PHASE_ROLLOUT);
    ledger_take(&ledger, MEMORY_SCRATCH, 70);
    ledger_give(&ledger, MEMORY_SCRATCH, 70);
    ledger_reset_peaks(&ledger);
    assert_int_equal(ledger.peak.total, 500);
    assert_int_equal(ledger.peak.by_tag[MEMORY_KV_CACHE], 500);
    assert_int_equal(ledger.peak.by_tag[MEMORY_SCRATCH], 0);
    assert_int_equal(ledger.phase_peak[PHASE_ROLLOUT].total, 500);
    assert_int_equal(ledger.phase_peak[PHASE_LOAD].total, 0);
    assert_int_equal(ledger.tag_peak[MEMORY_SCRATCH], 0);
    assert_int_equal(ledger.tag_peak[MEMORY_KV_CACHE], 500);
    assert_int_equal(ledger.live_total, 500);
    assert_int_equal(ledger.phase, PHASE_ROLLOUT);
    ledger_take(&ledger, MEMORY_SCRATCH, 1);
    assert_int_equal(ledger.peak.total, 501);
    ledger_close(&ledger);
    assert_int_equal(ledger.live_total, 0);
}

static void test_ledger_records_events_when_asked(void **state) {
    (void)state;
    Ledger ledger = {0};
    ledger_take(&ledger, MEMORY_OPTIMIZER, 8);
    assert_int_equal(ledger.event_count, 0);
    ledger.record = true;
    ledger_enter(&ledger, PHASE_REFIT);
    for (int i = 0; i < 3000; i++) ledger_take(&ledger, MEMORY_OPTIMIZER, (size_t)i);
    ledger_give(&ledger, MEMORY_OPTIMIZER, 17);
    assert_int_equal(ledger.event_count, 3001);
    for (int i = 0; i < 3000; i++) assert_int_equal(ledger.events[i].bytes, i);
    assert_int_equal(ledger.events[3000].bytes, -17);
    assert_int_equal(ledger.events[3000].phase, PHASE_REFIT);
    assert_int_equal(ledger.events[3000].tag, MEMORY_OPTIMIZER);
    ledger_close(&ledger);
    assert_null(ledger.events);
}

static void give_more(void) {
    Ledger ledger = {0};
    ledger_take(&ledger, MEMORY_LOGITS, 10);
    ledger_take(&ledger, MEMORY_SCRATCH, 10);
    ledger_give(&ledger, MEMORY_LOGITS, 11);
}
static void tag_of_none(void) {
    ledger_tag_name(MEMORY_TAG_COUNT);
}
static void phase_of_none(void) {
    ledger_phase_name(PHASE_COUNT);
}

static void test_ledger_names_and_broken_accounts(void **state) {
    (void)state;
    assert_string_equal(ledger_tag_name(MEMORY_WEIGHT_SHARD), "weight_shard");
    assert_string_equal(ledger_tag_name(MEMORY_REFERENCE), "reference");
    assert_string_equal(ledger_tag_name(MEMORY_SCRATCH), "scratch");
    assert_string_equal(ledger_phase_name(PHASE_LOAD), "load");
    assert_string_equal(ledger_phase_name(PHASE_CHECKPOINT), "checkpoint");
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++)
        for (int other = 0; other < tag; other++)
            assert_string_not_equal(ledger_tag_name((MemoryTag)tag), ledger_tag_name((MemoryTag)other));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        for (int other = 0; other < phase; other++)
            assert_string_not_equal(ledger_phase_name((MemoryPhase)phase), ledger_phase_name((MemoryPhase)other));
    aborts(give_more, "logits: 11 bytes given back, 10 alive");
    aborts(tag_of_none, "tag 12");
    aborts(phase_of_none, "phase 9");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_is_read_and_written_back),
        cmocka_unit_test(test_rounding_at_every_tie),
        cmocka_unit_test(test_rounding_all_over_the_floats),
        cmocka_unit_test(test_elements_are_loaded_and_stored),
        cmocka_unit_test(test_tensors_are_aligned_and_zero),
        cmocka_unit_test(test_blocks_are_as_large_as_tags_say),
        cmocka_unit_test(test_views_lie_inside),
        cmocka_unit_test(test_broken_sizes_end_the_program),
        cmocka_unit_test(test_planned_tensors_have_apart_addresses_that_do_not_exist),
        cmocka_unit_test(test_plan_keeps_the_account_of_the_cpu),
        cmocka_unit_test(test_ledger_peaks_by_tag_and_phase),
        cmocka_unit_test(test_ledger_reset_starts_from_what_is_alive),
        cmocka_unit_test(test_ledger_records_events_when_asked),
        cmocka_unit_test(test_ledger_names_and_broken_accounts),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
