// HTTP and HTTPS for `whet pull`, through libcurl: one request at a time, redirects followed, interrupted transfers resumed.
//
// The token goes to the origin (scheme, host, port) alone, and only by https or to this machine; never to where a redirect leads.
// From https no redirect leads to plain http. Proxies: curl's variables (https_proxy, no_proxy, …). Certificates:
// CURL_CA_BUNDLE or SSL_CERT_FILE, else the system's.
//
// What may pass (no connection, a cut or stalled transfer, HTTP 408, 429, 500, 502, 503, 504) is tried again: five times without
// progress, after 0.5, 1, 2, 4 s or what Retry-After asks for; each is said in a line.
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

typedef struct HttpOptions {
    const char *origin; // URL of the server that may see the token
    const char *token;  // NULL: none; never printed
    long stall_seconds; // a transfer below 64 bytes/s for so long counts as broken
} HttpOptions;

typedef struct Http {
    void *curl;
    const char *origin, *token; // the arena's; origin "scheme://host:port"
    bool may_send_token;
    long stall_seconds;
    Arena arena;
} Http;

// What the origin said, the last word counting; what servers say to which it redirects does not count.
typedef struct HttpReply {
    long status;         // 0: no answer
    bool elsewhere;      // the status is that of a server to which the origin redirects
    int64_t size;        // X-Linked-Size, else Content-Length; -1: not said
    char etag[160];      // X-Linked-Etag, else ETag, without W/ and quotes; "": not said
    char commit[64];     // X-Repo-Commit
    char error_code[64]; // X-Error-Code
} HttpReply;

// Refuses an origin that is no http(s) URL and a token with blanks or control characters.
bool http_open(Http *http, const HttpOptions *options, Error *error);
void http_close(Http *http); // accepts a zero-initialised one

// All three: false with a line that names the host when no good answer (status 2xx) came; reply then holds its status.

// The answer to HEAD (to a GET that is broken off, where HEAD is not known): of the origin, or of where it redirects to within itself.
bool http_head(Http *http, HttpReply *reply, const char *url, Error *error);
// Appends the content, at most `most` bytes.
bool http_text(Http *http, HttpReply *reply, StrBuf *text, size_t most, const char *url, Error *error);
// Completes the file at path, whose first bytes may be there already: they are kept, and if the server cannot go on from there
// it starts again. size: what the content must have, -1: not known (then nothing is kept, and 256 MiB is the limit). The file is
// synced. label names it for people.
bool http_file(Http *http, HttpReply *reply, const char *path, int64_t size, const char *label, const char *url,
               Error *error);

// Whether the URL's server is this machine: localhost, 127.…, ::1.
bool http_is_local(const char *url);
// "12.3 MB" in powers of 1000; a text of the arena.
const char *http_bytes(int64_t bytes, Arena *arena);
