#!/usr/bin/env python3
"""Makes hugging_face/{gpt2,bert,vit}: small folders as transformers writes them, and the models' outputs.

The models are written out as functions of a state_dict with transformers' names; expected.safetensors holds inputs and
outputs. gpt2 is like the hub's: names without a prefix, buffers among the parameters, a tied output layer, a vocabulary
larger than the tokenizer's. bert has the names of its first files, LayerNorm.gamma, and repeats tied tensors. vit is
float16 in two files. Also wordpiece.json: token ids by BERT's published rules, in plain Python.
"""
import json
import math
import os
import unicodedata

import torch
import torch.nn.functional as F

from golden import GOLDEN, begin, save
from make_bpe_golden import ORDER, SPELL, train


def write(path, text):
    path = os.path.join(GOLDEN, "hugging_face", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(text if isinstance(text, str) else json.dumps(text, indent=2, ensure_ascii=False) + "\n")


def linear(state, name, x):
    return F.linear(x, state[name + ".weight"], state[name + ".bias"])


def norm(state, name, x, eps):
    return F.layer_norm(x, x.shape[-1:], state[name + ".weight"], state[name + ".bias"], eps)


def attention(q, k, v, heads, mask):
    q, k, v = (x.view(*x.shape[:2], heads, -1).transpose(1, 2) for x in (q, k, v))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def drawn(shapes):
    """Parameters far from their initial values: no bias is 0, no norm's weight 1."""
    return {name: 0.3 * torch.randn(shape) + (len(shape) == 1 and name.endswith(("weight", "gamma")))
            for name, shape in shapes.items()}


def pair(name, *shape):
    return {name + ".weight": shape, name + ".bias": shape[:1]}


# ---- GPT-2 ----


def gpt2_logits(state, ids, heads, layers, eps):
    def conv1d(name, x):
        return x @ state[name + ".weight"] + state[name + ".bias"]

    T = ids.shape[1]
    x = state["wte.weight"][ids] + state["wpe.weight"][:T]
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    for i in range(layers):
        h = f"h.{i}."
        q, k, v = conv1d(h + "attn.c_attn", norm(state, h + "ln_1", x, eps)).chunk(3, -1)
        x = x + conv1d(h + "attn.c_proj", attention(q, k, v, heads, causal))
        fc = F.gelu(conv1d(h + "mlp.c_fc", norm(state, h + "ln_2", x, eps)), approximate="tanh")
        x = x + conv1d(h + "mlp.c_proj", fc)
    return norm(state, "ln_f", x, eps) @ state["wte.weight"].T


def gpt2():
    D, V, T, L, H = 16, 304, 12, 2, 2
    shapes = {"wte.weight": (V, D), "wpe.weight": (T, D), **pair("ln_f", D)}
    for i in range(L):
        h = f"h.{i}."
        shapes.update({**pair(h + "ln_1", D), **pair(h + "ln_2", D)})
        for name, n_in, n_out in (("attn.c_attn", D, 3 * D), ("attn.c_proj", D, D), ("mlp.c_fc", D, 4 * D), ("mlp.c_proj", 4 * D, D)):
            shapes.update({h + name + ".weight": (n_in, n_out), h + name + ".bias": (n_out,)})
    state = drawn(shapes)
    ids = torch.randint(0, V, (2, 9))
    expected = {"ids": ids, "logits": gpt2_logits(state, ids, H, L, 1e-5)}
    for i in range(L):
        state[f"h.{i}.attn.bias"] = torch.ones(1, 1, T, T).tril().to(torch.uint8)
        state[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    write("gpt2/config.json", {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 292, "embd_pdrop": 0.1, "eos_token_id": 292, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5, "model_type": "gpt2", "n_ctx": T, "n_embd": D, "n_head": H, "n_inner": None,
        "n_layer": L, "n_positions": T, "reorder_and_upcast_attn": False, "resid_pdrop": 0.1,
        "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "summary_activation": None,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "torch_dtype": "float32",
        "transformers_version": "4.36.0", "use_cache": True, "vocab_size": V})
    save("hugging_face/gpt2/model", state)
    save("hugging_face/gpt2/expected", expected)
    _, merges = train("the cat sat on the mat, and the hat was that which the cat had sat on; then the rain fell " * 3, 39)
    tokens = [SPELL[b] for b in ORDER] + [a + b for a, b in merges] + ["<|endoftext|>"]
    write("gpt2/vocab.json", json.dumps({token: i for i, token in enumerate(tokens)}) + "\n")
    write("gpt2/merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    write("gpt2/tokenizer_config.json", {"add_prefix_space": False, "bos_token": "<|endoftext|>",
                                         "eos_token": {"__type": "AddedToken", "content": "<|endoftext|>"},
                                         "model_max_length": T, "tokenizer_class": "GPT2Tokenizer"})


# ---- BERT ----


def bert_outputs(state, ids, segments, mask, heads, layers, eps):
    state = {k[5:] if k.startswith("bert.") else k: v for k, v in state.items()}
    e = "embeddings."
    x = (state[e + "word_embeddings.weight"][ids] + state[e + "token_type_embeddings.weight"][segments]
         + state[e + "position_embeddings.weight"][:ids.shape[1]])
    x = norm(state, e + "LayerNorm", x, eps)
    for i in range(layers):
        n = f"encoder.layer.{i}."
        q, k, v = (linear(state, n + "attention.self." + part, x) for part in ("query", "key", "value"))
        y = linear(state, n + "attention.output.dense", attention(q, k, v, heads, mask[:, None, None, :]))
        x = norm(state, n + "attention.output.LayerNorm", x + y, eps)
        y = linear(state, n + "output.dense", F.gelu(linear(state, n + "intermediate.dense", x)))
        x = norm(state, n + "output.LayerNorm", x + y, eps)
    pooled = linear(state, "pooler.dense", x[:, 0]).tanh()
    t = norm(state, "cls.predictions.transform.LayerNorm", F.gelu(linear(state, "cls.predictions.transform.dense", x)), eps)
    return {"hidden": x, "pooled": pooled, "seq_relationship_logits": linear(state, "cls.seq_relationship", pooled),
            "prediction_logits": t @ state[e + "word_embeddings.weight"].T + state["cls.predictions.bias"]}


def bert(vocab):
    D, V, T, L, H, I = 12, len(vocab), 10, 2, 3, 20
    e = "bert.embeddings."
    shapes = {e + "word_embeddings.weight": (V, D), e + "position_embeddings.weight": (T, D),
              e + "token_type_embeddings.weight": (2, D), **pair(e + "LayerNorm", D)}
    for i in range(L):
        n = f"bert.encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes.update(pair(n + "attention.self." + part, D, D))
        shapes.update({**pair(n + "attention.output.dense", D, D), **pair(n + "attention.output.LayerNorm", D),
                       **pair(n + "intermediate.dense", I, D), **pair(n + "output.dense", D, I),
                       **pair(n + "output.LayerNorm", D)})
    shapes.update({**pair("bert.pooler.dense", D, D), **pair("cls.predictions.transform.dense", D, D),
                   **pair("cls.predictions.transform.LayerNorm", D), **pair("cls.seq_relationship", 2, D),
                   "cls.predictions.bias": (V,)})
    state = drawn(shapes)
    ids = torch.randint(0, V, (2, 7))
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1]])
    mask = torch.arange(7) < torch.tensor([[7], [5]])
    save("hugging_face/bert/expected", {"ids": ids, "segments": segments, "mask": mask,
                                        **bert_outputs(state, ids, segments, mask, H, L, 1e-12)})
    state["cls.predictions.decoder.weight"] = state[e + "word_embeddings.weight"]
    state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"]
    state[e + "position_ids"] = torch.arange(T)[None]
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for new_name, old_name in old.items():
        state = {name.replace(new_name, old_name): t for name, t in state.items()}
    write("bert/config.json", {
        "architectures": ["BertForPreTraining"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": D, "initializer_range": 0.02,
        "intermediate_size": I, "layer_norm_eps": 1e-12, "max_position_embeddings": T, "model_type": "bert",
        "num_attention_heads": H, "num_hidden_layers": L, "pad_token_id": 0, "position_embedding_type": "absolute",
        "type_vocab_size": 2, "use_cache": True, "vocab_size": V})
    save("hugging_face/bert/model", state)
    write("bert/vocab.txt", "".join(token + "\n" for token in vocab))
    write("bert/tokenizer_config.json", {"do_lower_case": True, "model_max_length": T})


# ---- ViT ----


def vit_logits(state, images, patch, heads, layers, eps):
    e = "vit.embeddings."
    x = F.conv2d(images, state[e + "patch_embeddings.projection.weight"], state[e + "patch_embeddings.projection.bias"], stride=patch)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([state[e + "cls_token"].expand(len(x), -1, -1), x], 1) + state[e + "position_embeddings"]
    everything = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
    for i in range(layers):
        n = f"vit.encoder.layer.{i}."
        y = norm(state, n + "layernorm_before", x, eps)
        q, k, v = (linear(state, n + "attention.attention." + part, y) for part in ("query", "key", "value"))
        x = x + linear(state, n + "attention.output.dense", attention(q, k, v, heads, everything))
        y = F.gelu(linear(state, n + "intermediate.dense", norm(state, n + "layernorm_after", x, eps)))
        x = x + linear(state, n + "output.dense", y)
    return linear(state, "classifier", norm(state, "vit.layernorm", x, eps)[:, 0])


def vit():
    D, L, H, I, S, P, C = 16, 2, 4, 40, 9, 3, 5
    e = "vit.embeddings."
    shapes = {e + "cls_token": (1, 1, D), e + "position_embeddings": (1, 1 + (S // P) ** 2, D),
              **pair(e + "patch_embeddings.projection", D, 3, P, P), **pair("vit.layernorm", D), **pair("classifier", C, D)}
    for i in range(L):
        n = f"vit.encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes.update(pair(n + "attention.attention." + part, D, D))
        shapes.update({**pair(n + "attention.output.dense", D, D), **pair(n + "layernorm_before", D),
                       **pair(n + "intermediate.dense", I, D), **pair(n + "output.dense", D, I),
                       **pair(n + "layernorm_after", D)})
    state = {name: t.half() for name, t in drawn(shapes).items()}
    images = torch.randn(2, 3, S, S)
    logits = vit_logits({name: t.float() for name, t in state.items()}, images, P, H, L, 1e-12)
    save("hugging_face/vit/expected", {"images": images, "logits": logits})
    names = list(state)
    files = {name: f"model-0000{1 + (i >= len(names) // 2)}-of-00002.safetensors" for i, name in enumerate(names)}
    for shard in sorted(set(files.values())):
        save("hugging_face/vit/" + shard[:-len(".safetensors")], {n: t for n, t in state.items() if files[n] == shard})
    size = sum(2 * t.numel() for t in state.values())
    write("vit/model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": files})
    labels = ["tench", "goldfish, Carassius auratus", "great white shark", "caf\u00e9", "ostrich"]
    write("vit/config.json", {
        "architectures": ["ViTForImageClassification"], "attention_probs_dropout_prob": 0.0, "encoder_stride": 16,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": D,
        "id2label": {str(i): name for i, name in enumerate(labels)}, "image_size": S, "initializer_range": 0.02,
        "intermediate_size": I, "label2id": {name: i for i, name in enumerate(labels)}, "layer_norm_eps": 1e-12,
        "model_type": "vit", "num_attention_heads": H, "num_channels": 3, "num_hidden_layers": L, "patch_size": P,
        "qkv_bias": True, "torch_dtype": "float16"})
    write("vit/preprocessor_config.json", {
        "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.25],
        "image_std": [0.5, 0.5, 0.75], "image_processor_type": "ViTImageProcessor", "resample": 2,
        "rescale_factor": 0.00392156862745098, "size": {"height": S, "width": S}})


# ---- WordPiece ----

CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
       (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


def is_punctuation(c):
    n = ord(c)
    return 33 <= n <= 47 or 58 <= n <= 64 or 91 <= n <= 96 or 123 <= n <= 126 or unicodedata.category(c)[0] == "P"


def basic_words(text, lower):
    cleaned = ""
    for c in text:
        if c in "\t\n\r " or unicodedata.category(c) == "Zs":
            cleaned += " "
        elif ord(c) in (0, 0xFFFD) or unicodedata.category(c)[0] == "C":
            continue
        elif any(a <= ord(c) <= b for a, b in CJK):
            cleaned += f" {c} "
        else:
            cleaned += c
    words = []
    for word in cleaned.split():
        if lower:
            word = "".join(c.lower() for c in word)
            word = "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")
        start_new = True
        for c in word:
            if is_punctuation(c) or start_new:
                words.append("")
            start_new = is_punctuation(c)
            words[-1] += c
    return [word for word in words if word]


def wordpiece(vocab, word):
    if len(word) > 100:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


TEXTS = [
    "", " \t\r\n ", "The quick brown fox, unaffable!", "unaffable UNAFFABLE affables", "isn't it? (yes) [CLS] [UNK] [MASK] ##able",
    "H\u00e9llo W\u00d6RLD na\u00efve caf\u00e9 cafe\u0301 \u0130stanbul \u00c5ngstr\u00f6m \u212bngstrom \u212aelvin",
    "a\u00a0b\u2003c\u3000d\u2028e\u200bf\u00adg\ufeffh\x00i\x01j\x7fk\x85l\x0bm\x0cn\ufffdo\ue000p",
    "\u4e2d\u6587 \u65e5\u672c\u8a9e abc\u4e2ddef \u3042\u304c\u304b\u30d1 \ud55c\uad6d\uc5b4 \uac00\uac01 \U00020000",
    "\u0394\u03b9\u03ac\u03c6\u03bf\u03c1\u03b1 \u039a\u038c\u03a3\u039c\u039f\u03a3 \u1f00\u03c1\u03c7\u03ae \u041c\u043e\u0441\u043a\u0432\u0430 \u0419\u043e\u0434 \u0401\u043b\u043a\u0430",
    "\u201cquotes\u201d \u2014 dash\u2026 \u00bfqu\u00e9? \u00ab oui \u00bb \u3002\u3001 $5.00 + 3 = 8 ~ ^ ` | < > \u20ac\u00a3",
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0958",
    "\U0001f600 e\u0301\u0302\u0303 \u0301 \u0301\u0301x vi\u1ec7t n\u1eef \u1e9e \u01c5 \u037e \u00aa \u00b2",
    "a" * 100, "a" * 101, "b" * 99 + "!" + "c" * 101, "\u00e9" * 100, "xyz xyzq q", "1,234.5 3rd x_y a-b a/b e-mail@example.com",
]
PIECES = "the quick brown fox un ##aff ##able aff ##ables isn it yes hello world naive cafe ##s ist ##anbul angstrom kelvin xyz " \
         "quotes dash que oui viet nu abc def mail example com".split()


def wordpiece_vocab():
    vocab = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES]
    known = {c for text in TEXTS for lower in (True, False) for word in basic_words(text, lower) for c in word}
    known -= set("q\u03c6\u0432\U0001f600")  # some are unknown
    for c in sorted(known):
        vocab += [piece for piece in (c, "##" + c) if piece not in vocab]
    return vocab


def hashed(texts):
    """The 32-bit FNV-1a hash of the texts in UTF-8, each followed by a zero byte."""
    h = 0x811C9DC5
    for byte in "".join(text + "\0" for text in texts).encode():
        h = (h ^ byte) * 0x01000193 % 2**32
    return h


def unicode_ranges():
    """Yields ranges of at most 1024 code points that Unicode 14 assigns, without surrogates and private use: first, last,
    and the hashes of their decompositions without nonspacing marks and of their lower-case forms."""
    assert unicodedata.unidata_version == "14.0.0"
    ranges = []
    for c in range(0x110000):
        if unicodedata.category(chr(c)) in ("Cn", "Cs", "Co"):
            continue
        if ranges and ranges[-1][1] == c - 1 and c - ranges[-1][0] < 1024:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    for first, last in ranges:
        letters = [chr(c) for c in range(first, last + 1)]
        bare = ["".join(x for x in unicodedata.normalize("NFD", c) if unicodedata.category(x) != "Mn") for c in letters]
        yield [first, last, hashed(bare), hashed(c.lower() for c in letters)]


def main():
    begin(9)
    vocab = wordpiece_vocab()
    gpt2()
    bert(vocab)
    vit()
    ids = {token: i for i, token in enumerate(vocab)}
    cases = [{"text": text, **{name: [ids[p] for word in basic_words(text, lower) for p in wordpiece(ids, word)]
                               for name, lower in (("uncased", True), ("cased", False))}} for text in TEXTS]
    write("wordpiece.json", json.dumps(cases, indent=1) + "\n")
    write("unicode.json", "[" + ",\n".join(map(json.dumps, unicode_ranges())) + "]\n")


if __name__ == "__main__":
    main()
