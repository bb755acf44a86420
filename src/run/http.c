#include "run/http.h"

#include "base/file.h"
#include "base/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_REDIRECTS = 10,
    MOST_FAILURES = 5,   // one after the other, without a byte
    MOST_ATTEMPTS = 500, // in all
    MOST_WAIT = 300,     // seconds that a server may ask us to wait
    MOST_UNKNOWN = 256 << 20,
    MOST_ERROR_TEXT = 1 << 20, // of an answer that is not looked at
    SLOWEST = 64,              // bytes/s
};

// Where an answer's content goes.
typedef struct Body {
    CURL *curl;
    StrBuf *text; // NULL: into the file
    size_t most;
    int file;
    int64_t at, size; // bytes that are there, bytes that must be (-1: not known)
    size_t passed_over;
    bool begun, refused; // refused: error says why; not tried again
    bool peeked;         // only the headers are wanted: what follows them is not taken
    const char *label;
    Progress progress;
    Error *error;
} Body;

typedef enum Kind { KIND_HEAD, KIND_PEEK, KIND_TEXT, KIND_FILE } Kind; // peek: GET that stops before the content

const char *http_bytes(int64_t bytes, Arena *arena) {
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    if (bytes < 1000) return arena_format(arena, "%" PRId64 " bytes", bytes);
    double value = (double)bytes / 1000;
    int unit = 0;
    for (; value >= 999.95 && unit < 3; unit++) value /= 1000;
    return arena_format(arena, "%.1f %s", value, units[unit]);
}

// --- addresses

// "scheme://host:port" of the URL and its host, in the arena; false for what is no http(s) URL.
static bool split(const char **origin, const char **host, const char *url, Arena *arena) {
    CURLU *parts = curl_url();
    char *scheme = NULL, *name = NULL, *port = NULL;
    OBTAINED(parts, "memory for a URL");
    bool good = !curl_url_set(parts, CURLUPART_URL, url, 0) && !curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) &&
                !curl_url_get(parts, CURLUPART_HOST, &name, 0) &&
                !curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
                (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
    if (good) {
        for (char *c = name; *c; c++)
            if (*c >= 'A' && *c <= 'Z') *c += 'a' - 'A';
        *origin = arena_format(arena, "%s://%s:%s", scheme, name, port);
        *host = arena_string(arena, name);
    }
    curl_free(scheme);
    curl_free(name);
    curl_free(port);
    curl_url_cleanup(parts);
    return good;
}

static bool is_local_name(const char *host) {
    return !strcmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (!strncmp(host, "127.", 4) && strspn(host, "0123456789.") == strlen(host));
}

bool http_is_local(const char *url) {
    Arena arena = {0};
    const char *origin, *host;
    bool local = split(&origin, &host, url, &arena) && is_local_name(host);
    arena_close(&arena);
    return local;
}

static bool is_secure(const char *url) {
    return !strncasecmp(url, "https:", 6);
}

static bool is_origin(const Http *http, const char *url) {
    Arena arena = {0};
    const char *origin, *host;
    bool same = split(&origin, &host, url, &arena) && !strcmp(origin, http->origin);
    arena_close(&arena);
    return same;
}

bool http_open(Http *http, const HttpOptions *options, Error *error) {
    *http = (Http){.stall_seconds = options->stall_seconds};
    const char *host;
    if (!split(&http->origin, &host, options->origin, &http->arena))
        return error_set(error, "'%.200s' is not the address of a server; expected https://HOST[/PATH]",
                         options->origin);
    if (options->token) {
        for (const char *c = options->token; *c; c++)
            if (*c <= ' ' || *c >= 0x7f) return error_set(error, "the token holds a blank or a control character");
        http->token = arena_string(&http->arena, options->token);
        http->may_send_token = is_secure(http->origin) || is_local_name(host);
        if (!http->may_send_token) log_warn("%s is not https: the token is not sent", http->origin);
    }
    http->curl = curl_easy_init();
    OBTAINED(http->curl, "memory for a connection");
    return true;
}

void http_close(Http *http) {
    if (http->curl) curl_easy_cleanup(http->curl);
    arena_close(&http->arena);
    *http = (Http){0};
}

// --- answers

static long status_of(CURL *curl) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static const char *header(CURL *curl, const char *name) {
    struct curl_header *found;
    return curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &found) ? NULL : found->value;
}

