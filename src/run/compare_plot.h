// A comparison's plots, by cairo: curves (training reward with its moving average, held-out accuracy) and memory (what was alive
// at the peak of an update), each as SVG and as PNG.
#pragma once
#include "base/error.h"

#include <jansson.h>

// Writes curves.svg, curves.png, memory.svg and memory.png into the folder.
bool compare_plot_write(const json_t *summary, const char *folder, Error *error);
