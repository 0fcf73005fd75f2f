#!/usr/bin/env python3
"""Makes hugging_face/{llama2,llama3,mistral,qwen2,smollm2}/tokenizer.json, tokenizers of these models' forms with small
vocabularies of our own training, and hugging_face/tokenizers.json, token ids by Hugging Face's tokenizers, the Rust
library that these models are trained with (npm's @anush008/tokenizers).

usage: make_tokenizer_golden.py                      (writes the tokenizer.json files)
       make_tokenizer_golden.py texts N > texts.json (N awkward texts)
       make_tokenizer_golden.py ids NODE_MODULES texts.json > ids.json      ({form: [[ids, decoded], ...]}, by node)
       make_tokenizer_golden.py keep texts.json ids.json N                  (writes N of them as tokenizers.json,
                                                                             decoded only where it is not the text)
"""
import collections
import json
import os
import random
import subprocess
import sys

from golden import GOLDEN
from make_bpe_golden import ORDER, SPELL, joined, train
from make_hugging_face import write

TEXT = ("the cat sat on the mat, and the hat was that which the cat had sat on; then the rain fell. Once upon a time there "
        "were 3 kings in the year 1234: they'd said that it wasn't theirs, but he'll do it. \u00e9t\u00e9 \u00e9t\u00e9 "
        "na\u00efve caf\u00e9 \u4e2d\u6587 \u4e2d\u6587 \u0434\u043e\u043c \u0434\u043e\u043c, \u0434\u0430; int main() { return 0; }\n\n    for\n ") * 4
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
MARK = "\u2581"


def added(id, content, special=True, normalized=False):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special}


def byte_level(pre, names, hidden=(), normalizer=None, ignore=False, bos=None):
    _, merges = train(TEXT, 130)
    tokens = [SPELL[b] for b in ORDER] + [a + b for a, b in merges]
    if ignore:  # a word that no merge makes
        tokens.append("\u0120untouched")
    end = len(tokens)
    process = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    if bos:
        process = {"type": "Sequence", "processors": [process, template(bos, end + names.index(bos))]}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(end + i, name, name not in hidden) for i, name in enumerate(names)],
            "normalizer": normalizer, "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre},
            "post_processor": process,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore,
                      "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [f"{a} {b}" for a, b in merges]}}


def template(bos, id):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {bos: {"id": bos, "ids": [id], "tokens": [bos]}}}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def of_characters(normalizer, pre, pairs):
    """A vocabulary of characters with byte fallback, of merges of pairs that may span spaces only at a word's start."""
    words = collections.Counter(tuple(MARK + w) for w in TEXT.split())
    words[(MARK,) * 8] = 40
    characters = sorted({c for w in words for c in w if ord(c) < 0x4E00 and c not in "\u00ef"})
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + characters
    merges = []
    while len(merges) < 120:
        counts = collections.Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                if all(len(t) > 1 or t in characters for t in pair):
                    counts[pair] += n
        pair = min(counts, key=lambda p: (-counts[p], p))
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
        merges.append(pair)
        words = collections.Counter({joined(w, pair): n for w, n in words.items()})
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(i, name) for i, name in enumerate(("<unk>", "<s>", "</s>"))],
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": template("<s>", 1),
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                      "vocab": {t: i for i, t in enumerate(tokens)},
                      "merges": [list(p) if pairs else f"{p[0]} {p[1]}" for p in merges]}}


def tokenizers():
    chat = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return {
        "llama2": of_characters({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": MARK},
            {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}, None, False),
        "llama3": byte_level([split(LLAMA3), level(False)], ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"],
                             ignore=True, bos="<|begin_of_text|>"),
        "mistral": of_characters(None, {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first",
                                        "split": False}, True),
        "qwen2": byte_level([split(QWEN2), level(False)], chat + ["<think>", "</think>"], ("<think>", "</think>"),
                            {"type": "NFC"}),
        "smollm2": byte_level([{"type": "Digits", "individual_digits": True}, level(True)], chat)}


PIECES = ["the", " the", "cat", " sat", "They'd", "IT'S", "he'LL", "'S", "'t", "''ve", "\u2019s", "1", "12345", " 12", "3.14", "\u0663\u0664", "\u2167", "\u00bd",
          " ", "  ", "     ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\t\n x", "\u00a0", "\u2003", "\u3000", "\u2028", "\v",
          "\u0085", "\u200b", "\u00e9t\u00e9", "e\u0301", "na\u00efve", "\u1e69", "s\u0323\u0307", "\u0301", "\u212b", "\ufb01", "\u4e2d\u6587", "\u65e5\u672c\u8a9e", "\uac00\u11a8",
          "\ud55c", "\u0434\u043e\u043c", "\u0414\u041e\u041c", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0645\u0631\u062d\u0628\u0627", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001d49c", ".",
          ", ", "!!", "...", "?!\n", "()", " {", "};\n", "->", "#include", "_a_b", "http://x.y/z?q=1", "\u2581", "\u2581\u2581a", "<0x0A>",
          "untouched", " untouched", "<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<think",
          "<|begin_of_text|>", "<|eot_id|>", "<|eot_id", "\x00", "\x01", "\x7f", "\u00ad", "A", "b", "Z", "\u00df", "\u0130", "\u03a3", "\u01c5", "\u02b0", "\u00aa"]


def texts(count):
    draw = random.Random(7)
    out = ["", " ", "a", "\n", TEXT[:200]]
    while len(out) < count:
        pieces = [draw.choice(PIECES) if draw.random() < 0.9 else chr(draw.choice((draw.randrange(0x20, 0x250), draw.randrange(0x370, 0x1100), draw.randrange(0x2000, 0x2600))))
                  for _ in range(draw.randrange(1, 12))]
        text = "".join(pieces)
        if text not in out[-50:]:
            out.append(text)
    return out


JS = """
const {Tokenizer} = require(process.argv[2] + '/@anush008/tokenizers');
const fs = require('fs');
const texts = JSON.parse(fs.readFileSync(process.argv[3]));
(async () => {
  const out = {};
  for (const form of process.argv.slice(5)) {
    const t = Tokenizer.fromFile(process.argv[4] + '/' + form + '/tokenizer.json');
    out[form] = [];
    for (const x of texts) {
      const ids = (await t.encode(x, null, {addSpecialTokens: false})).getIds();
      out[form].push([ids, ids.length ? await t.decode(ids, false) : '']);
    }
  }
  console.log(JSON.stringify(out));
})();
"""


def main():
    folder = os.path.join(GOLDEN, "hugging_face")
    command = sys.argv[1] if len(sys.argv) > 1 else "files"
    if command == "files":
        for name, content in tokenizers().items():
            write(name + "/tokenizer.json", json.dumps(content, indent=None, ensure_ascii=False) + "\n")
    elif command == "texts":
        print(json.dumps(texts(int(sys.argv[2]))))
    elif command == "ids":
        script = os.path.abspath("tokenize.js")
        with open(script, "w") as f:
            f.write(JS)
        subprocess.run(["node", script, os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3]), folder, *tokenizers()], check=True)
        os.remove(script)
    else:
        with open(sys.argv[2]) as f, open(sys.argv[3]) as g:
            all_texts, ids = json.load(f), json.load(g)
        n = int(sys.argv[4])
        cases = [{"text": text, **{form: ids[form][i][:1 + (ids[form][i][1] != text)] for form in ids}} for i, text in enumerate(all_texts[:n])]
        write("tokenizers.json", "[" + ",\n".join(json.dumps(case) for case in cases) + "]\n")


if __name__ == "__main__":
    main()
