#include "model/precision.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

bool precision_parse_output(DType *output, const char *key, const char *text, DType compute, Error *error) {
    static const struct {
        const char *name;
        DType dtype;
    } names[] = {{"float32", DTYPE_F32}, {"fp32", DTYPE_F32},    {"bfloat16", DTYPE_BF16},
                 {"bf16", DTYPE_BF16},   {"float16", DTYPE_F16}, {"fp16", DTYPE_F16}};
    if (!text) {
        *output = DTYPE_F32;
        return true;
    }
    const char *first = text;
    while (isspace((unsigned char)*first)) first++;
    size_t length = strlen(first);
    while (length && isspace((unsigned char)first[length - 1])) length--;
    if (length == strlen("param") && !strncasecmp(first, "param", length)) {
        *output = compute;
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (length != strlen(names[i].name) || strncasecmp(first, names[i].name, length)) continue;
        *output = names[i].dtype;
        return true;
    }
    return error_set(error, "%s: '%s' is none of float32 (fp32), bfloat16 (bf16), float16 (fp16), param", key, text);
}

bool precision_parse_compute(DType *compute, const char *key, const char *text, Error *error) {
    if (!text) text = "null";
    if (!strcmp(text, "float32"))
        *compute = DTYPE_F32;
    else if (!strcmp(text, "bfloat16"))
        *compute = DTYPE_BF16;
    else if (!strcmp(text, "float16"))
        *compute = DTYPE_F16;
    else
        return error_set(error, "%s: '%s' is none of float32, bfloat16, float16", key, text);
    return true;
}
