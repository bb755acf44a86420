// A server that speaks the Hugging Face hub's protocol, with faults, for tests/e2e_pull.sh.
//   tool_hub_server ROOT LOG [key=value …]     prints "HUB_PORT CDN_PORT", serves until it is killed
// ROOT/ORG/NAME/… are repositories. Weights (.safetensors, .gguf) count as large files: their tag is the SHA-256 and they come from
// the second port. Other paths are plain files below ROOT. LOG gets a line a request: hub|cdn METHOD PATH range=R auth=A.
//   commit=SHA        the commit of every repository           token=T         what the hub wants in Authorization
//   list=FILE         bytes in place of the list               status=N        what the list's request is answered with
//   error_code=C      X-Error-Code beside a status             fail=N,COUNT    COUNT file requests are answered with status N
//   retry_after=S     beside fail                              cut=N,COUNT     large files end after N bytes, COUNT times
//   stall=N,COUNT     … stop after N bytes                     slow=N          … come in pieces of N bytes, 20 a second
//   corrupt=COUNT     … have a wrong byte, COUNT times         no_range        Range is passed over
//   bad_range         206 from another place                   length=N        N is added to the announced length
//   more=N            N bytes too many come                    etag=E          the tag of every file
//   chunked           no Content-Length                        relative        hub redirects within itself first
//   loop              redirects without end                    downgrade=URL   large files lie at URL
//   other_commit      X-Repo-Commit is another                 tls=CERT,KEY
//   no_head           HEAD is answered with 501
#include "base/checksum.h"
#include "base/file.h"
#include "base/strbuf.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct Server {
    const char *root, *log, *token, *list, *error_code, *etag, *commit, *downgrade;
    long status, retry_after, fail_status, cut_at, stall_at, slow, length, more;
    atomic_long fails, cuts, stalls, corrupt;
    bool no_range, bad_range, chunked, relative, loop, other_commit, no_head;
    SSL_CTX *tls;
    int ports[2];
} Server;

static Server server = {.commit = "0123456789abcdef0123456789abcdef01234567"};

typedef struct Connection {
    int fd;
    SSL *ssl;
    bool cdn;
    char method[8], path[2048], range[64], token[256];
} Connection;

static bool take_one(atomic_long *count) {
    return atomic_fetch_sub(count, 1) > 0;
}

// --- bytes

static bool send_bytes(Connection *c, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t n = c->ssl ? SSL_write(c->ssl, at, (int)(size < 1 << 20 ? size : 1 << 20)) : write(c->fd, at, size);
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static void copy_header(char *out, size_t size, const char *request, const char *name) {
    const char *found = strcasestr(request, name);
    out[0] = 0;
    if (found) snprintf(out, size, "%.*s", (int)strcspn(found + strlen(name), "\r\n"), found + strlen(name));
}

static bool read_request(Connection *c) {
    char request[16384];
    size_t length = 0;
    while (length < sizeof request - 1) {
        ssize_t n = c->ssl ? SSL_read(c->ssl, request + length, (int)(sizeof request - 1 - length))
                           : read(c->fd, request + length, sizeof request - 1 - length);
        if (n <= 0) return false;
        length += (size_t)n;
        request[length] = 0;
        if (strstr(request, "\r\n\r\n")) break;
    }
    copy_header(c->range, sizeof c->range, request, "\r\nRange: bytes=");
    copy_header(c->token, sizeof c->token, request, "\r\nAuthorization: Bearer ");
    return sscanf(request, "%7s %2047s", c->method, c->path) == 2;
}

static void write_log(const Connection *c) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char line[3000];
    Error error;
    snprintf(line, sizeof line, "%s %s %s range=%s auth=%s", c->cdn ? "cdn" : "hub", c->method, c->path, c->range,
             c->token);
    pthread_mutex_lock(&mutex);
    file_append_line(server.log, line, &error);
    pthread_mutex_unlock(&mutex);
}

static void pause_ms(long milliseconds) {
    struct timespec wait = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&wait, NULL);
}

// --- answers

static void answer(Connection *c, long status, const char *headers, const char *body) {
    StrBuf text = {0};
    strbuf_format(&text, "HTTP/1.1 %ld X\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", status, strlen(body),
                  headers);
    if (strcmp(c->method, "HEAD") != 0) strbuf_puts(&text, body);
    send_bytes(c, text.text, text.length);
    strbuf_close(&text);
}