static void copy(char *out, size_t size, const char *text) {
    if (text && strlen(text) < size) snprintf(out, size, "%s", text);
}

static int64_t read_size(const char *text) {
    char *end;
    if (!text || *text < '0' || *text > '9') return -1;
    errno = 0;
    long long size = strtoll(text, &end, 10);
    return *end || errno ? -1 : size;
}

static void read_etag(HttpReply *reply, const char *text) {
    if (!text) return;
    if (!strncmp(text, "W/", 2)) text += 2;
    size_t length = strlen(text);
    bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    if (length < sizeof reply->etag)
        snprintf(reply->etag, sizeof reply->etag, "%.*s", (int)(quoted ? length - 2 : length), text + quoted);
}

// What is said of the linked file counts more than the answer's own tag and length, which may be those of a redirect.
static void read_headers(HttpReply *reply, bool *linked_said, CURL *curl, bool redirect) {
    const char *linked = header(curl, "X-Linked-Etag"), *size = header(curl, "X-Linked-Size");
    if (linked || !*linked_said) read_etag(reply, linked ? linked : header(curl, "ETag"));
    *linked_said = *linked_said || linked;
    if (size || (!redirect && reply->size < 0)) reply->size = read_size(size ? size : header(curl, "Content-Length"));
    copy(reply->commit, sizeof reply->commit, header(curl, "X-Repo-Commit"));
    copy(reply->error_code, sizeof reply->error_code, header(curl, "X-Error-Code"));
}

// --- content

static bool refuse_body(Body *body) {
    body->refused = true;
    return false;
}

static bool begin_file(Body *body) {
    int64_t length = read_size(header(body->curl, "Content-Length"));
    if (status_of(body->curl) == 206) {
        const char *range = header(body->curl, "Content-Range");
        int64_t first = -1, last = -1, total = -1;
        int read = range ? sscanf(range, "bytes %" SCNd64 "-%" SCNd64 "/%" SCNd64, &first, &last, &total) : 0;
        if (read < 2 || first != body->at || (total >= 0 && total != body->size))
            return refuse_body(body) ||
                   error_set(body->error,
                             "%s: asked for the bytes from %" PRId64 " of %" PRId64 ", the server sends '%.100s'",
                             body->label, body->at, body->size, range ? range : "");
    } else {
        if (body->at) log_info("  %s: the server cannot go on where it stopped: again from the start", body->label);
        if (ftruncate(body->file, 0))
            return refuse_body(body) || error_set(body->error, "%s: %s", body->label, strerror(errno));
        body->at = 0;
    }
    if (length >= 0 && body->size >= 0 && body->at + length != body->size)
        return refuse_body(body) ||
               error_set(body->error, "%s: the server announces %" PRId64 " bytes, expected %" PRId64, body->label,
                         body->at + length, body->size);
    return true;
}

static bool write_file(Body *body, const char *data, size_t size) {
    int64_t most = body->size >= 0 ? body->size : MOST_UNKNOWN;
    if ((int64_t)size > most - body->at)
        return refuse_body(body) ||
               error_set(body->error, "%s: the server sends more than %" PRId64 " bytes", body->label, most);
    while (size) {
        ssize_t written = pwrite(body->file, data, size, body->at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return refuse_body(body) || error_set(body->error,
                                                  "%s: cannot write: %s; %" PRId64
                                                  " bytes of it are kept, the same command goes on from there",
                                                  body->label, strerror(errno), body->at);
        data += written;
        size -= (size_t)written;
        body->at += written;
    }
    progress_update(&body->progress, body->at);
    return true;
}

static bool take(Body *body, const char *data, size_t size) {
    if (status_of(body->curl) / 100 != 2) return (body->passed_over += size) <= MOST_ERROR_TEXT;
    if (body->peeked) return false;
    if (body->text) {
        if (size > body->most - body->text->length)
            return refuse_body(body) ||
                   error_set(body->error, "the server's answer is longer than %zu bytes", body->most);
        strbuf_append(body->text, data, size);
        return true;
    }
    if (!body->begun && !begin_file(body)) return false;
    body->begun = true;
    return write_file(body, data, size);
}

static size_t on_content(char *data, size_t one, size_t count, void *body) {
    return take(body, data, one * count) ? one * count : CURL_WRITEFUNC_ERROR;
}

// --- one attempt

static const char *certificates(void) {
    const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    for (int i = 0; i < 2; i++) {
        const char *path = getenv(variables[i]);
        if (path && *path) return path;
    }
    return NULL;
}

static void set_options(const Http *http, Kind kind, Body *body, char *message) {
    CURL *curl = http->curl;
    const char *bundle = certificates();
    curl_easy_reset(curl); // connections stay
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "whet");
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, http->stall_seconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, http->stall_seconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_NOBODY, kind == KIND_HEAD ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_content);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    if (bundle) curl_easy_setopt(curl, CURLOPT_CAINFO, bundle);
}

