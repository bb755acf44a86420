// `whet pull` of a model: from the Hugging Face hub, or a server that speaks its protocol (HF_ENDPOINT), into the cache that the
// hub's clients share (model/hub_cache.h).
#pragma once
#include "model/hub_name.h"
#include "run/hub_list.h"

typedef struct HubPullOptions {
    HubName name; // revision NULL: main
    HubChoice choice;
} HubPullOptions;

// *path: what the MODEL operand ORG/NAME stands for from now on: the snapshot's folder, or the file when one alone was fetched.
//
// GET {endpoint}/api/models/ORG/NAME/revision/R lists the files, HEAD {endpoint}/ORG/NAME/resolve/COMMIT/FILE says digest and
// size of each, GET of the same fetches it. What is in the snapshot already is only checked against its digest. refs/R is written
// last, so that until then the revision stands for what it stood for before. When R is a commit (or HF_HUB_OFFLINE is set) and the
// snapshot has what is wanted, no request is made.
bool hub_pull(const char **path, const HubPullOptions *options, Arena *arena, Error *error);
