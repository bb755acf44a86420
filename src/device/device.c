#include "device/device.h"

#include <sys/sysinfo.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WHET_CLANG_ASAN
#endif
#endif

enum { ALIGNMENT = 64, CLASSES = 8 };

// Where the plan's addresses begin: in the hole between user and kernel space (x86-64: not canonical with 4 or 5 levels of
// pages), so that a kernel that touches one faults at once.
static const uintptr_t plan_base = (uintptr_t)3 << 55;

static size_t padded(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// Sets rank and sizes; returns the number of elements.
static int64_t set_shape(Tensor *tensor, int rank, const int64_t *sizes) {
    CHECK(rank >= 1 && rank <= TENSOR_MAX_RANK, "rank %d", rank);
    int64_t count = 1;
    tensor->rank = rank;
    for (int i = 0; i < rank; i++) {
        tensor->size[i] = sizes[i];
        CHECK(sizes[i] >= 0 && !__builtin_mul_overflow(count, sizes[i], &count) && count < INT64_MAX / 8,
              "size %d is %lld", i, (long long)sizes[i]);
    }
    return count;
}

// Sanitizers watch the C library's blocks: a pool would hide a use after release from them.
static bool pooled(size_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(WHET_CLANG_ASAN)
    return bytes == SIZE_MAX;
#else
    return bytes >= BLOCK_POOL_FROM;
#endif
}

// Sizes of weights, gradients and moments come again as they are. Others are rounded up to an eighth of their power of two, so that
// micro-batches of nearly equal lengths share blocks.
static size_t block_bytes(MemoryTag tag, size_t bytes) {
    switch (tag) {
    case MEMORY_WEIGHT_SHARD:
    case MEMORY_GATHERED_UNIT:
    case MEMORY_GRADIENT_SHARD:
    case MEMORY_OPTIMIZER:
    case MEMORY_ROLLOUT_WEIGHTS:
    case MEMORY_REFERENCE: return bytes;
    default: break;
    }
    size_t step = ((size_t)1 << (63 - __builtin_clzll(bytes))) / CLASSES;
    return (bytes + step - 1) / step * step;
}

static uint64_t machine_memory(void) {
    struct sysinfo machine;
    return sysinfo(&machine) ? UINT64_MAX : ((uint64_t)machine.totalram + machine.totalswap) * machine.mem_unit;
}

uint64_t device_machine_bytes(Device *device) {
    if (device->kind == DEVICE_PLAN) return UINT64_MAX;
    if (!device->machine_bytes) device->machine_bytes = machine_memory();
    return device->machine_bytes;
}

// NULL when the system gives none, or the tensor and what is alive are more than the machine has.
static void *host_memory(Device *device, MemoryTag tag, size_t bytes, bool *zeroed) {
    uint64_t live = device->ledger.live_total;
    if (live > device->highest_live) device->highest_live = live;
    *zeroed = false;
    if (live > device_machine_bytes(device)) return NULL;
    if (!pooled(bytes)) return aligned_alloc(ALIGNMENT, bytes);
    return block_pool_take(&device->pool, block_bytes(tag, bytes), device->highest_live - live, zeroed);
}

static Tensor make(Device *device, MemoryTag tag, DType dtype, int rank, const int64_t *sizes, bool *zeroed) {
    Tensor tensor = {.dtype = dtype, .tag = tag};
    int64_t count = set_shape(&tensor, rank, sizes);
    size_t bytes = padded((size_t)count * dtype_size(dtype));
    if (!bytes) bytes = ALIGNMENT;
    ledger_take(&device->ledger, tag, bytes);
    if (device->kind == DEVICE_PLAN) {
        tensor.data = (void *)(plan_base + device->next_address);
        device->next_address += bytes;
        return tensor;
    }
    tensor.data = host_memory(device, tag, bytes, zeroed);
    OBTAINED(tensor.data, "%.2f GiB for %s in phase %s; with it %.2f GiB would be in use, the machine has %.2f GiB",
             (double)bytes / 0x1p30, ledger_tag_name(tag), ledger_phase_name(device->ledger.phase),
             (double)device->ledger.live_total / 0x1p30, (double)device->machine_bytes / 0x1p30);
    return tensor;
}

Tensor device_tensor_raw(Device *device, MemoryTag tag, DType dtype, int rank, const int64_t *sizes) {
    bool zeroed;
    return make(device, tag, dtype, rank, sizes, &zeroed);
}

Tensor device_tensor(Device *device, MemoryTag tag, DType dtype, int rank, const int64_t *sizes) {
    bool zeroed = false;
    Tensor tensor = make(device, tag, dtype, rank, sizes, &zeroed);
    if (device->kind == DEVICE_CPU && !zeroed) memset(tensor.data, 0, tensor_bytes(&tensor));
    return tensor;
}

void device_release(Device *device, Tensor *tensor) {
    if (!tensor->data) return;
    size_t bytes = padded(tensor_bytes(tensor));
    ledger_give(&device->ledger, tensor->tag, bytes ? bytes : ALIGNMENT);
    if (device->kind == DEVICE_CPU && pooled(bytes))
        block_pool_give(&device->pool, tensor->data, block_bytes(tensor->tag, bytes));
    else if (device->kind == DEVICE_CPU)
        free(tensor->data);
    *tensor = (Tensor){0};
}

void device_close(Device *device) {
    CHECK(device->ledger.live_total == 0, "%llu bytes were not released",
          (unsigned long long)device->ledger.live_total);
    block_pool_close(&device->pool);
    ledger_close(&device->ledger);
}

int64_t tensor_count(const Tensor *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= tensor->size[i];
    return count;
}

size_t tensor_bytes(const Tensor *tensor) {
    return (size_t)tensor_count(tensor) * dtype_size(tensor->dtype);
}

Tensor tensor_rows(const Tensor *tensor, int64_t first, int64_t count) {
    CHECK(first >= 0 && count >= 0 && first <= tensor->size[0] && count <= tensor->size[0] - first,
          "rows %lld + %lld of %lld", (long long)first, (long long)count, (long long)tensor->size[0]);
    Tensor view = *tensor;
    size_t row = tensor->size[0] ? tensor_bytes(tensor) / (size_t)tensor->size[0] : 0;
    view.data = (char *)tensor->data + row * (size_t)first;
    view.size[0] = count;
    return view;
}

Tensor tensor_reshape(const Tensor *tensor, int rank, const int64_t *sizes) {
    Tensor view = {.data = tensor->data, .dtype = tensor->dtype, .tag = tensor->tag};
    int64_t count = set_shape(&view, rank, sizes);
    CHECK(count == tensor_count(tensor), "%lld elements from %lld", (long long)count, (long long)tensor_count(tensor));
    return view;
}
