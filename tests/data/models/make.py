"""Makes small random checkpoints with what Transformers computes for them: tests/data/models and more of the same kind.

usage: make.py FOLDER [NAME …] [--size small|medium] [--seed N]
Written with torch 2.15.0, transformers 5.24.0, safetensors 0.8.0, on a CPU.
"""
import argparse
import json
import os

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = {
    "small": dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1,
                  num_hidden_layers=3),
    "medium": dict(vocab_size=512, hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2,
                   num_hidden_layers=4),
}
LENGTHS = {"small": (5, 18, 41), "medium": (23, 37, 64)}

LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
CASES = {
    "llama_linear": dict(model_type="llama", rope_scaling=dict(type="linear", factor=2.5), rope_theta=10000.0),
    "llama_llama3": dict(model_type="llama", rope_parameters=dict(LLAMA3, rope_theta=1000.0)),
    "llama_yarn": dict(model_type="llama", head_dim=12, rope_parameters=dict(
        rope_type="yarn", rope_theta=500.0, factor=4.0, beta_fast=8, beta_slow=2, original_max_position_embeddings=64)),
    "llama_yarn_whole": dict(model_type="llama", tie_word_embeddings=True, original_max_position_embeddings=48,
                             rope_scaling=dict(type="yarn", factor=8.0, truncate=False, mscale=0.7, mscale_all_dim=1.2)),
    "llama_yarn_factor": dict(model_type="llama", rope_scaling=dict(
        rope_type="yarn", factor=2.0, attention_factor=0.85, original_max_position_embeddings=64)),
    "qwen2_yarn": dict(model_type="qwen2", rope_theta=1000000.0, rope_scaling=dict(
        type="yarn", factor=4.0, original_max_position_embeddings=32)),
    "qwen2_window": dict(model_type="qwen2", use_sliding_window=True, sliding_window=9, max_window_layers=1,
                         tie_word_embeddings=True),
    "qwen3_tied": dict(model_type="qwen3", head_dim=12, tie_word_embeddings=True, rope_theta=1000000.0),
    "qwen3_window": dict(model_type="qwen3", head_dim=8, use_sliding_window=True, sliding_window=16,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"]),
    "mistral_short": dict(model_type="mistral", sliding_window=5, head_dim=12),
    "mistral_long": dict(model_type="mistral", sliding_window=30),
    "mistral_whole": dict(model_type="mistral", sliding_window=None, rope_theta=1000000.0),
    "smollm3": dict(model_type="smollm3", no_rope_layer_interval=2),
    "smollm3_window": dict(model_type="smollm3", no_rope_layers=[1, 0, 1, 0, 1], use_sliding_window=True,
                           sliding_window=7, tie_word_embeddings=False, rope_parameters=dict(
                               rope_type="yarn", rope_theta=5000.0, factor=2.0, original_max_position_embeddings=64)),
}


def raw_config(name, size):
    raw = dict(SIZES[size], hidden_act="silu", max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1,
               eos_token_id=2, pad_token_id=None, tie_word_embeddings=False, torch_dtype="bfloat16")
    raw.update(CASES[name])
    if "layer_types" in raw:
        raw["layer_types"] = raw["layer_types"][:raw["num_hidden_layers"]]
    return raw


def open_model(raw, folder, seed):
    """The checkpoint's folder with bfloat16 weights, and the model with their values in float32."""
    os.makedirs(folder + "/expected", exist_ok=True)
    json.dump(raw, open(folder + "/config.json", "w"), indent=1)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32,
                                             attn_implementation="eager")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            else:
                weight.copy_((0.3 if weight.dim() == 1 or "embed" in name else 1.2 / weight.shape[-1] ** 0.5)
                             * torch.randn_like(weight))
            weight.copy_(weight.bfloat16())
    save_file({name: weight.detach().bfloat16().contiguous() for name, weight in model.named_parameters()},
              folder + "/model.safetensors", {"format": "pt"})
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def greedy(model, vocabulary, generator):
    """Prompt and continuation, every token by a whole forward."""
    prompt = torch.randint(3, vocabulary, (10,), generator=generator).tolist()
    tokens, margins = list(prompt), []
    for _ in range(20):
        with torch.no_grad():
            top = model(torch.tensor([tokens]), use_cache=False).logits[0, -1].topk(2)
        tokens.append(top.indices[0].item())
        margins.append((top.values[0] - top.values[1]).item())
    return {"prompt": prompt, "continuation": tokens[10:], "top1_minus_top2": margins, "eos_ignored": True}


def make(name, folder, size, seed):
    raw = raw_config(name, size)
    model, expected = open_model(raw, folder, seed), folder + "/expected/"
    generator = torch.Generator().manual_seed(seed)
    sequences, outputs, losses = [], {}, []
    for i, length in enumerate(LENGTHS[size]):
        tokens = torch.randint(3, raw["vocab_size"], (1, length), generator=generator)
        logits = model(tokens, use_cache=False).logits[0]
        logprobs = logits.log_softmax(-1)[:-1].gather(1, tokens[0, 1:, None])[:, 0]
        outputs[f"seq{i}.logits"], outputs[f"seq{i}.logprobs"] = logits.detach(), logprobs.detach()
        losses.append(-logprobs)
        sequences.append({"tokens": tokens[0].tolist()})
    loss = torch.cat(losses).mean()
    loss.backward()
    grads = {key: weight.grad.contiguous() for key, weight in model.named_parameters()}
    save_file(outputs, expected + "outputs.safetensors")
    save_file(grads, expected + "grads.safetensors")
    positions = torch.arange(max(LENGTHS[size]))[None]
    cos, sin = model.model.rotary_emb(torch.zeros(1), positions)
    save_file({"inv_freq": model.model.rotary_emb.inv_freq.contiguous(), "cos": cos[0].contiguous(),
               "sin": sin[0].contiguous()}, expected + "rope.safetensors")
    norm = torch.sqrt(sum((grad.double() ** 2).sum() for grad in grads.values())).item()
    report = {"sequences": sequences, "mean_token_loss": loss.item(), "grad_l2_norm": norm,
              "greedy": greedy(model, raw["vocab_size"], generator)}
    json.dump(report, open(expected + "expected.json", "w"))
    print(name, f"loss {loss.item():.4f}, gradient {norm:.3f}, margin {min(report['greedy']['top1_minus_top2']):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, os.path.join(arguments.folder, name), arguments.size, arguments.seed)
