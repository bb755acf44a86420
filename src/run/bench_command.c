#include "run/bench_command.h"

#include "run/bench_phases.h"

#include <stdio.h>
#include <string.h>

typedef struct Asked {
    BenchPhases phases;
    const char *precision, *shape;
    int64_t threads;
} Asked;

// Kernels and phases have their own options.
static bool check_kind(Arguments *arguments, Error *error) {
    static const char *const kernels[] = {"--shape", "--rows", "--only", "--seconds"};
    static const char *const phases[] = {"--sequences", "--prompt", "--answer", "--micro-batch", "--memory"};
    bool model = arguments->operand_count > 0;
    for (size_t i = 0; model && i < sizeof kernels / sizeof *kernels; i++)
        if (command_text(arguments, kernels[i]))
            return command_misuse(arguments) || error_set(error, "%s is for kernels, without a MODEL", kernels[i]);
    for (size_t i = 0; !model && i < sizeof phases / sizeof *phases; i++)
        if (command_text(arguments, phases[i]))
            return command_misuse(arguments) || error_set(error, "%s is for a MODEL", phases[i]);
    return true;
}

static bool read_asked(Asked *asked, Arguments *arguments, Error *error) {
    BenchPhases *p = &asked->phases;
    *asked = (Asked){.phases = {.options = {.seconds = 0.2},
                                .sequences = 64,
                                .prompt = 24,
                                .answer = 24,
                                .micro_batch = 16,
                                .memory = command_switch(arguments, "--memory")}};
    p->options.json = command_switch(arguments, "--json");
    p->options.only = command_text(arguments, "--only");
    asked->precision = command_text(arguments, "--precision");
    asked->shape = command_text(arguments, "--shape");
    return check_kind(arguments, error) && command_integer(arguments, "--threads", &asked->threads, 1, 1024, error) &&
           command_real(arguments, "--seconds", &p->options.seconds, 0.001, 3600, error) &&
           command_integer(arguments, "--rows", &p->options.rows, 1, 8192, error) &&
           command_integer(arguments, "--sequences", &p->sequences, 1, 4096, error) &&
           command_integer(arguments, "--prompt", &p->prompt, 1, 1 << 20, error) &&
           command_integer(arguments, "--answer", &p->answer, 2, 1 << 20, error) &&
           command_integer(arguments, "--micro-batch", &p->micro_batch, 1, 4096, error);
}

static void print_machine(BenchMachine *machine, const BenchOptions *options) {
    enum { MEASUREMENTS = 20 };
    double flops = bench_machine_best(machine, bench_machine_flops, MEASUREMENTS, 0);
    double bytes = bench_machine_best(machine, bench_machine_bytes, MEASUREMENTS, 0);
    int threads = team_size(machine->ops->team);
    if (options->json)
        printf("{\"isa\":\"%s\",\"threads\":%d,\"gflops\":%.1f,\"gigabytes\":%.2f}\n", machine->ops->isa, threads,
               flops * 1e-9, bytes * 1e-9);
    else
        printf("%s, %d threads: up to %.1f GFLOP/s of fused multiply-adds, %.1f GB/s read\n", machine->ops->isa,
               threads, flops * 1e-9, bytes * 1e-9);
}

static bool bench_shape(BenchMachine *machine, const Asked *asked, Arguments *arguments, Error *error) {
    static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    Architecture architecture;
    const char *shape = asked->shape ? asked->shape : "smollm2-135m";
    DType wanted = DTYPE_F32;
    if (!bench_kernels_shape(&architecture, shape, error) ||
        (asked->precision && !precision_parse_compute(&wanted, "--precision", asked->precision, error)))
        return command_misuse(arguments);
    const BenchOptions *options = &asked->phases.options;
    const bool known = bench_kernels_any(options);
    int measured = 0;
    if (known) print_machine(machine, options);
    for (size_t i = 0; known && i < sizeof dtypes / sizeof *dtypes; i++)
        if (asked->precision ? dtypes[i] == wanted : dtypes[i] != DTYPE_F16)
            measured += bench_kernels_run(machine, &architecture, dtypes[i], options);
    return measured || command_misuse(arguments) ||
           error_set(
               error,
               "--only is '%s'; no %s measured here has a name that begins with it (without --only all are shown)",
               options->only, options->rows ? "matrix product" : "kernel");
}

