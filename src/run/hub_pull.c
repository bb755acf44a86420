#include "run/hub_pull.h"

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/log.h"
#include "model/hub_cache.h"
#include "run/fetch.h"
#include "run/hub_access.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LIST = 16 << 20 };
static const char INDEX[] = "model.safetensors.index.json";

typedef struct HubPull {
    const HubPullOptions *options;
    const char *id, *revision;
    const char *repository, *locks, *snapshot; // folders
    HubAccess access;
    Http http;
    Arena *arena;
} HubPull;

// --- what is there already

// The name of the blob that the snapshot's file links to, or NULL.
static const char *linked_blob(const char *pointer, Arena *arena) {
    char target[4096];
    ssize_t length = readlink(pointer, target, sizeof target - 1);
    if (length <= 0) return NULL;
    target[length] = 0;
    const char *slash = strrchr(target, '/'), *blob = slash ? slash + 1 : target;
    return hub_name_is_hex(blob, 64) || hub_name_is_hex(blob, 40) ? arena_string(arena, blob) : NULL;
}

// Whether the snapshot's file is there and is what its blob's name says. *there tells the one from the other.
static bool is_whole(bool *there, const char *snapshot, const char *file, Arena *arena, Error *error) {
    const char *pointer = arena_format(arena, "%s/%s", snapshot, file), *blob = linked_blob(pointer, arena);
    *there = file_exists(pointer);
    if (!*there) return error_set(error, "%s: not in the cache", file);
    return !blob || fetch_check(pointer, blob, -1, file, error); // a copy without a digest is taken as it is
}

static bool is_root_whole(const char *snapshot, Arena *arena, Error *error) {
    DIR *folder = opendir(snapshot);
    bool good = folder || error_set(error, "%s: %s", snapshot, strerror(errno)), there;
    for (struct dirent *entry; good && (entry = readdir(folder));)
        if (entry->d_type == DT_LNK) good = is_whole(&there, snapshot, entry->d_name, arena, error);
    if (folder) closedir(folder);
    return good;
}

// Whether all that is wanted lies in the cache, so far as that can be known without the hub's list.
static bool is_cached(const char **path, const HubPull *pull, const char *hub, Error *error) {
    const HubChoice *choice = &pull->options->choice;
    Arena *arena = pull->arena;
    const char *snapshot = hub_cache_snapshot(hub, pull->id, pull->revision, arena), *missing;
    bool there;
    if (!snapshot) return error_set(error, "%s: revision %s is not in the cache (%s)", pull->id, pull->revision, hub);
    *path = choice->file ? arena_format(arena, "%s/%s", snapshot, choice->file) : snapshot;
    if (choice->file) return is_whole(&there, snapshot, choice->file, arena, error);
    if (choice->glob_count)
        return error_set(error, "%s: which files --include stands for only the hub knows", pull->id);
    if ((missing = hub_cache_missing(snapshot, HUB_MODEL, arena)))
        return error_set(error, "%s: %s is not in the cache (%s)", pull->id, missing, snapshot);
    return is_root_whole(snapshot, arena, error);
}

// --- from the hub

static bool read_list(HubList *list, HubPull *pull, Error *error) {
    StrBuf text = {0};
    HttpReply reply;
    const char *url = hub_access_list_url(&pull->access, pull->id, pull->revision, pull->arena);
    bool good = http_text(&pull->http, &reply, &text, MOST_LIST, url, error) ||
                hub_access_explain(&pull->access, &reply, pull->id, pull->revision, NULL, error);
    good = good && hub_list_read(list, text.text ? text.text : "", text.length, pull->id, pull->arena, error);
    strbuf_close(&text);
    if (good && hub_name_is_commit(pull->revision) && strcmp(list->commit, pull->revision))
        return error_set(error, "%s: asked for commit %s, the hub answers with %s", pull->id, pull->revision,
                         list->commit);
    return good;
}

// Puts the link FILE → ../…/blobs/DIGEST into the snapshot, in place of what stood there.
static bool link_blob(const HubPull *pull, const char *file, const char *digest, Error *error) {
    Arena *arena = pull->arena;
    const char *pointer = arena_format(arena, "%s/%s", pull->snapshot, file);
    const char *aside = arena_format(arena, "%s.%ld.tmp", pointer, (long)getpid());
    const char *folder = arena_format(arena, "%.*s", (int)(strrchr(pointer, '/') - pointer), pointer);
    StrBuf target = {0};
    for (const char *c = file; *c; c++)
        if (*c == '/') strbuf_puts(&target, "../");
    strbuf_format(&target, "../../blobs/%s", digest);
    bool good = file_make_folders(folder, error);
    unlink(aside);
    if (good && symlink(target.text, aside))
        good = error_set(error, "%s: cannot make a link there: %s", pointer, strerror(errno));
    good = good && file_rename(aside, pointer, error);
    if (!good) unlink(aside);
    strbuf_close(&target);
    return good;
}

static bool check_head(const HubPull *pull, const HttpReply *head, const char *file, Error *error) {
    if (head->commit[0] && strcmp(head->commit, strrchr(pull->snapshot, '/') + 1))
        return error_set(error, "%s: %s: the hub sends commit %s instead of %s", pull->id, file, head->commit,
                         strrchr(pull->snapshot, '/') + 1);
    return hub_name_is_hex(head->etag, 64) || hub_name_is_hex(head->etag, 40) ||
           error_set(error, "%s: %s: the hub's tag '%.100s' is no digest (64 or 40 hexadecimal digits)", pull->id, file,
                     head->etag);
}

