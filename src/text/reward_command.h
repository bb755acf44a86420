// A reward that a program of the user's gives: started once, a JSON object a line in, one out, in any order.
//
//   in   {"id": 17, "prompt": …, "messages": […], "response": …, "ground_truth": … or null, "step": 3, further fields of the row}
//   out  {"id": 17, "reward": 0.5}, or {"id": 17, "rewards": {"correct": 1, "short": 0.25}}: components, whose sum counts unless
//        there is a "reward" too. null for either, or for a component: the answer could not be scored.
#pragma once
#include "base/arena.h"
#include "text/reward.h"

#include <jansson.h>

typedef struct RewardCommand RewardCommand;

// What a batch was given. Arrays are the arena's.
typedef struct RewardScores {
    float *reward;                            // [count] NaN: could not be scored
    int component_count;                      // 0: "reward" alone
    const char *names[REWARD_MAX_COMPONENTS]; // ascending
    float *component[REWARD_MAX_COMPONENTS];  // [count]
} RewardScores;

// Starts the program. options must outlive it. log_path: the file that its standard error goes to, whose last lines an error cites.
bool reward_command_open(RewardCommand **command, const RewardOptions *options, const char *log_path, Error *error);
void reward_command_close(RewardCommand *command); // accepts NULL; ends the program and what it has started

// Scores requests[count] (objects without "id", which is put in). Refuses, citing line and log: an answer that is late, missing, twice, of
// another id, no JSON, without a reward, not finite, with other components than before; and a program that ended. It cannot be
// used after that.
bool reward_command_score(RewardCommand *command, RewardScores *scores, json_t *const *requests, int64_t count,
                          Arena *arena, Error *error);
