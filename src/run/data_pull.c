#include "run/data_pull.h"

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/log.h"
#include "run/fetch.h"
#include "run/hub_access.h"

#include <string.h>

enum { MOST_DATA_FILES = 2 };

typedef struct DataFile {
    const char *name, *address; // address: below the endpoint
    int64_t size;
    const char *sha256;
} DataFile;

typedef struct DataSet {
    const char *name, *hub_name, *endpoint, *variable; // variable: the environment's word for another endpoint
    DataFile files[MOST_DATA_FILES];
} DataSet;

// GSM8K (MIT licence), the questions with their worked answers as its authors publish them.
static const DataSet sets[] = {
    {"gsm8k",
     "openai/gsm8k",
     "https://raw.githubusercontent.com/openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c",
     "WHET_GSM8K_ENDPOINT",
     {{"train.jsonl", "grade_school_math/data/train.jsonl", 4166206,
       "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465"},
      {"test.jsonl", "grade_school_math/data/test.jsonl", 749738,
       "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"}}},
};
enum { SET_COUNT = sizeof sets / sizeof *sets };

static const DataSet *find(const char *name) {
    for (int i = 0; i < SET_COUNT; i++)
        if (!strcmp(name, sets[i].name) || !strcmp(name, sets[i].hub_name)) return &sets[i];
    return NULL;
}

bool data_pull_knows(const char *name) {
    return find(name) != NULL;
}

size_t data_pull_names(const char *const **names, Arena *arena) {
    const char **list = arena_array(arena, const char *, 2 * SET_COUNT);
    for (int i = 0; i < SET_COUNT; i++) list[2 * i] = sets[i].name, list[2 * i + 1] = sets[i].hub_name;
    *names = list;
    return 2 * SET_COUNT;
}

static bool is_whole(const DataFile *file, const char *folder, Arena *arena) {
    Error ignored;
    return fetch_check(arena_format(arena, "%s/%s", folder, file->name), file->sha256, file->size, file->name,
                       &ignored);
}

static bool install(const DataFile *file, const char *folder, const char *from, Arena *arena, Error *error) {
    const char *source = arena_format(arena, "%s/%s", from, file->name);
    FileMap map;
    if (!fetch_check(source, file->sha256, file->size, source, error) || !file_map(&map, source, error)) return false;
    bool good = file_write(arena_format(arena, "%s/%s", folder, file->name), map.data, map.size, error);
    file_unmap(&map);
    return good;
}

static bool fetch(Http *http, const DataFile *file, const char *endpoint, const char *folder, Arena *arena,
                  Error *error) {
    HttpReply reply;
    FetchFile target = {.url = arena_format(arena, "%s/%s", endpoint, file->address),
                        .path = arena_format(arena, "%s/%s", folder, file->name),
                        .lock = arena_format(arena, "%s/.lock", folder),
                        .digest = file->sha256,
                        .size = file->size,
                        .label = file->name};
    return fetch_file(http, &reply, &target, error);
}

// What no hub is asked for needs no token, but the hub's word for being offline and for patience counts.
static bool open_server(Http *http, const char **endpoint, const DataSet *set, Arena *arena, Error *error) {
    HubAccess access;
    const char *given = getenv(set->variable);
    *endpoint = given && *given ? given : set->endpoint;
    if (!hub_access_read(&access, arena, error)) return false;
    if (access.offline)
        return error_set(error, "HF_HUB_OFFLINE is set and the files are not in the cache; --from DIR installs them "
                                "from a folder");
    return http_open(http, &(HttpOptions){.origin = *endpoint, .stall_seconds = access.stall_seconds}, error);
}

bool data_pull(const char **path, const char *name, const char *from, Arena *arena, Error *error) {
    const DataSet *set = find(name);
    Http http = {0};
    const char *endpoint = NULL;
    int fresh = 0;
    CHECK(set, "%s is not in the table of data sets", name);
    if (!cache_folder_data(path, set->name, arena, error) || !file_make_folders(*path, error)) return false;
    bool good = true;
    for (int i = 0; good && i < MOST_DATA_FILES; i++) {
        const DataFile *file = &set->files[i];
        if (is_whole(file, *path, arena)) continue;
        if (!from && !http.curl) good = open_server(&http, &endpoint, set, arena, error);
        good = good &&
               (from ? install(file, *path, from, arena, error) : fetch(&http, file, endpoint, *path, arena, error));
        fresh++;
    }
    http_close(&http);
    if (!good) return error_prefix(error, "%s: ", set->name);
    log_info("%s: %s", set->name, fresh ? "complete and checked" : "complete in the cache; no request was made");
    return true;
}
