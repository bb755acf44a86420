#include "run/ranks.h"

#include "base/arena.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "config/explain.h"
#include "config/settings_table.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ranks_threads(Comm *world) {
    if (world->kind != COMM_MPI) return 0;
    Arena arena = {0};
    Comm host = comm_on_host(world);
    cpu_set_t *cores = arena_array(&arena, cpu_set_t, host.size), together, any;
    sched_getaffinity(0, sizeof *cores, &cores[host.rank]);
    comm_all_gather(&host, cores, sizeof *cores);
    int sharing = 0, own = CPU_COUNT(&cores[host.rank]), online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    CPU_ZERO(&any);
    for (int rank = 0; rank < host.size; rank++) {
        CPU_AND(&together, &cores[rank], &cores[host.rank]);
        sharing += CPU_COUNT(&together) > 0;
        CPU_OR(&any, &any, &cores[rank]);
    }
    if (world->rank == 0 && 2 * CPU_COUNT(&any) < online)
        log_warn("the ranks of a host were given %d of its %d cores; mpirun --bind-to none gives them all",
                 CPU_COUNT(&any), online);
    comm_close(&host);
    arena_close(&arena);
    return own > sharing ? own / sharing : 1;
}

bool ranks_same(Comm *world, const char *what, const char *text, Error *error) {
    char own[DIGEST_HEX], first[DIGEST_HEX];
    digest_bytes(own, text, strlen(text));
    memcpy(first, own, sizeof first);
    comm_broadcast(world, first, sizeof first, 0);
    bool same = !strcmp(own, first);
    if (!same) error_set(error, "%s differs from that of rank 0", what);
    return comm_agree(world, same, error);
}

static bool may_differ(const Setting *row) {
    static const char *const own[] = {"whet.threads", "policy.model_name", "policy.tokenizer.name"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(row->key, own[i])) return true;
    return row->class != SETTING_HONOURED || row->type == SETTING_GROUP;
}

bool ranks_same_recipe(Comm *world, const Settings *settings, Error *error) {
    Arena arena = {0};
    size_t count = settings_table_count;
    uint64_t *first = arena_array(&arena, uint64_t, (int64_t)count),
             *own = arena_array(&arena, uint64_t, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        if (may_differ(&settings_table[i])) continue;
        const char *value = explain_value(&arena, settings, settings_table[i].key);
        first[i] = own[i] = digest_number(value, strlen(value));
    }
    bool good = ranks_same(world, "whet's table of settings", arena_format(&arena, "%zu", count), error);
    if (good) {
        comm_broadcast(world, first, count * sizeof *first, 0);
        for (size_t i = 0; i < count && good; i++)
            good = first[i] == own[i] || error_set(error, "%s differs from that of rank 0", settings_table[i].key);
        good = comm_agree(world, good, error);
    }
    arena_close(&arena);
    return good;
}

// A GGUF file has its tokenizer with the weights.
static bool same_tokenizer(Comm *world, const LoadedModel *model, Error *error) {
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json"};
    Arena arena = {0};
    StrBuf digests = {0};
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        const char *path = arena_format(&arena, "%s/%s", model->tokenizer_path, files[i]);
        char digest[DIGEST_HEX] = "";
        if (file_exists(path)) good = digest_file(digest, path, error);
        strbuf_format(&digests, "%s ", digest);
    }
    good = comm_agree(world, good, error) && ranks_same(world, "the model's tokenizer", digests.text, error);
    strbuf_close(&digests);
    arena_close(&arena);
    return good;
}

bool ranks_same_model(Comm *world, const LoadedModel *model, Error *error) {
    json_t *shape = architecture_to_json(model->architecture);
    for (int i = 0; i < model->stop_count; i++) {
        char key[32];
        snprintf(key, sizeof key, "stop %d", i);
        json_object_set_new(shape, key, json_integer(model->stop_ids[i]));
    }
    char *text = json_dumps(shape, JSON_SORT_KEYS);
    bool good = ranks_same(world, "the model's configuration", text, error) && same_tokenizer(world, model, error) &&
                ranks_same(world, "the model's chat template", model->chat_text ? model->chat_text : "", error);
    free(text);
    json_decref(shape);
    return good;
}
