#include "run/report_page.h"

// The Makefile tells where the files are.
#define EMBED(name, file)                                                                                              \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n" #name "_end:\n.popsection\n");                  \
    extern const char name[], name##_end[]

EMBED(report_page_top_bytes, REPORT_PAGE_TOP);
EMBED(report_page_bottom_bytes, REPORT_PAGE_BOTTOM);

const char *report_page_top(size_t *size) {
    *size = (size_t)(report_page_top_bytes_end - report_page_top_bytes);
    return report_page_top_bytes;
}

const char *report_page_bottom(size_t *size) {
    *size = (size_t)(report_page_bottom_bytes_end - report_page_bottom_bytes);
    return report_page_bottom_bytes;
}
