// The frame of a report: share/report/ and Chart.js as the build put them together. The data stand between top and bottom.
#pragma once
#include <stddef.h>

const char *report_page_top(size_t *size);
const char *report_page_bottom(size_t *size);
