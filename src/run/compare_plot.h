// A comparison's plots, by cairo: curves (training reward with its moving average, held-out accuracy) and memory (what was alive
// at the peak of an update), each as SVG and as PNG.
#pragma once
#include "base/error.h"

#include <jansson.h>

// Writes curves.svg and .png and memory.svg and .png into the folder; of a plan plan.svg and .png, its memory.
bool compare_plot_write(const json_t *summary, const char *folder, Error *error);
