#!/usr/bin/env python3
"""Makes the two tiny GGUF models of this folder with gguf-py, and beside each what it means: the tensors dequantised by
gguf-py, under their Hugging Face names and in their row order. Needs numpy, gguf and safetensors. Run in this folder."""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from safetensors.numpy import save_file

rng = np.random.default_rng(5)
HIDDEN, FFN, HEADS, KV, HEAD, VOCAB = 32, 32, 3, 1, 16, 24
BLOCK = {
    "attn_q.weight": ("self_attn.q_proj.weight", (HEADS * HEAD, HIDDEN)),
    "attn_k.weight": ("self_attn.k_proj.weight", (KV * HEAD, HIDDEN)),
    "attn_v.weight": ("self_attn.v_proj.weight", (KV * HEAD, HIDDEN)),
    "attn_q.bias": ("self_attn.q_proj.bias", (HEADS * HEAD,)),
    "attn_k.bias": ("self_attn.k_proj.bias", (KV * HEAD,)),
    "attn_v.bias": ("self_attn.v_proj.bias", (KV * HEAD,)),
    "attn_output.weight": ("self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD)),
    "ffn_gate.weight": ("mlp.gate_proj.weight", (FFN, HIDDEN)),
    "ffn_up.weight": ("mlp.up_proj.weight", (FFN, HIDDEN)),
    "ffn_down.weight": ("mlp.down_proj.weight", (HIDDEN, FFN)),
    "attn_norm.weight": ("input_layernorm.weight", (HIDDEN,)),
    "ffn_norm.weight": ("post_attention_layernorm.weight", (HIDDEN,)),
}
ROOT = {
    "token_embd.weight": ("model.embed_tokens.weight", (VOCAB, HIDDEN)),
    "output_norm.weight": ("model.norm.weight", (HIDDEN,)),
    "output.weight": ("lm_head.weight", (VOCAB, HIDDEN)),
}


def halves_to_pairs(weight, heads):  # as convert_hf_to_gguf.py permutes Llama's q and k
    return weight.reshape(heads, 2, HEAD // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def pairs_to_halves(weight, heads):
    return weight.reshape(heads, HEAD // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def make(path, arch, layers, tied, types):
    names = {f"blk.{i}.{g}": (f"model.layers.{i}.{h}", s) for i in range(layers) for g, (h, s) in BLOCK.items()}
    names.update(ROOT)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_block_count(layers)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_freq_base(50000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([chr(97 + i) for i in range(VOCAB - 2)] + ["ab", "<e>"])
    writer.add_token_types([1] * (VOCAB - 1) + [3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(VOCAB - 1)
    writer.add_chat_template("{{ messages }}")
    expected, turn = {}, 0
    for name, (hugging_face, shape) in names.items():
        if (arch == "llama" and name.endswith("bias")) or (tied and name == "output.weight"):
            continue
        weight = rng.normal(0, 0.3, shape).astype(np.float32)
        heads = {"attn_q.weight": HEADS, "attn_k.weight": KV}.get(name.split(".", 2)[-1], 0) if arch == "llama" else 0
        stored = halves_to_pairs(weight, heads) if heads else weight
        kind = Q.F32 if len(shape) == 1 else types[turn % len(types)]
        if shape[-1] % 32:  # o_proj has rows of 48
            kind = Q.F16
        turn += len(shape) == 2
        raw = gguf.quants.quantize(stored, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        back = gguf.quants.dequantize(raw, kind).reshape(shape).astype(np.float32)
        expected[hugging_face] = np.ascontiguousarray(pairs_to_halves(back, heads) if heads else back)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, path.replace(".gguf", ".safetensors"))


make("llama.gguf", "llama", 2, True, [Q.Q4_1, Q.Q8_0, Q.Q4_0])
make("qwen2.gguf", "qwen2", 1, False, [Q.Q4_0, Q.BF16, Q.Q4_1, Q.F16, Q.Q8_0, Q.F32])
