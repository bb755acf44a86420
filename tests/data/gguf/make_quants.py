#!/usr/bin/env python3
"""Makes quants.safetensors with gguf-py: for each block format, blocks of random bytes as stored ("Q4_K.stored", one row a
block) and what gguf.quants.dequantize makes of them ("Q4_K.values", fp32). The fp16 scale and minimum of the first blocks are
replaced by odd ones: zeros, subnormals, the largest, infinity, NaN. Needs numpy, gguf and safetensors. Run in this folder."""
import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Q
from safetensors.numpy import save_file

rng = np.random.default_rng(6)
ODD = [0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFC00, 0x7E01]
SCALES = {  # where the fp16 numbers of a block lie
    Q.Q8_0: [0], Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q2_K: [80, 82], Q.Q3_K: [108],
    Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208],
}  # fmt: skip
out = {}
for kind, places in SCALES.items():
    values, size = GGML_QUANT_SIZES[kind]
    count = len(ODD) + (17 if values == 32 else 3)
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for place in places:
        half = blocks[:, place : place + 2].copy().view(np.uint16)
        half[half & 0x7C00 == 0x7C00] ^= 0x4000  # finite, unless among the odd ones
        half[: len(ODD), 0] = np.roll(ODD, place // 2 % 2)  # scale and minimum are odd in different ways
        blocks[:, place : place + 2] = half.view(np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        out[f"{kind.name}.values"] = gguf.quants.dequantize(blocks, kind).astype(np.float32)
    out[f"{kind.name}.stored"] = blocks
save_file(out, "quants.safetensors")