// The names below the repository's folder, as nftw finds them.
static StrBuf listing;
static size_t listing_skip;

static int list_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)walk;
    if (kind == FTW_F)
        strbuf_format(&listing, "%s{\"rfilename\": \"%s\"}", listing.length ? ", " : "", path + listing_skip);
    return 0;
}

static void answer_list(Connection *c) {
    char id[512], path[2048], headers[200] = "";
    Arena arena = {0};
    Error error;
    if (server.error_code) snprintf(headers, sizeof headers, "X-Error-Code: %s\r\n", server.error_code);
    if (sscanf(c->path, "/api/models/%511[^/]/%511[^/]/revision/", id, path) != 2) return answer(c, 404, "", "");
    if (server.status) return answer(c, server.status, headers, "{\"error\": \"no\"}");
    if (server.list) {
        char *text;
        bool good = file_read(&text, NULL, &arena, server.list, &error);
        answer(c, good ? 200 : 500, "", good ? text : error.text);
        return arena_close(&arena);
    }
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    const char *folder = arena_format(&arena, "%s/%s/%s", server.root, id, path);
    strbuf_clear(&listing);
    listing_skip = strlen(folder) + 1;
    if (!file_is_folder(folder)) {
        answer(c, 404, "X-Error-Code: RepoNotFound\r\n", "{}");
    } else {
        nftw(folder, list_entry, 16, FTW_PHYS);
        answer(c, 200, "Content-Type: application/json\r\n",
               arena_format(&arena, "{\"id\": \"%s/%s\", \"sha\": \"%s\", \"siblings\": [%s]}", id, path, server.commit,
                            listing.text ? listing.text : ""));
    }
    pthread_mutex_unlock(&mutex);
    arena_close(&arena);
}

static bool is_large(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".safetensors") || !strcmp(dot, ".gguf"));
}

static void send_chunks(Connection *c, const uint8_t *data, size_t size) {
    for (size_t at = 0; at < size; at += 1000) {
        size_t piece = size - at < 1000 ? size - at : 1000;
        char head[32];
        int length = snprintf(head, sizeof head, "%zx\r\n", piece);
        if (!send_bytes(c, head, (size_t)length) || !send_bytes(c, data + at, piece) || !send_bytes(c, "\r\n", 2))
            return;
    }
    send_bytes(c, "0\r\n\r\n", 5);
}

static void send_faulty(Connection *c, const uint8_t *data, size_t size, bool large) {
    size_t end = size;
    if (large && server.cut_at && take_one(&server.cuts) && (size_t)server.cut_at < end) end = (size_t)server.cut_at;
    if (large && server.stall_at && take_one(&server.stalls)) {
        send_bytes(c, data, (size_t)server.stall_at);
        pause_ms(30000);
        return;
    }
    size_t step = large && server.slow ? (size_t)server.slow : end + 1;
    for (size_t at = 0; at < end; at += step) {
        if (at) pause_ms(50);
        if (!send_bytes(c, data + at, end - at < step ? end - at : step)) return;
    }
    for (long i = 0; large && i < server.more; i++) send_bytes(c, "x", 1);
}

// The file's bytes from where Range asks on, with the headers that go before.
static void send_content(Connection *c, const char *path, const char *headers) {
    FileMap map;
    Error error;
    size_t first = 0;
    bool large = is_large(path);
    if (!file_map(&map, path, &error)) return answer(c, 404, "X-Error-Code: EntryNotFound\r\n", "");
    if (c->range[0] && !server.no_range) first = strtoull(c->range, NULL, 10);
    if (first && first >= map.size) {
        file_unmap(&map);
        return answer(c, 416, "", "");
    }
    StrBuf head = {0};
    strbuf_format(&head, "HTTP/1.1 %d X\r\nConnection: close\r\n%s", first ? 206 : 200, headers);
    if (first)
        strbuf_format(&head, "Content-Range: bytes %zu-%zu/%zu\r\n", first - server.bad_range, map.size - 1, map.size);
    if (server.chunked)
        strbuf_puts(&head, "Transfer-Encoding: chunked\r\n\r\n");
    else
        strbuf_format(&head, "Content-Length: %zu\r\n\r\n",
                      map.size - first + (size_t)(large ? server.length + server.more : 0));
    if (send_bytes(c, head.text, head.length) && strcmp(c->method, "HEAD") != 0) {
        Arena arena = {0};
        uint8_t *copy = (uint8_t *)arena_bytes(&arena, map.data, map.size);
        if (large && server.corrupt > 0 && take_one(&server.corrupt)) copy[map.size / 2] ^= 1;
        if (server.chunked)
            send_chunks(c, copy + first, map.size - first);
        else
            send_faulty(c, copy + first, map.size - first, large);
        arena_close(&arena);
    }
    strbuf_close(&head);
    file_unmap(&map);
}

