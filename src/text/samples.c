#include "text/samples.h"

const char *samples_finish_name(FinishReason reason) {
    static const char *const names[] =
        {[FINISH_STOP] = "stop", [FINISH_STOP_STRING] = "stop", [FINISH_LENGTH] = "length", [FINISH_NAN] = "nan"};
    return names[reason];
}