static CURLcode send_one(const Http *http, const char *url) {
    struct curl_slist *headers = curl_slist_append(NULL, "Accept-Encoding: identity");
    StrBuf line = {0};
    if (http->may_send_token && is_origin(http, url)) {
        strbuf_format(&line, "Authorization: Bearer %s", http->token);
        headers = curl_slist_append(headers, line.text);
    }
    OBTAINED(headers, "memory for a request");
    curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(http->curl, CURLOPT_URL, url);
    curl_easy_setopt(http->curl, CURLOPT_PROXY, http_is_local(url) ? "" : NULL); // NULL: by the environment
    CURLcode code = curl_easy_perform(http->curl);
    curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    strbuf_close(&line);
    return code;
}

static const char *host_of(const char *url, Arena *arena) {
    const char *origin, *host;
    return split(&origin, &host, url, arena) ? host : "the server";
}

// Sends the request and follows redirects. *url becomes the last address asked. Sets body->refused and the error for a redirect
// that is not followed.
static CURLcode send_following(const Http *http, HttpReply *reply, const char **url, Kind kind, Body *body,
                               Arena *arena) {
    bool linked_said = false;
    for (int hop = 0;; hop++) {
        CURLcode code = send_one(http, *url);
        long status = status_of(http->curl);
        char *target = NULL;
        reply->status = status;
        reply->elsewhere = !is_origin(http, *url);
        if (code && !status) return code;
        bool redirect = status / 100 == 3 && !curl_easy_getinfo(http->curl, CURLINFO_REDIRECT_URL, &target) && target;
        if (!reply->elsewhere) read_headers(reply, &linked_said, http->curl, redirect);
        if (code || !redirect) return code;
        if (kind <= KIND_PEEK && !is_origin(http, target)) {
            reply->status = 200; // what the origin has to say is said
            return code;
        }
        const char *from = host_of(*url, arena), *to = host_of(target, arena);
        if (is_secure(*url) && !is_secure(target))
            error_set(body->error, "%s: redirects from https to %s by plain http or another protocol: not followed",
                      from, to);
        else if (hop == MOST_REDIRECTS)
            error_set(body->error, "%s: more than %d redirects", from, MOST_REDIRECTS);
        else {
            *url = arena_string(arena, target);
            continue;
        }
        return refuse_body(body) ? CURLE_OK : CURLE_WRITE_ERROR;
    }
}

// --- attempts until one succeeds

static bool may_pass(CURLcode code, long status) {
    switch (code) {
    case CURLE_OK: break;
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
    return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

static void describe(Error *error, const char *host, CURLcode code, long status, const char *message) {
    if (!code)
        error_set(error, "%s: HTTP %ld", host, status);
    else if (code == CURLE_OPERATION_TIMEDOUT)
        error_set(error, "%s: no answer or a stalled transfer", host);
    else
        error_set(error, "%s: %s%s", host, message[0] ? message : curl_easy_strerror(code),
                  code == CURLE_PEER_FAILED_VERIFICATION ? " (certificates of your own: CURL_CA_BUNDLE=FILE)" : "");
}

static void pause_for(double seconds) {
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) && errno == EINTR) continue;
}

// Waits before the next attempt, or says in the error why there is none.
static bool wait_after(Error *error, CURL *curl, int failures) {
    curl_off_t asked = 0;
    double wait = 0.5 * (double)(1 << (failures > 1 ? failures - 1 : 0));
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &asked);
    if (asked > MOST_WAIT)
        return error_set(error, "%.900s; the server asks to come back in %lld s", error->text, (long long)asked);
    if ((double)asked > wait) wait = (double)asked;
    log_info("  %s: trying again in %g s", error->text, wait);
    pause_for(wait);
    return true;
}

