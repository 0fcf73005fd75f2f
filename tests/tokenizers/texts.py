#!/usr/bin/env python3
"""Writes awkward texts as a JSON array, the same every time: every general category of Unicode, emoji with joiners,
combining marks, line breaks, unassigned code points, contractions, long runs, names of special tokens.

usage: texts.py COUNT > texts.json
"""
import json
import random
import sys
import unicodedata

WORDS = ["the", "cat", " sat", "They", "IT", "été", "e\u0301te\u0301", "naïve", "\u1e69", "s\u0323\u0307", "中文", "日本語",
         "\uac00\u11a8", "한국어", "дом", "नमस्ते", "مرحبا", "\u212b", "\ufb01", "\u0130", "ß", "Σ", "\u01c5", "untouched"]
CONTRACTIONS = ["'s", "'S", "'t", "'re", "'VE", "'m", "'lL", "'d", "''", "\u2019s", " 's"]
SPACES = [" ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f",
          "\u3000", "\u200b", "\ufeff", " \n", "\n ", "\t\n"]
DIGITS = list("0123456789") + ["٣", "٤", "७", "９", "𝟗", "Ⅷ", "½", "²", "①", "一"]
EMOJI = ["😀", "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f", "1\ufe0f\u20e3", "\u200d", "\ufe0f"]
CODE = [".", ", ", "!!", "...", "?!\n", "()", " {", "};\n", "->", "#include", "_a_b", "http://x.y/z?q=1", "\\", '"', "▁", "▁▁a",
        "<0x0A>", "<0xE2>", "##ing", "[UNK]", "Ġ", "Ċ"]
SPECIAL = ["<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end", "<think>", "</think>", "<think",
           "<|begin_of_text|>", "<|eot_id|>", "<|eot_id", "<tool_call>", "[CLS]", "[MASK]", "<s></s>"]


def categories():
    """Code points by category. Of unassigned ones only those that will never be assigned, or have not been by Unicode 17:
    programs know different versions of Unicode."""
    found = {"Cn": [0x378, 0x379, 0x38B, 0x38D, 0x530, 0x9FF, 0x1FFF, 0xFDD0, 0xFFFF, 0x1FFFE, 0xE0FFF, 0x10FFFF]}
    for c in list(range(0x30000)) + list(range(0xE0000, 0xE0200)):
        category = unicodedata.category(chr(c))
        if category not in ("Cn", "Cs"):
            found.setdefault(category, []).append(c)
    return list(found.values())


def texts(count):
    draw = random.Random(20)
    by_category = categories()

    def character():
        return chr(draw.choice(draw.choice(by_category)))

    def several(make, most):
        return "".join(make() for _ in range(draw.randint(1, most)))

    def run_of(strings, most, longest):
        return draw.choice(strings) * draw.randint(1, longest if draw.random() < 0.1 else most)

    kinds = [lambda: draw.choice(WORDS), lambda: draw.choice(WORDS), lambda: draw.choice(CONTRACTIONS),
             lambda: draw.choice(SPACES), lambda: draw.choice(SPACES), lambda: draw.choice(SPECIAL), lambda: draw.choice(CODE),
             lambda: several(lambda: draw.choice(DIGITS), 7), lambda: several(lambda: draw.choice(EMOJI), 3),
             lambda: several(character, 4), lambda: draw.choice(WORDS) + several(lambda: chr(draw.randint(0x300, 0x36F)), 3),
             lambda: run_of(SPACES, 6, 90), lambda: run_of(WORDS, 2, 40)]
    out = ["", " ", "\n", "a", "\u0085", "\u0085\u0663a"]
    while len(out) < count:
        out.append(several(lambda: draw.choice(kinds)(), 12))
    return out


if __name__ == "__main__":
    print(json.dumps(texts(int(sys.argv[1]))))