static bool fetch_blob(HubPull *pull, const char *file, Error *error) {
    Arena *arena = pull->arena;
    HttpReply head, reply;
    const char *url = hub_access_file_url(&pull->access, pull->id, strrchr(pull->snapshot, '/') + 1, file, arena);
    if (!http_head(&pull->http, &head, url, error))
        return hub_access_explain(&pull->access, &head, pull->id, pull->revision, file, error);
    if (!check_head(pull, &head, file, error)) return false;
    FetchFile target = {.url = url,
                        .path = arena_format(arena, "%s/blobs/%s", pull->repository, head.etag),
                        .lock = arena_format(arena, "%s/%s.lock", pull->locks, head.etag),
                        .digest = arena_string(arena, head.etag),
                        .size = head.size,
                        .label = file};
    if (!fetch_file(&pull->http, &reply, &target, error))
        return hub_access_explain(&pull->access, &reply, pull->id, pull->revision, file, error);
    return link_blob(pull, file, target.digest, error);
}

// One file of the snapshot. *new counts those that were not there.
static bool pull_file(HubPull *pull, const char *file, int *fresh, Error *error) {
    Error damage;
    bool there;
    if (is_whole(&there, pull->snapshot, file, pull->arena, &damage)) return true;
    if (there) {
        const char *pointer = arena_format(pull->arena, "%s/%s", pull->snapshot, file);
        const char *blob = linked_blob(pointer, pull->arena);
        log_warn("%s: deleted, and fetched again", damage.text);
        if (unlink(arena_format(pull->arena, "%s/blobs/%s", pull->repository, blob)) && errno != ENOENT)
            return error_set(error, "%s: cannot remove the damaged blob: %s", file, strerror(errno));
    }
    ++*fresh;
    return fetch_blob(pull, file, error);
}

static bool add_shards(HubList *chosen, HubPull *pull, const HubList *list, Error *error) {
    const char *const *shards;
    size_t count;
    const char *index = arena_format(pull->arena, "%s/%s", pull->snapshot, INDEX);
    return hub_cache_shards(&shards, &count, index, pull->arena, error) &&
           hub_list_add_shards(chosen, list, shards, count, pull->id, pull->arena, error);
}

static bool make_folders(HubPull *pull, const char *hub, const char *commit, Error *error) {
    const char *name = hub_name_folder(pull->id, pull->arena);
    pull->repository = arena_format(pull->arena, "%s/%s", hub, name);
    pull->locks = arena_format(pull->arena, "%s/.locks/%s", hub, name);
    pull->snapshot = arena_format(pull->arena, "%s/snapshots/%s", pull->repository, commit);
    return file_make_folders(arena_format(pull->arena, "%s/blobs", pull->repository), error) &&
           file_make_folders(pull->snapshot, error) && file_make_folders(pull->locks, error);
}

// Written aside under a name of our own: another process may be writing the same reference.
static bool write_ref(const HubPull *pull, const char *commit, Error *error) {
    if (hub_name_is_commit(pull->revision)) return true;
    const char *path = arena_format(pull->arena, "%s/refs/%s", pull->repository, pull->revision);
    const char *folder = arena_format(pull->arena, "%.*s", (int)(strrchr(path, '/') - path), path);
    const char *aside = arena_format(pull->arena, "%s/ref.%ld", pull->repository, (long)getpid());
    return file_make_folders(folder, error) && file_write(aside, commit, strlen(commit), error) &&
           file_rename(aside, path, error);
}

static bool pull_files(const char **path, HubPull *pull, const char *hub, Error *error) {
    HubList list, chosen;
    int fresh = 0;
    const HubChoice *choice = &pull->options->choice;
    if (!read_list(&list, pull, error) || !hub_list_choose(&chosen, &list, choice, pull->id, pull->arena, error) ||
        !make_folders(pull, hub, list.commit, error))
        return false;
    bool needs_shards = !choice->file && !choice->glob_count && hub_list_has(&chosen, INDEX);
    for (size_t i = 0; i < chosen.count; i++) {
        if (!pull_file(pull, chosen.files[i], &fresh, error)) return false;
        if (needs_shards && !strcmp(chosen.files[i], INDEX) && !add_shards(&chosen, pull, &list, error)) return false;
    }
    if (!write_ref(pull, list.commit, error)) return false;
    bool alone = chosen.count == 1 && (choice->file || !choice->glob_count);
    *path = alone ? arena_format(pull->arena, "%s/%s", pull->snapshot, chosen.files[0]) : pull->snapshot;
    if (fresh)
        log_info("%s: %zu files at commit %.12s, %d of them fetched, all checked", pull->id, chosen.count, list.commit,
                 fresh);
    else
        log_info("%s: all %zu files at commit %.12s are in the cache, and whole", pull->id, chosen.count, list.commit);
    return true;
}

bool hub_pull(const char **path, const HubPullOptions *options, Arena *arena, Error *error) {
    HubPull pull = {.options = options,
                    .id = options->name.id,
                    .revision = options->name.revision ? options->name.revision : "main",
                    .arena = arena};
    const char *hub;
    if (!cache_folder_hub(&hub, arena, error) || !hub_access_read(&pull.access, arena, error)) return false;
    bool exact = hub_name_is_commit(pull.revision);
    if (exact || pull.access.offline) {
        Error lacking;
        if (is_cached(path, &pull, hub, &lacking)) {
            log_info("%s: complete in the cache; no request was made", pull.id);
            return true;
        }
        if (pull.access.offline) return error_set(error, "HF_HUB_OFFLINE is set: %.1000s", lacking.text);
    }
    HttpOptions server = {pull.access.endpoint, pull.access.token, pull.access.stall_seconds};
    bool good = http_open(&pull.http, &server, error) && pull_files(path, &pull, hub, error);
    http_close(&pull.http);
    return good;
}
