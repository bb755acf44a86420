#include "model/hub_name.h"

#include <string.h>

enum { MOST_ID = 96, MOST_PART = 255, MOST_PATH = 1024 };

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Letters, digits, "_", and "-" and "." inside; neither "--" nor "..".
static bool is_id_part(const char *part, size_t length) {
    if (!length || !is_word(part[0]) || !is_word(part[length - 1])) return false;
    for (size_t i = 1; i < length; i++) {
        bool joint = part[i] == '-' || part[i] == '.';
        if (!joint && !is_word(part[i])) return false;
        if (joint && part[i] == part[i - 1]) return false;
    }
    return true;
}

bool hub_name_parse(HubName *name, const char *text, Arena *arena) {
    *name = (HubName){0};
    size_t org = strcspn(text, "/");
    if (text[org] != '/') return false;
    const char *repository = text + org + 1, *rest = repository + strcspn(repository, "/@");
    if (!is_id_part(text, org) || !is_id_part(repository, (size_t)(rest - repository))) return false;
    if (rest - text > MOST_ID) return false;
    name->id = arena_bytes(arena, text, (size_t)(rest - text));
    if (*rest == '@') {
        size_t length = strcspn(++rest, "/");
        name->revision = arena_bytes(arena, rest, length);
        rest += length;
        if (!hub_name_is_inside(name->revision)) return false;
    }
    if (*rest == '/') name->file = arena_string(arena, rest + 1);
    return !name->file || hub_name_is_inside(name->file);
}

static bool is_plain_part(const char *part, size_t length) {
    if (!length || length > MOST_PART) return false;
    if (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.'))) return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)part[i] < ' ' || part[i] == 0x7f || part[i] == '\\') return false;
    return true;
}

bool hub_name_is_inside(const char *path) {
    if (strlen(path) > MOST_PATH) return false;
    for (;;) {
        size_t length = strcspn(path, "/");
        if (!is_plain_part(path, length)) return false;
        if (!path[length]) return true;
        path += length + 1;
    }
}

bool hub_name_is_hex(const char *text, size_t digits) {
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

bool hub_name_is_commit(const char *text) {
    return hub_name_is_hex(text, 40);
}

const char *hub_name_folder(const char *id, Arena *arena) {
    size_t org = strcspn(id, "/");
    return arena_format(arena, "models--%.*s--%s", (int)org, id, id + org + 1);
}
