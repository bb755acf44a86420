// Shapes by name: as many parameters as the published models have.
#include "model/architecture.h"
#include "model/known_models.h"
#include "model/parameters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

// As the hub states them for the safetensors files.
static const struct {
    const char *name;
    int64_t parameters;
} published[] = {
    {"Qwen/Qwen2.5-0.5B", 494032768},
    {"Qwen/Qwen2.5-1.5B-Instruct", 1543714304},
    {"Qwen/Qwen2.5-Math-1.5B-Instruct", 1543714304},
    {"Qwen/Qwen2.5-3B", 3085938688},
    {"Qwen/Qwen2.5-7B@main", 7615616512},
    {"Qwen/Qwen2.5-Coder-7B-Instruct", 7615616512},
    {"qwen2.5-14b-instruct", 14770033664},
    {"Qwen/Qwen2.5-32B", 32763876352},
    {"Qwen/Qwen2.5-72B-Instruct", 72706203648},
    {"Qwen/Qwen3-0.6B", 596049920},
    {"Qwen/Qwen3-1.7B-Base", 1720574976},
    {"Qwen/Qwen3-4B", 4022468096},
    {"Qwen/Qwen3-8B", 8190735360},
    {"Qwen/Qwen3-14B", 14768307200},
    {"Qwen/Qwen3-32B", 32762123264},
    {"meta-llama/Meta-Llama-3-8B-Instruct", 8030261248},
    {"meta-llama/Llama-3.1-8B", 8030261248},
    {"meta-llama/Llama-3.1-70B-Instruct", 70553706496},
    {"meta-llama/Llama-3.1-405B", 405853388800},
    {"meta-llama/Llama-3.2-1B", 1235814400},
    {"meta-llama/Llama-3.2-3B-Instruct", 3212749824},
    {"meta-llama/Llama-3.3-70B-Instruct", 70553706496},
    {"HuggingFaceTB/SmolLM2-135M-Instruct", 134515008},
    {"HuggingFaceTB/SmolLM2-360M", 361821120},
    {"HuggingFaceTB/SmolLM2-1.7B-Instruct", 1711376384},
    {"HuggingFaceTB/SmolLM3-3B", 3075098624},
    {"mistralai/Mistral-7B-v0.1", 7241732096},
    {"mistralai/Mistral-7B-Instruct-v0.3", 7248023552},
    {"mistralai/Mistral-Nemo-Instruct-2407", 12247782400},
    {"mistralai/Mistral-Small-24B-Instruct-2501", 23572403200},
};

static void test_published_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        Architecture architecture;
        ParameterTable table;
        Error error;
        json_t *config = known_models_config(published[i].name);
        if (!config) fail_msg("%s is not known", published[i].name);
        if (!architecture_from_json(&architecture, config, published[i].name, &error)) fail_msg("%s", error.text);
        parameters_open(&table, &architecture);
        if (table.total != published[i].parameters)
            fail_msg("%s has %lld parameters, not %lld", published[i].name, (long long)table.total,
                     (long long)published[i].parameters);
        parameters_close(&table);
        json_decref(config);
    }
}

static void test_every_name_is_a_model(void **state) {
    (void)state;
    StrBuf names = {0};
    int count = 0;
    known_models_list(&names);
    for (char *name = strtok(names.text, " "); name; name = strtok(NULL, " "), count++) {
        Architecture architecture;
        Error error;
        json_t *config = known_models_config(name);
        assert_non_null(config);
        if (!architecture_from_json(&architecture, config, name, &error)) fail_msg("%s", error.text);
        json_decref(config);
    }
    assert_true(count > 30);
    strbuf_close(&names);
}

static void test_other_names(void **state) {
    (void)state;
    static const char *const unknown[] = {"", "Qwen2.5", "Qwen2.5-1.5B-Instructs", "gpt2", "Qwen/", "Qwen2.5-1.5B/x"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) assert_null(known_models_config(unknown[i]));
    assert_string_equal(known_models_nearest("Qwen/Qwen2.5-1.6B-Instruct"), "Qwen2.5-1.5B");
    assert_null(known_models_nearest("gpt2"));
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_null(known_models_config(longest));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_sizes),
        cmocka_unit_test(test_every_name_is_a_model),
        cmocka_unit_test(test_other_names),
    };
    return cmocka_run_group_tests_name("known models", tests, NULL, NULL);
}
