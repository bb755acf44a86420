// Where the Hugging Face hub is and who asks, from the environment variables that its clients share; its addresses, and its
// refusals in plain words.
#pragma once
#include "run/http.h"

typedef struct HubAccess {
    const char *endpoint;     // HF_ENDPOINT, else https://huggingface.co; no "/" at the end
    const char *token;        // HF_TOKEN, HUGGING_FACE_HUB_TOKEN, the file HF_TOKEN_PATH, HF_HOME/token; NULL: none
    const char *token_source; // the name of what the token came from
    long stall_seconds;       // HF_HUB_DOWNLOAD_TIMEOUT, else 30
    bool offline;             // HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE: 1, ON, YES, TRUE
} HubAccess;

bool hub_access_read(HubAccess *access, Arena *arena, Error *error);

const char *hub_access_list_url(const HubAccess *access, const char *id, const char *revision, Arena *arena);
const char *hub_access_file_url(const HubAccess *access, const char *id, const char *commit, const char *file,
                                Arena *arena);

// Replaces the error by what a status of 401, 403, 404 or 429 means and what to do; leaves other errors. file: NULL for the
// repository itself. Always returns false.
bool hub_access_explain(const HubAccess *access, const HttpReply *reply, const char *id, const char *revision,
                        const char *file, Error *error);
