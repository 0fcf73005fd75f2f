#!/usr/bin/python3
"""Makes models/data/tokenizers/unicode_tables.h from Python's unicodedata (Python 3.11: Unicode 14).

usage: /usr/bin/python3 tests/golden/scripts/make_unicode_tables.py > models/data/tokenizers/unicode_tables.h; make format
"""
import unicodedata

SPACE = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(9, 14), *range(0x2000, 0x200B)}
CODES = {"L": 0, "N": 1, "Mn": 3, "M": 4, "P": 5, "C": 6, "S": 7, "Z": 7}  # models/data/tokenizers/utf8.h's Category


def code(c):
    category = unicodedata.category(chr(c))
    if category in ("Cn", "Cs"):
        return None
    return 2 if c in SPACE else CODES.get(category, CODES[category[0]])


def changes():
    last = None
    for c in range(0x80, 0x110000):
        now = code(c)
        if now not in (None, last):
            last = now
            yield c * 8 + now


def decompositions():
    """What canonical decomposition without nonspacing marks makes another: the code point, and one or two others."""
    for c in range(0x80, 0x110000):
        if 0xAC00 <= c < 0xE000:  # Hangul has a formula; surrogates
            continue
        parts = [ord(x) for x in unicodedata.normalize("NFD", chr(c)) if unicodedata.category(x) != "Mn"]
        assert parts or unicodedata.category(chr(c)) == "Mn"
        if parts and parts != [c]:
            if len(parts) > 2:  # which only pairs of a pair and another have
                parts = [int(x, 16) for x in unicodedata.decomposition(chr(c)).split()]
            yield c, parts


def is_short(c, parts):
    return len(parts) == 1 and max(c, *parts) < 1 << 16


def bases():
    return [c << 16 | parts[0] for c, parts in decompositions() if is_short(c, parts)]


def pairs():
    for c, (first, *second) in decompositions():
        if not is_short(c, [first, *second]):
            yield c << 42 | first << 21 | sum(second)


def capitals():
    """Ranges (first, last, what is added, step) of letters with one lower-case form, every second one where capitals alternate."""
    left = {c: ord(chr(c).lower()) - c for c in range(0x41, 0x110000) if not 0xD800 <= c < 0xE000 and len(chr(c).lower()) == 1}
    left = {c: added for c, added in left.items() if added}
    while left:
        first = last = min(left)
        added = left.pop(first)
        step = 2 if added == 1 else 1
        while left.get(last + step) == added:
            last += step
            del left[last]
        yield f"{{{first:#x}, {last:#x}, {added}, {step}}}"


def table(name, about, numbers, kind="uint32_t"):
    rows = ", ".join(hex(n) for n in numbers)
    return f"{about}\ninline constexpr {kind} {name}[] = {{{rows}}};\n"


print("""#pragma once
// Tables of Unicode 14, made by tests/golden/scripts/make_unicode_tables.py. No public header includes
// this.
// long: generated tables

#include <cstdint>

namespace gradus::models::internal {
""")
print(table("category_changes", """// Where the category changes, from U+0080 on: the first code point of its category times 8, plus the
// category. Unassigned code points (Cn) and surrogates (Cs) change nothing.""", changes()))
print(table("base_letters", """// Characters whose canonical decomposition is one code point and nonspacing marks, both below U+10000:
// the character times 2^16, plus that code point. Without Hangul.""", bases()))
print(table("other_decompositions", """// All others: the character times 2^42, plus the first code point times 2^21, plus the second, if any.
// The first may decompose itself.""", pairs(), "uint64_t"))
print(f"""struct Capitals {{
  char32_t first, last;
  int32_t to_lower;  // added to the code point
  char32_t step;     // 2: every second one, followed by its lower-case form
}};
inline constexpr Capitals capitals[] = {{{", ".join(capitals())}}};
""")
print("}  // namespace gradus::models::internal")
