# whet: one plain Makefile. `make`, `make test`, `make fixtures FIXTURES=DIR`, `make layers banned format-check`.
# BUILD=DIR builds elsewhere; CC=clang and SANITIZE=address,undefined are honoured; `make WERROR=` lets a compiler that
# warns of more than those the project is built with go on; VERBOSE=1 shows the whole commands. MPI=mpich builds for MPICH
# (pkg-config name) instead of Open MPI, MPI=none for one rank only; each in a BUILD of its own.
CC = gcc
BUILD = build
ROOMS = base device ops comm text model rollout train config run
PACKAGES = libfyaml jansson libpcre2-8 libutf8proc libxxhash libcrypto libcurl gmp libedit libprotobuf-c cairo
TEST_PACKAGES = cmocka mpfr libssl
MPI = ompi-c

CFLAGS = -O2 -g
WERROR = -Werror
WARNINGS = -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
# -ffp-contract=off: fused multiply-adds are written, never left to the compiler (docs/numbers.md).
ALL_CFLAGS = -std=gnu17 -D_GNU_SOURCE $(WARNINGS) -ffp-contract=off -fno-math-errno -pthread -Isrc -I$(BUILD) $(PACKAGE_CFLAGS) $(CFLAGS) $(SANITIZE_FLAGS)
KERNEL_LEVEL = -O3
ifdef SANITIZE
SANITIZE_FLAGS = -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
ifneq ($(findstring fuzzer,$(SANITIZE)),)
# No reader of files calls kernels, and instrumented ones take clang minutes.
$(BUILD)/ops/kernels_%.o: override SANITIZE_FLAGS =
else
KERNEL_LEVEL = -O1
# A processor that has fused multiply-adds spares the scalar kernels and the tests' own sums a call of fmaf for each.
FMA_FLAG := $(if $(shell grep -owm 1 fma /proc/cpuinfo),-mfma)
SANITIZE_FLAGS += $(FMA_FLAG)
# Sixteen lanes inlined and instrumented everywhere take gcc minutes; as calls the same lines are checked.
$(BUILD)/ops/kernels_scalar.o: override CFLAGS += -fno-inline
endif
endif

ifneq ($(MPI),none)
MPI_PACKAGE = $(MPI)
$(BUILD)/comm/comm_mpi.o: override CFLAGS += -DWHET_MPI $(shell pkg-config --cflags-only-I $(MPI) 2>/dev/null)
endif

MISSING := $(shell for p in $(PACKAGES) $(MPI_PACKAGE); do pkg-config --exists $$p 2>/dev/null || printf '%s ' $$p; done)
ifneq ($(MISSING),)
ifeq ($(filter clean layers banned format format-check,$(MAKECMDGOALS)),)
$(error libraries missing: $(MISSING)- run scripts/setup, which installs them or names their packages)
endif
endif
# Reports embed Chart.js, which has no pkg-config file.
CHART_JS := $(firstword $(wildcard /usr/share/javascript/chart.js/chart.min.js /usr/share/nodejs/chart.js/dist/chart.min.js))
ifeq ($(CHART_JS)$(filter clean layers banned format format-check,$(MAKECMDGOALS)),)
$(error chart.min.js is missing (libjs-chart.js) - run scripts/setup, which installs it or names its package)
endif
PACKAGE_CFLAGS := $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
# Arb (libflint-arb) has no pkg-config file.
PACKAGE_LIBS := -lflint-arb -lflint $(shell pkg-config --libs $(PACKAGES) $(MPI_PACKAGE) 2>/dev/null)
TEST_CFLAGS := $(shell pkg-config --cflags $(TEST_PACKAGES) 2>/dev/null)
TEST_LIBS := $(shell pkg-config --libs $(TEST_PACKAGES) 2>/dev/null)

