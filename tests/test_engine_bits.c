// Generations come to the same bits on every instruction set, compiler, number of threads and schedule: their digests are
// committed (tests/data/rollout/digests.txt; WHET_WRITE_DIGESTS=1 writes them anew, for a change of numbers that is meant).
#include "base/digest.h"
#include "base/strbuf.h"
#include "support/engine_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const digests_path = "tests/data/rollout/digests.txt";
enum { WAYS = 9, MODELS = 2, SCHEDULES = 4 };

static GenerationOptions way_options(int way, int schedule) {
    static const struct {
        double temperature, top_p, min_p;
        int64_t top_k;
    } ways[WAYS] = {{0.7, 1, 0, 0},   {1, 1, 0, 0},   {1.3, 1, 0, 0}, {0.7, 0.9, 0, 0},    {1, 0.9, 0, 0},
                    {1.3, 0.9, 0, 0}, {1, 1, 0.1, 0}, {1.3, 1, 0, 9}, {0.7, 0.8, 0.02, 30}};
    static const struct {
        int64_t sequences, chunk, pages;
    } schedules[SCHEDULES] = {{64, 64, 0}, {2, 1, 0}, {7, 16, 5}, {64, 1000, 9}};
    GenerationOptions options = engine_setup_options();
    options.max_new_tokens = 12;
    options.temperature = ways[way].temperature;
    options.top_p = ways[way].top_p;
    options.min_p = ways[way].min_p;
    options.top_k = ways[way].top_k;
    options.max_sequences = schedules[schedule].sequences;
    options.prefill_chunk = schedules[schedule].chunk;
    options.kv_cache_tokens = schedules[schedule].pages * KV_PAGE_TOKENS;
    options.enable_prefix_caching = schedule % 2;
    return options;
}

static void add_samples(StrBuf *bytes, const Samples *samples) {
    int64_t count = samples->count, tokens = samples->offset[count];
    strbuf_append(bytes, (const char *)samples->offset, (size_t)(count + 1) * sizeof *samples->offset);
    strbuf_append(bytes, (const char *)samples->ids, (size_t)tokens * sizeof *samples->ids);
    strbuf_append(bytes, (const char *)samples->generation_logprobs, (size_t)tokens * sizeof(float));
    for (int64_t b = 0; b < count; b++) strbuf_putc(bytes, (char)('0' + samples->finish[b]));
}

// Of all ways of sampling together.
static void digest_of(char hex[DIGEST_HEX], ModelFamily family, PrecisionPolicy policy, OpsOptions ops, int64_t rows,
                      int schedule) {
    TinyModel model;
    StrBuf bytes = {0};
    tiny_model_open(&model, family, policy, ops, rows);
    for (int way = 0; way < WAYS; way++) {
        Arena arena = {0};
        GenerationOptions options = way_options(way, schedule);
        Samples samples = engine_setup_usual(&model, &options, &arena);
        add_samples(&bytes, &samples);
        arena_close(&arena);
    }
    digest_bytes(hex, bytes.text, bytes.length);
    strbuf_close(&bytes);
    tiny_model_close(&model);
}

static const ModelFamily models[MODELS] = {MODEL_LLAMA, MODEL_QWEN2};

static void line_of(char line[96], int family, int precision, const char *hex) {
    snprintf(line, 96, "%s %s %s\n", family ? "qwen2" : "llama", dtype_name(precisions[precision].compute), hex);
}

static void write_digests(void) {
    FILE *out = fopen(digests_path, "w");
    assert_non_null(out);
    for (int family = 0; family < MODELS; family++)
        for (int precision = 0; precision < PRECISIONS; precision++) {
            char hex[DIGEST_HEX], line[96];
            digest_of(hex, models[family], precisions[precision], one_thread, ROWS, 0);
            line_of(line, family, precision, hex);
            fputs(line, out);
        }
    fclose(out);
}

static void test_digests(void **state) {
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    static const int64_t rows[] = {ROWS, 5, 40};
    char text[4096];
    if (getenv("WHET_WRITE_DIGESTS")) write_digests();
    FILE *in = fopen(digests_path, "r");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    for (int i = 0; i < 3; i++) {
        Error error;
        Ops probe;
        OpsOptions ops = {.threads = 1 + i, .isa = isas[i]};
        if (!ops_open(&probe, ops, &error)) continue; // this CPU lacks it
        ops_close(&probe);
        for (int family = 0; family < MODELS; family++)
            for (int precision = 0; precision < PRECISIONS; precision++) {
                char hex[DIGEST_HEX], line[96];
                digest_of(hex, models[family], precisions[precision], ops, rows[i],
                          (i + family + precision) % SCHEDULES);
                line_of(line, family, precision, hex);
                if (!strstr(text, line))
                    fail_msg("on %s with %d threads, not in %s: %s", isas[i], 1 + i, digests_path, line);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_digests)};
    return cmocka_run_group_tests_name("engine_bits", tests, NULL, NULL);
}