// Asks for what is still missing of a file. False when nothing is.
static bool set_range(Body *body) {
    char range[32];
    if (body->size < 0) body->at = 0;
    snprintf(range, sizeof range, "%" PRId64 "-", body->at);
    curl_easy_setopt(body->curl, CURLOPT_RANGE, body->at ? range : NULL);
    return body->at != body->size;
}

static bool request(Http *http, HttpReply *reply, Kind kind, Body *body, const char *url, Error *error) {
    char message[CURL_ERROR_SIZE];
    int failures = 0;
    body->curl = http->curl;
    body->error = error;
    for (int attempt = 1;; attempt++) {
        Arena arena = {0};
        const char *asked = url;
        int64_t before = body->at;
        *reply = (HttpReply){.size = -1};
        message[0] = 0;
        body->begun = false;
        body->passed_over = 0;
        if (body->text) strbuf_clear(body->text);
        set_options(http, kind, body, message);
        if (kind == KIND_FILE && !set_range(body)) return true;
        CURLcode code = send_following(http, reply, &asked, kind, body, &arena);
        if (kind == KIND_PEEK && code == CURLE_WRITE_ERROR && reply->status / 100 == 2) code = CURLE_OK;
        bool good = !code && reply->status / 100 == 2;
        bool cut = good && kind == KIND_FILE && body->size >= 0 && body->at != body->size;
        if (!body->refused && !(good && !cut)) {
            if (code == CURLE_WRITE_ERROR && reply->status / 100 != 2) code = CURLE_OK; // a long page of error
            describe(error, host_of(asked, &arena), code, reply->status, message);
            if (cut) error_set(error, "%s: the content ends early", host_of(asked, &arena));
        }
        arena_close(&arena);
        if (good && !cut) return true;
        if (body->refused) return false;
        bool useless_part = reply->status == 416 && body->at; // what is there is no beginning of the content
        if (useless_part) body->at = 0;
        failures = body->at > before ? 1 : failures + 1;
        if (!cut && !useless_part && !may_pass(code, reply->status)) return false;
        if (failures >= MOST_FAILURES || attempt >= MOST_ATTEMPTS) return false;
        if (!wait_after(error, http->curl, failures)) return false;
    }
}

bool http_head(Http *http, HttpReply *reply, const char *url, Error *error) {
    Body body = {0}, peek = {.peeked = true};
    if (request(http, reply, KIND_HEAD, &body, url, error)) return true;
    bool unknown = reply->status == 405 || reply->status == 501; // not every server knows HEAD
    return unknown && request(http, reply, KIND_PEEK, &peek, url, error);
}

bool http_text(Http *http, HttpReply *reply, StrBuf *text, size_t most, const char *url, Error *error) {
    Body body = {.text = text, .most = most};
    return request(http, reply, KIND_TEXT, &body, url, error);
}

static bool has_room(const char *path, int file, int64_t wanted, Error *error) {
    struct statvfs disk;
    if (fstatvfs(file, &disk)) return true;
    int64_t room = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    if (wanted <= room) return true;
    Arena arena = {0};
    error_set(error, "%s: %s more are needed, the disk has room for %s", path, http_bytes(wanted, &arena),
              http_bytes(room, &arena));
    arena_close(&arena);
    return false;
}

bool http_file(Http *http, HttpReply *reply, const char *path, int64_t size, const char *label, const char *url,
               Error *error) {
    Body body = {.size = size, .label = label};
    struct stat info;
    body.file =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666); // a pipe would wait for a reader
    if (body.file < 0) return error_set(error, "%s: cannot write: %s", path, strerror(errno));
    if (fstat(body.file, &info) || !S_ISREG(info.st_mode)) {
        close(body.file);
        return error_set(error, "%s: cannot write: no regular file", path);
    }
    body.at = lseek(body.file, 0, SEEK_END);
    if (size < 0 || body.at > size) body.at = 0;
    bool good = ftruncate(body.file, body.at) == 0 || error_set(error, "%s: cannot write: %s", path, strerror(errno));
    good = good && (size < 0 || has_room(path, body.file, size - body.at, error));
    if (good) {
        if (body.at) log_verbose("  %s: goes on from byte %" PRId64, label, body.at);
        progress_begin_bytes(&body.progress, label, body.at, size);
        good = request(http, reply, KIND_FILE, &body, url, error);
        progress_end(&body.progress);
    }
    if (good && fsync(body.file)) good = error_set(error, "%s: cannot write: %s", path, strerror(errno));
    close(body.file);
    return good;
}
