#!/usr/bin/python3
"""Makes bpe.json: byte pair encoding by its definition, slow and simple.

The splitting rule is GPT-2's pattern with \\p{L}, \\p{N} and \\s written out as character classes, since `re` has no
properties. Training recounts all pairs for each merge, and so does encoding.
"""
import collections
import json
import os
import random
import re
import unicodedata


def ranges(wanted):
    parts, start = [], None
    for c in range(0x110001):
        inside = c < 0x110000 and wanted(c)
        if inside and start is None:
            start = c
        elif not inside and start is not None:
            parts.append("\\U%08x-\\U%08x" % (start, c - 1))
            start = None
    return "".join(parts)


SPACE = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(9, 14), *range(0x2000, 0x200B)}
L = ranges(lambda c: unicodedata.category(chr(c))[0] == "L")
N = ranges(lambda c: unicodedata.category(chr(c))[0] == "N")
S = ranges(lambda c: c in SPACE)
PATTERN = re.compile(f"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+|[{S}]+(?![^{S}])|[{S}]+")


def alphabet():
    prints = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    order = prints + [b for b in range(256) if b not in prints]
    return order, {b: chr(b) if i < len(prints) else chr(256 + i - len(prints)) for i, b in enumerate(order)}


ORDER, SPELL = alphabet()


def spelled(word):
    return tuple(SPELL[b] for b in word.encode())


def joined(word, pair):
    out, i = [], 0
    while i < len(word):
        if word[i:i + 2] == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train(text, merges_wanted):
    words = collections.Counter(spelled(w) for w in PATTERN.findall(text))
    ids = {SPELL[b]: i for i, b in enumerate(ORDER)}
    merges = []
    while len(merges) < merges_wanted:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        pair, count = min(pairs.items(), key=lambda e: (-e[1], ids[e[0][0]], ids[e[0][1]]))
        if count < 2:
            break
        merges.append(pair)
        assert "".join(pair) not in ids, "choose another text: two merges make one token"
        ids["".join(pair)] = len(ids)
        rest, words = words, collections.Counter()
        for word, n in rest.items():
            words[joined(word, pair)] += n
    return ids, merges


def encode(text, ids, merges):
    ranks = {pair: i for i, pair in enumerate(merges)}
    out = []
    for piece in PATTERN.findall(text):
        word = spelled(piece)
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda p: ranks.get(p, len(ranks)))
            if best not in ranks:
                break
            word = joined(word, best)
        out += [ids[t] for t in word]
    return out


def main():
    rng = random.Random(1)
    text = ("It's the end of the world as we know it, they've said; and I'll say: don't, don't, don't!\n\n"
            "  The weather there was rather bad in 1987 and 1988   \t\n and they'd rather be together, whether or not.\n"
            "aaaaaaaa aaaa aaaaa banana bandana bananas\n"
            "Z\u00fcrich, na\u00efve caf\u00e9; \u65e5\u672c\u8a9e\u3002 \u0442\u0435\u043a\u0441\u0442 \u0442\u0435\u0441\u0442 "
            "x\u00b2 \u00bd \u0663\u0664 \u20ac5\n") * 2
    ids, merges = train(text, 120)
    samples = [text, "", " ", "  ", "\n\n a", "a \n", "'s't're've'm'll'd'S'", "we're !!  ?? ''", "\u00a0\u00a0x\u3000y",
               "e\u0301\u0928\u093f \U0001f600\U0001f600 \u4e2d1\u4e2d", "\x1c\x1d \x00 a\x00b"]
    kinds = "ab e'\t\n 1\u00b22!\u00e9\u4e2d\u00a0\u0301\u20ac.sthre"
    samples += ["".join(rng.choice(kinds) for _ in range(rng.randrange(40))) for _ in range(40)]
    golden = {"text": text, "merges": [" ".join(m) for m in merges],
              "samples": [{"text": s, "words": PATTERN.findall(s), "ids": encode(s, ids, merges)} for s in samples]}
    assert all("".join(s["words"]) == s["text"] for s in golden["samples"])
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bpe.json"), "w") as f:
        json.dump(golden, f)
        f.write("\n")


if __name__ == "__main__":
    main()