static void redirect_to(Connection *c, int status, const char *headers, const char *location) {
    Arena arena = {0};
    answer(c, status, arena_format(&arena, "%sLocation: %s\r\n", headers, location), "moved");
    arena_close(&arena);
}

static const char *tag_of(const char *path, bool large, Arena *arena) {
    char sha256[CHECKSUM_SHA256_HEX], blob[CHECKSUM_SHA1_HEX];
    Error error;
    if (server.etag) return server.etag;
    if (large) return checksum_sha256(sha256, path, &error) ? arena_string(arena, sha256) : "";
    return checksum_git_blob(blob, path, &error) ? arena_string(arena, blob) : "";
}

static void answer_file(Connection *c, const char *id, const char *file, Arena *arena) {
    const char *path = arena_format(arena, "%s/%s/%s", server.root, id, file);
    const char *scheme = server.tls ? "https" : "http";
    struct stat info;
    bool large = is_large(file), cached = !strncmp(c->path, "/api/resolve-cache/", 19);
    if (take_one(&server.fails))
        return answer(c, server.fail_status,
                      server.retry_after >= 0 ? arena_format(arena, "Retry-After: %ld\r\n", server.retry_after) : "",
                      "busy");
    if (stat(path, &info)) return answer(c, 404, "X-Error-Code: EntryNotFound\r\n", "");
    const char *commit = server.other_commit ? "ffffffffffffffffffffffffffffffffffffffff" : server.commit;
    const char *said = arena_format(arena, "X-Repo-Commit: %s\r\n", commit), *tag = tag_of(path, large, arena);
    if (server.loop) return redirect_to(c, 302, said, c->path);
    if (large) {
        said = arena_format(arena, "%sX-Linked-Etag: \"%s\"\r\nX-Linked-Size: %lld\r\nETag: \"of the redirect\"\r\n",
                            said, tag, (long long)info.st_size);
        return redirect_to(c, 302, said,
                           server.downgrade
                               ? server.downgrade
                               : arena_format(arena, "%s://127.0.0.1:%d/%s/%s", scheme, server.ports[1], id, file));
    }
    if (server.relative && !cached)
        return redirect_to(c, 307, said, arena_format(arena, "/api/resolve-cache/models/%s/%s/%s", id, commit, file));
    send_content(c, path, arena_format(arena, "%sETag: W/\"%s\"\r\n", said, tag));
}

static void serve(Connection *c) {
    Arena arena = {0};
    char org[256], name[256], commit[64];
    int used = 0;
    write_log(c);
    if (strstr(c->path, ".."))
        answer(c, 400, "", "");
    else if (server.no_head && !strcmp(c->method, "HEAD"))
        answer(c, 501, "", "");
    else if (!c->cdn && server.token && strcmp(server.token, c->token) != 0)
        answer(c, 401, "", "{}");
    else if (c->cdn)
        send_content(c, arena_format(&arena, "%s%s", server.root, c->path), "ETag: \"of the cdn\"\r\n");
    else if (!strncmp(c->path, "/api/models/", 12))
        answer_list(c);
    else if (sscanf(c->path, "/api/resolve-cache/models/%255[^/]/%255[^/]/%63[^/]/%n", org, name, commit, &used) == 3 &&
             used)
        answer_file(c, arena_format(&arena, "%s/%s", org, name), c->path + used, &arena);
    else if (sscanf(c->path, "/%255[^/]/%255[^/]/resolve/%63[^/]/%n", org, name, commit, &used) == 3 && used)
        answer_file(c, arena_format(&arena, "%s/%s", org, name), c->path + used, &arena);
    else
        send_content(c, arena_format(&arena, "%s%s", server.root, c->path), "");
    arena_close(&arena);
}

