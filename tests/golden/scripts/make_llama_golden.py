#!/usr/bin/env python3
"""Makes hugging_face/{llama2,llama3,mistral,qwen2,qwen3,smollm2}: small folders of Llama's family, and their logits.

The model is written out from the papers as one function of a state_dict with transformers' names. llama3 is bfloat16 in
two files and reads more tokens than its original_max_position_embeddings; mistral is float16 and reads more than its
window; qwen3 has heads larger than hidden_size / heads, and its positions as rope_parameters.
"""
import math

import torch
import torch.nn.functional as F

from golden import begin, save
from make_hugging_face import drawn, write

LAYERS, DIM, HEADS, HIDDEN, VOCAB = 2, 16, 4, 24, 40
MODELS = {
    "llama2": (torch.float32, 9, {
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "max_position_embeddings": 32, "model_type": "llama", "num_key_value_heads": 4, "pretraining_tp": 1,
        "rms_norm_eps": 0.01, "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "float32"}),
    "llama3": (torch.bfloat16, 40, {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 38,
        "eos_token_id": [36, 37], "head_dim": 8, "hidden_act": "silu", "max_position_embeddings": 64, "mlp_bias": False,
        "model_type": "llama", "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
        "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                         "original_max_position_embeddings": 32, "rope_type": "llama3"},
        "rope_theta": 100.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}),
    "mistral": (torch.float16, 17, {
        "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "hidden_act": "silu", "max_position_embeddings": 32, "model_type": "mistral", "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5, "rope_theta": 1000.0, "sliding_window": 5, "tie_word_embeddings": False,
        "torch_dtype": "float16"}),
    "qwen2": (torch.float32, 12, {
        "architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "max_position_embeddings": 32,
        "max_window_layers": 21, "model_type": "qwen2", "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "sliding_window": 4, "tie_word_embeddings": True, "use_sliding_window": False}),
    "qwen3": (torch.float32, 12, {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 6, "hidden_act": "silu",
        "layer_types": ["full_attention", "full_attention"], "max_position_embeddings": 32, "max_window_layers": 2,
        "model_type": "qwen3", "num_key_value_heads": 2, "rms_norm_eps": 0.1,
        "rope_parameters": {"rope_theta": 50.0, "rope_type": "default"}, "sliding_window": None,
        "tie_word_embeddings": True, "use_sliding_window": False}),
    "smollm2": (torch.float32, 12, {
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "is_llama_config": True, "max_position_embeddings": 32, "model_type": "llama", "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5, "rope_interleaved": False, "rope_theta": 130000.0, "tie_word_embeddings": True}),
}


def frequencies(c, D):
    """Radians per token of each pair of features (Su et al. 2021); llama3's by Llama Team 2024."""
    theta = c.get("rope_theta") or c.get("rope_parameters", {}).get("rope_theta", 10000.0)
    s = c.get("rope_scaling")
    out = []
    for i in range(0, D, 2):
        f = theta ** (-i / D)
        if s:
            length = 2 * math.pi / f
            low, high = (s["original_max_position_embeddings"] / s[k] for k in ("low_freq_factor", "high_freq_factor"))
            if length > low:
                f /= s["factor"]
            elif length >= high:
                share = (s["original_max_position_embeddings"] / length - s["low_freq_factor"]) / (
                    s["high_freq_factor"] - s["low_freq_factor"])
                f = (1 - share) * f / s["factor"] + share * f
        out.append(f)
    return torch.tensor(out, dtype=torch.float64)


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rotated(x, c):
    """x (B, heads, T, D); the features i and i + D/2 are a pair."""
    angle = torch.arange(x.shape[2])[:, None] * frequencies(c, x.shape[-1])
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def llama_logits(state, ids, c):
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    eps = c["rms_norm_eps"]
    head = c.get("head_dim") or c["hidden_size"] // heads
    B, T = ids.shape
    past = torch.arange(T)[:, None] - torch.arange(T)
    window = c.get("sliding_window") if c.get("use_sliding_window", True) else None
    seen = (past >= 0) & (past < (window or T))
    x = state["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        n = f"model.layers.{i}."

        def project(name, y, count):
            name = n + "self_attn." + name
            return F.linear(y, state[name + "_proj.weight"], state.get(name + "_proj.bias")).view(B, T, count, head)

        y = rms_norm(x, state[n + "input_layernorm.weight"], eps)
        q, k, v = project("q", y, heads), project("k", y, kv), project("v", y, kv)
        if n + "self_attn.q_norm.weight" in state:
            q = rms_norm(q, state[n + "self_attn.q_norm.weight"], eps)
            k = rms_norm(k, state[n + "self_attn.k_norm.weight"], eps)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        q, k = rotated(q, c), rotated(k, c)
        k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(head)).masked_fill(~seen, -math.inf)
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + y @ state[n + "self_attn.o_proj.weight"].T
        y = rms_norm(x, state[n + "post_attention_layernorm.weight"], eps)
        gate, up = (y @ state[n + f"mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ state[n + "mlp.down_proj.weight"].T
    x = rms_norm(x, state["model.norm.weight"], eps)
    return x @ state["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"].T


def shapes(c):
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    head = c.get("head_dim") or DIM // heads
    out = {"model.embed_tokens.weight": (VOCAB, DIM), "model.norm.weight": (DIM,)}
    for i in range(LAYERS):
        n = f"model.layers.{i}."
        out.update({n + "input_layernorm.weight": (DIM,), n + "post_attention_layernorm.weight": (DIM,),
                    n + "mlp.gate_proj.weight": (HIDDEN, DIM), n + "mlp.up_proj.weight": (HIDDEN, DIM),
                    n + "mlp.down_proj.weight": (DIM, HIDDEN), n + "self_attn.o_proj.weight": (DIM, heads * head)})
        for name, count in (("q", heads), ("k", kv), ("v", kv)):
            out[n + f"self_attn.{name}_proj.weight"] = (count * head, DIM)
            if c["model_type"] == "qwen2":
                out[n + f"self_attn.{name}_proj.bias"] = (count * head,)
            if c["model_type"] == "qwen3" and name != "v":
                out[n + f"self_attn.{name}_norm.weight"] = (head,)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (VOCAB, DIM)
    return out


def main():
    begin(12)
    for name, (dtype, T, options) in MODELS.items():
        c = {**options, "hidden_size": DIM, "intermediate_size": HIDDEN, "num_attention_heads": HEADS,
             "num_hidden_layers": LAYERS, "vocab_size": VOCAB}
        state = {key: t.to(dtype) for key, t in drawn(shapes(c)).items()}
        ids = torch.randint(0, VOCAB, (2, T))
        logits = llama_logits({key: t.float() for key, t in state.items()}, ids, c)
        write(f"{name}/config.json", dict(sorted(c.items())))
        save(f"hugging_face/{name}/expected", {"ids": ids, "logits": logits})
        if dtype != torch.bfloat16:
            save(f"hugging_face/{name}/model", state)
            continue
        files = {key: f"model-0000{1 + (i % 3 == 0)}-of-00002.safetensors" for i, key in enumerate(state)}
        for shard in sorted(set(files.values())):
            save(f"hugging_face/{name}/" + shard[:-len(".safetensors")],
                 {key: t for key, t in state.items() if files[key] == shard})
        size = sum(2 * t.numel() for t in state.values())
        write(f"{name}/model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": files})


if __name__ == "__main__":
    main()
