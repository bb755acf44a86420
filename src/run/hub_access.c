#include "run/hub_access.h"

#include "base/cache_folder.h"
#include "base/file.h"

#include <string.h>

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_on(const char *name) {
    static const char *const words[] = {"1", "ON", "YES", "TRUE"};
    const char *value = variable(name);
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(value, words[i])) return true;
    return false;
}

// Without blanks and line ends around it; NULL when nothing is left.
static const char *trimmed(const char *text, Arena *arena) {
    static const char blanks[] = " \t\r\n";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length && strchr(blanks, text[length - 1])) length--;
    return length ? arena_bytes(arena, text, length) : NULL;
}

static bool read_token(HubAccess *access, Arena *arena, Error *error) {
    Error ignored;
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    for (int i = 0; i < 2; i++)
        if (variable(names[i])) {
            access->token = trimmed(variable(names[i]), arena);
            access->token_source = names[i];
            if (access->token) return true;
        }
    const char *path = variable("HF_TOKEN_PATH");
    if (path) {
        path = cache_folder_expand(path, arena);
    } else {
        if (!cache_folder_hugging_face(&path, arena, &ignored)) return true;
        path = arena_format(arena, "%s/token", path);
    }
    char *text;
    if (!file_exists(path)) return true;
    if (!file_read(&text, NULL, arena, path, error)) return false;
    access->token = trimmed(text, arena);
    access->token_source = path;
    return true;
}

bool hub_access_read(HubAccess *access, Arena *arena, Error *error) {
    const char *endpoint = variable("HF_ENDPOINT"), *seconds = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    *access = (HubAccess){.stall_seconds = 30, .offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE")};
    size_t length = strlen(endpoint ? endpoint : "");
    while (length && endpoint[length - 1] == '/') length--;
    access->endpoint = length ? arena_bytes(arena, endpoint, length) : "https://huggingface.co";
    if (seconds) {
        char *end;
        access->stall_seconds = strtol(seconds, &end, 10);
        if (*end || access->stall_seconds < 1 || access->stall_seconds > 3600)
            return error_set(error, "HF_HUB_DOWNLOAD_TIMEOUT is '%s'; expected seconds from 1 to 3600", seconds);
    }
    return read_token(access, arena, error);
}

static void append_escaped(StrBuf *url, const char *text, const char *plain) {
    static const char digits[] = "0123456789ABCDEF";
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (word || strchr(plain, *c)) {
            strbuf_putc(url, (char)*c);
        } else {
            strbuf_putc(url, '%');
            strbuf_putc(url, digits[*c >> 4]);
            strbuf_putc(url, digits[*c & 15]);
        }
    }
}

static const char *finish(StrBuf *url, Arena *arena) {
    const char *text = arena_string(arena, url->text);
    strbuf_close(url);
    return text;
}

const char *hub_access_list_url(const HubAccess *access, const char *id, const char *revision, Arena *arena) {
    StrBuf url = {0};
    strbuf_format(&url, "%s/api/models/%s/revision/", access->endpoint, id);
    append_escaped(&url, revision, "-._~"); // a "/" of a branch is escaped too
    return finish(&url, arena);
}

const char *hub_access_file_url(const HubAccess *access, const char *id, const char *commit, const char *file,
                                Arena *arena) {
    StrBuf url = {0};
    strbuf_format(&url, "%s/%s/resolve/%s/", access->endpoint, id, commit);
    append_escaped(&url, file, "-._~/");
    return finish(&url, arena);
}

static bool explain_denied(const HubAccess *access, const HttpReply *reply, const char *id, Error *error) {
    if (!strcmp(reply->error_code, "GatedRepo"))
        return error_set(error, "%s: HTTP %ld: gated: accept its terms at %s/%s%s", id, reply->status, access->endpoint,
                         id, access->token ? " with the account of your token" : ", then set HF_TOKEN");
    if (!access->token)
        return error_set(error,
                         "%s: HTTP %ld: no such repository, or a private one: check the name, or set HF_TOKEN "
                         "(%s/settings/tokens)",
                         id, reply->status, access->endpoint);
    return error_set(error,
                     "%s: HTTP %ld: the token of %s is not accepted for it: has it expired, may it read this "
                     "repository? (%s/settings/tokens)",
                     id, reply->status, access->token_source, access->endpoint);
}

bool hub_access_explain(const HubAccess *access, const HttpReply *reply, const char *id, const char *revision,
                        const char *file, Error *error) {
    bool said = file && strstr(error->text, file);
    const char *token_hint = access->token ? "" : " (a private one needs HF_TOKEN)";
    switch (reply->elsewhere ? 0 : reply->status) {
    case 401:
    case 403: return explain_denied(access, reply, id, error);
    case 404:
        if (file) return error_set(error, "%s: HTTP 404: no file %s at revision %s", id, file, revision);
        if (!strcmp(reply->error_code, "RevisionNotFound"))
            return error_set(error, "%s: HTTP 404: no revision '%s'; see %s/%s/tree/main for its branches and tags", id,
                             revision, access->endpoint, id);
        return error_set(error, "%s: HTTP 404: no such repository%s%s%s at %s%s", id,
                         strcmp(revision, "main") ? " or no revision '" : "", strcmp(revision, "main") ? revision : "",
                         strcmp(revision, "main") ? "'" : "", access->endpoint, token_hint);
    case 429:
        return error_set(error, "%s: HTTP 429: the hub wants fewer requests: try again later%s", id,
                         access->token ? "" : ", or set HF_TOKEN, which raises the limit");
    default: return error_prefix(error, "%s: %s%s", id, file && !said ? file : "", file && !said ? ": " : "");
    }
}