static void *run_connection(void *argument) {
    Connection *c = argument;
    bool good = true;
    if (server.tls) {
        c->ssl = SSL_new(server.tls);
        SSL_set_fd(c->ssl, c->fd);
        good = SSL_accept(c->ssl) == 1;
    }
    if (good && read_request(c)) serve(c);
    if (c->ssl) {
        if (good) SSL_shutdown(c->ssl);
        SSL_free(c->ssl);
    }
    shutdown(c->fd, SHUT_WR);
    close(c->fd);
    free(c);
    return NULL;
}

// --- start

static int open_port(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 64) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        exit(1);
    *port = ntohs(address.sin_port);
    return fd;
}

typedef struct Port {
    int fd;
    bool cdn;
} Port;

static void *accept_all(void *argument) {
    Port *port = argument;
    for (;;) {
        pthread_t thread;
        Connection *c = calloc(1, sizeof *c);
        c->fd = accept(port->fd, NULL, NULL);
        c->cdn = port->cdn;
        if (c->fd < 0 || pthread_create(&thread, NULL, run_connection, c)) exit(1);
        pthread_detach(thread);
    }
}

static void set_counted(long *value, atomic_long *count, const char *text) {
    char *end;
    *value = strtol(text, &end, 10);
    *count = *end == ',' ? strtol(end + 1, NULL, 10) : 1000000;
}

static void open_tls(const char *files) {
    char certificate[1024];
    snprintf(certificate, sizeof certificate, "%.*s", (int)strcspn(files, ","), files);
    server.tls = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate_chain_file(server.tls, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(server.tls, files + strlen(certificate) + 1, SSL_FILETYPE_PEM) != 1)
        exit(1);
}

static void set(const char *key, const char *value) {
    struct {
        const char *key, **text;
    } texts[] = {{"token", &server.token}, {"list", &server.list},     {"error_code", &server.error_code},
                 {"etag", &server.etag},   {"commit", &server.commit}, {"downgrade", &server.downgrade}};
    struct {
        const char *key;
        long *number;
    } numbers[] = {{"status", &server.status},
                   {"retry_after", &server.retry_after},
                   {"slow", &server.slow},
                   {"length", &server.length},
                   {"more", &server.more}};
    struct {
        const char *key;
        bool *on;
    } switches[] = {{"no_range", &server.no_range}, {"bad_range", &server.bad_range},
                    {"chunked", &server.chunked},   {"relative", &server.relative},
                    {"loop", &server.loop},         {"other_commit", &server.other_commit},
                    {"no_head", &server.no_head}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key)) *texts[i].text = value;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key)) *numbers[i].number = strtol(value, NULL, 10);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (!strcmp(key, switches[i].key)) *switches[i].on = true;
    if (!strcmp(key, "fail")) set_counted(&server.fail_status, &server.fails, value);
    if (!strcmp(key, "cut")) set_counted(&server.cut_at, &server.cuts, value);
    if (!strcmp(key, "stall")) set_counted(&server.stall_at, &server.stalls, value);
    if (!strcmp(key, "corrupt")) server.corrupt = strtol(value, NULL, 10);
    if (!strcmp(key, "tls")) open_tls(value);
}

int main(int argc, char **argv) {
    static Port hub, cdn = {.cdn = true};
    pthread_t thread;
    if (argc < 3) return 2;
    signal(SIGPIPE, SIG_IGN);
    server.root = argv[1];
    server.log = argv[2];
    server.retry_after = -1;
    for (int i = 3; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (equals) *equals = 0;
        set(argv[i], equals ? equals + 1 : "");
    }
    hub.fd = open_port(&server.ports[0]);
    cdn.fd = open_port(&server.ports[1]);
    printf("%d %d\n", server.ports[0], server.ports[1]);
    fflush(stdout);
    if (pthread_create(&thread, NULL, accept_all, &cdn)) return 1;
    accept_all(&hub);
}