# Protocol buffers: C made by protoc-c.
PROTOS := $(patsubst src/%.proto,$(BUILD)/%.pb-c.c,$(foreach room,$(ROOMS),$(wildcard src/$(room)/*.proto)))
SOURCES := $(foreach room,$(ROOMS),$(wildcard src/$(room)/*.c))
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/%.o) $(PROTOS:.c=.o)
LIBRARY_OBJECTS := $(filter-out $(BUILD)/run/main.o,$(OBJECTS))
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c tests/tool_*.c))
HELPERS := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/support/*.c))
FUZZ_OBJECTS := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/fuzz/*.c)) # linked by make fuzz alone
FIXTURE_OBJECTS := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/fixtures/*.c))

all: $(BUILD)/whet

ifndef VERBOSE
.SILENT:
endif

# One kernel body, built once per instruction set and chosen at run time (src/ops/kernels.h).
AVX2_FLAGS = -mavx2 -mfma -mf16c
AVX512_FLAGS = $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl
$(BUILD)/ops/kernels_avx2.o: override CFLAGS += $(KERNEL_LEVEL) $(AVX2_FLAGS)
$(BUILD)/ops/kernels_avx512.o: override CFLAGS += $(KERNEL_LEVEL) $(AVX512_FLAGS)
$(BUILD)/tests/support/simd_avx2.o: override CFLAGS += $(AVX2_FLAGS)
$(BUILD)/tests/support/simd_avx512.o: override CFLAGS += $(AVX512_FLAGS)
$(BUILD)/model/dequantize.o: override CFLAGS += $(KERNEL_LEVEL)

$(BUILD)/%.pb-c.c: src/%.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=src --c_out=$(BUILD) $<
$(PROTOS:.c=.o): %.o: %.c
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/run/tensorboard.o $(BUILD)/tests/test_tensorboard.o: | $(PROTOS)

# The frame of a report: the page's own files, and a charting library between them.
PAGE_SCRIPTS = $(addprefix share/report/,$(PAGE_PARTS:=.js))
PAGE_PARTS = core charts curves resources tokens rollouts validation tables comparison main
$(BUILD)/run/report_top.html: share/report/head.html share/report/style.css share/report/body.html
	@mkdir -p $(@D)
	cat $^ >$@
$(BUILD)/run/report_bottom.html: share/report/script.html $(CHART_JS) share/report/own.html $(PAGE_SCRIPTS) share/report/end.html
	@mkdir -p $(@D)
	cat $^ >$@
$(BUILD)/run/report_page.o: $(BUILD)/run/report_top.html $(BUILD)/run/report_bottom.html
$(BUILD)/run/report_page.o: override CFLAGS += -DREPORT_PAGE_TOP='"$(BUILD)/run/report_top.html"' -DREPORT_PAGE_BOTTOM='"$(BUILD)/run/report_bottom.html"'

$(BUILD)/%.o: src/%.c Makefile
	@mkdir -p $(@D)
	@echo "  $(CC) $<"
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	@echo "  $(CC) $<"
	$(CC) $(ALL_CFLAGS) $(TEST_CFLAGS) -Itests -MMD -MP -c $< -o $@

$(BUILD)/libwhet.a: $(LIBRARY_OBJECTS)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/whet: $(BUILD)/run/main.o $(BUILD)/libwhet.a
	@echo "  link $@"
	$(CC) $(SANITIZE_FLAGS) -pthread -o $@ $^ $(PACKAGE_LIBS) -lm

$(TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(HELPERS) $(BUILD)/libwhet.a
	@echo "  link $@"
	$(CC) $(SANITIZE_FLAGS) -pthread -o $@ $^ $(TEST_LIBS) $(PACKAGE_LIBS) -lm

$(BUILD)/fixtures: $(FIXTURE_OBJECTS) $(HELPERS) $(BUILD)/libwhet.a
	@echo "  link $@"
	$(CC) $(SANITIZE_FLAGS) -pthread -o $@ $^ $(PACKAGE_LIBS) -lm

# Runs every unit test, the fixtures kept in tests/data and the end-to-end scripts; closes with "N passed, N failed, N skipped".
test: tests
	@BUILD=$(BUILD) sh tests/run.sh
tests: all $(TESTS) $(BUILD)/fixtures $(FUZZ_OBJECTS)
# The unit tests alone; every source compiled, nothing linked.
unit-tests: $(filter $(BUILD)/tests/test_%,$(TESTS))
objects: $(OBJECTS) $(TESTS:=.o) $(HELPERS) $(FIXTURE_OBJECTS) $(FUZZ_OBJECTS)

# Runs every kind of case found in FIXTURES (laid out as tests/data) against the built code.
FIXTURES = tests/data
fixtures: $(BUILD)/fixtures
	$(BUILD)/fixtures $(FIXTURES)

# Largest errors of exp, log, sine and cosine over all floats (minutes).
ulp: $(BUILD)/tests/test_vmath
	$(BUILD)/tests/test_vmath all

# Speed, as a share of this machine's measured peak; not part of the tests. BENCH="words" is handed on:
# make bench-step BENCH="MODEL bfloat16"
bench-step: $(BUILD)/tests/bench_step
	$(BUILD)/tests/bench_step $(BENCH)
$(BUILD)/tests/bench_step: %: %.o $(HELPERS) $(BUILD)/libwhet.a
	$(CC) $(SANITIZE_FLAGS) -pthread -o $@ $^ $(TEST_LIBS) $(PACKAGE_LIBS) -lm

# Fuzzing: every tests/fuzz/fuzz_*.c that has an LLVMFuzzerTestOneInput runs SECONDS long under the address and
# undefined-behaviour sanitizers (clang's libFuzzer). ONLY=tokenizer fuzzes a part; corpora stay in build-fuzz/corpus; with a SEED and none of
# them a run repeats the same inputs.
SECONDS = 60
SEED = 0
FUZZ_CC = clang
FUZZ_BUILD = build-fuzz
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(shell grep -l LLVMFuzzerTestOneInput tests/fuzz/*.c))
FUZZ_SUPPORT = $(BUILD)/tests/fuzz/fuzz_files.o $(BUILD)/tests/fuzz/fuzz_model.o
FUZZ_WRAPPED = file_map file_map_leave file_unmap file_read file_read_stream file_stamp file_exists file_is_folder file_same realpath
FUZZ_GOALS = fuzz-targets
fuzz: fuzz-build
	@BUILD=$(FUZZ_BUILD) FUZZ_SECONDS=$(SECONDS) FUZZ_SEED=$(SEED) sh tests/fuzz/run.sh
fuzz-build:
	$(MAKE) --no-print-directory CC="$(FUZZ_CC)" BUILD=$(FUZZ_BUILD) SANITIZE=fuzzer-no-link,address,undefined CFLAGS='-O1 -g1' $(FUZZ_GOALS)
fuzz-targets: $(FUZZ_TARGETS) $(BUILD)/fuzz/fuzz_seeds
$(FUZZ_TARGETS): $(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(FUZZ_SUPPORT) $(BUILD)/libwhet.a
	@mkdir -p $(@D)
	@echo "  link $@"
	$(CC) -fsanitize=fuzzer,address,undefined -pthread $(FUZZ_WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(PACKAGE_LIBS) -lm
$(BUILD)/fuzz/fuzz_seeds: $(BUILD)/tests/fuzz/fuzz_seeds.o $(HELPERS) $(BUILD)/libwhet.a
	@mkdir -p $(@D)
	$(CC) $(SANITIZE_FLAGS) -pthread -o $@ $^ $(PACKAGE_LIBS) -lm

# A room includes itself and the rooms above it in ROOMS, never below; file stems are unique.
layers:
	@sh scripts/layers $(ROOMS)

# No call that overruns a buffer, swallows a wrong number or takes host memory behind the arenas' back; no setting that is
# read and then forgotten.
banned:
	@sh scripts/check-banned
	@sh scripts/check-settings

FORMATTED = $(wildcard src/*/*.[ch] src/*/*.inc tests/*.[ch] tests/*/*.[ch])
format:
	clang-format -i $(FORMATTED)
format-check:
	clang-format --dry-run -Werror $(FORMATTED)

clean:
	rm -rf $(BUILD)

.PHONY: fuzz fuzz-build fuzz-targets ulp bench-step all test tests unit-tests objects fixtures layers banned format format-check clean
-include $(OBJECTS:.o=.d) $(TESTS:=.d) $(BUILD)/tests/bench_step.d $(FUZZ_OBJECTS:.o=.d) $(HELPERS:.o=.d) $(FIXTURE_OBJECTS:.o=.d)