static bool bench_model(BenchMachine *machine, Asked *asked, Arguments *arguments, Error *error) {
    PrecisionPolicy *policy = &asked->phases.policy;
    LoadedModel model = {0};
    if (!precision_parse_compute(&policy->compute, "--precision", asked->precision ? asked->precision : "float32",
                                 error) ||
        !precision_parse_output(&policy->output, "--precision", NULL, policy->compute, error))
        return command_misuse(arguments);
    bool good = loaded_model_open(&model, arguments->operands[0], NULL, NULL, NULL, error);
    if (good && asked->phases.prompt + asked->phases.answer > model.architecture->max_positions)
        good = error_set(error, "--prompt and --answer: %lld tokens, but the model was made for %lld positions",
                         (long long)(asked->phases.prompt + asked->phases.answer),
                         (long long)model.architecture->max_positions);
    if (good && !asked->phases.memory) print_machine(machine, &asked->phases.options);
    good = good && bench_phases_run(machine, &model, &asked->phases, error);
    loaded_model_close(&model);
    return good;
}

static bool run_bench(Arguments *arguments, Error *error) {
    Asked asked;
    Ops ops = {0};
    BenchMachine machine = {0};
    if (!read_asked(&asked, arguments, error)) return false;
    if (!ops_open(&ops, (OpsOptions){.threads = (int)asked.threads}, error)) return false;
    bench_machine_open(&machine, &ops);
    bool good = arguments->operand_count ? bench_model(&machine, &asked, arguments, error)
                                         : bench_shape(&machine, &asked, arguments, error);
    bench_machine_close(&machine);
    ops_close(&ops);
    return good;
}

const Command bench_command = {
    .verb = "bench",
    .operands = "[MODEL]",
    .summary = "Measures kernels, or the phases of a step on a model, as a share of what this machine can do.",
    .min_operands = 0,
    .max_operands = 1,
    .details =
        "Without MODEL every kernel runs at the shapes of a model. Beside its time stands its share of the fused "
        "multiply-adds that the same threads do in registers, or of the bytes that they read from memory; both are "
        "measured again between the calls, so a machine that is busy with other things changes shares little. A share "
        "is the median; in parentheses "
        "the share of the quickest calls by the highest of these figures, which stand for a quiet machine. With "
        "MODEL the phases are measured: loading, walking a prompt, decoding one answer and many, an optimizer "
        "step; rollouts are the best of three runs, by the best of three measurements. WHET_ISA=scalar, avx2 or avx512 "
        "chooses the instruction set.",
    .examples = "whet bench\n"
                "whet bench --shape qwen2.5-1.5b --precision bfloat16 --only gate_up\n"
                "whet bench --rows 1024 --only down\n"
                "whet bench MODEL --precision bfloat16 --memory\n"
                "WHET_ISA=avx2 whet bench --json >kernels.jsonl",
    .options = {{"--precision", "float32|bfloat16|float16",
                 "dtype of weights and activations (default: kernels float32, then bfloat16; a MODEL float32)"},
                {"--threads", "N", "threads; default: one for each core"},
                {"--json", NULL, "one JSON object a line"},
                {"kernels", NULL, NULL},
                {"--shape", "smollm2-135m|qwen2.5-1.5b", "whose shapes (default smollm2-135m)"},
                {"--rows", "N",
                 "of matrix products, up to 8192, and only these (default: all kernels; products with 512 rows, on "
                 "packed weights "
                 "also with 1, 8 and 64)"},
                {"--only", "NAME", "kernels whose names begin with this"},
                {"--seconds", "S", "of each measurement (default 0.2)"},
                {"phases of a MODEL", NULL, NULL},
                {"--sequences", "N", "answers decoded together, and samples of the step (default 64)"},
                {"--prompt", "N", "tokens of a prompt (default 24)"},
                {"--answer", "N", "tokens of an answer (default 24)"},
                {"--micro-batch", "N", "samples of a micro-batch (default 16)"},
                {"--memory", NULL,
                 "list what was alive at the peak of rollout and training; no shares, as measuring them takes memory"}},
    .run = run_bench,
};
