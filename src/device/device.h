// Where tensors live. `cpu` holds them in memory; `plan` keeps the same account and allocates nothing, so that a step
// run on it tells its peak to the byte (docs/memory.md).
#pragma once
#include "base/error.h"
#include "device/block_pool.h"
#include "device/dtype.h"
#include "device/ledger.h"

// Shape letters used in names, sizes slowest first: T tokens, D model, H query heads, K key/value heads, E head size,
// F feed-forward, V vocabulary, L layers, B sequences, P prompts, G samples a prompt, R ranks.
enum { TENSOR_MAX_RANK = 4 };

// A contiguous row-major array. Views share data and are never released: only the tensor that device_tensor made is.
typedef struct Tensor {
    void *data; // cpu: aligned to 64 bytes; plan: an address that is never mapped
    DType dtype;
    int rank;
    int64_t size[TENSOR_MAX_RANK]; // size[0] slowest
    MemoryTag tag;
} Tensor;

typedef enum DeviceKind { DEVICE_CPU, DEVICE_PLAN } DeviceKind;

typedef struct Device {
    DeviceKind kind;
    Ledger ledger;
    uintptr_t next_address; // plan only: bytes handed out so far
    BlockPool pool;         // cpu: memory of large tensors
    uint64_t highest_live;  // cpu: bytes, the most that were ever live
    uint64_t machine_bytes; // cpu: of memory and swap; 0: not asked yet
} Device;

// Zero-initialised elements (plan: none). Ends the program (OBTAINED) when memory is out, or more
// would be live than the machine has, naming tag and bytes: pages are only taken when they are touched, and a process that
// touches more than there are is killed without a word.
Tensor device_tensor(Device *device, MemoryTag tag, DType dtype, int rank, const int64_t *sizes);
#define DEVICE_TENSOR(device, tag, dtype, ...)                                                                         \
    device_tensor((device), (tag), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
                  (const int64_t[]){__VA_ARGS__})
// As device_tensor, without zeroing: for tensors that are written before they are read.
Tensor device_tensor_raw(Device *device, MemoryTag tag, DType dtype, int rank, const int64_t *sizes);
#define DEVICE_TENSOR_RAW(device, tag, dtype, ...)                                                                     \
    device_tensor_raw((device), (tag), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),             \
                      (const int64_t[]){__VA_ARGS__})
void device_release(Device *device, Tensor *tensor); // leaves *tensor zero; accepts a zero tensor
uint64_t device_machine_bytes(Device *device);       // memory and swap of this machine; plan: UINT64_MAX, no machine's
void device_close(Device *device);                   // every tensor must have been released

int64_t tensor_count(const Tensor *tensor); // elements
size_t tensor_bytes(const Tensor *tensor);
Tensor tensor_rows(const Tensor *tensor, int64_t first, int64_t count);      // view of rows along size[0]
Tensor tensor_reshape(const Tensor *tensor, int rank, const int64_t *sizes); // view, same number of elements
#define TENSOR_RESHAPE(tensor, ...)                                                                                    \
    tensor_reshape((tensor), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
