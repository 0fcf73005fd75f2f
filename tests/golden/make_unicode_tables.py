#!/usr/bin/python3
"""Makes models/data/unicode_tables.h from Python's unicodedata (Python 3.11: Unicode 14); clang-format lays it out.

usage: /usr/bin/python3 make_unicode_tables.py > ../../models/data/unicode_tables.h
"""
import unicodedata

SPACE = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(9, 14), *range(0x2000, 0x200B)}
CODES = {"L": 0, "N": 1, "Mn": 3, "M": 4, "P": 5, "C": 6, "S": 7, "Z": 7}  # models/data/utf8.h's Category


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


def bases():
    for c in range(0x80, 0xF900):
        if 0xAC00 <= c < 0xE000:  # Hangul has a formula; surrogates
            continue
        parts = [x for x in unicodedata.normalize("NFD", chr(c)) if unicodedata.category(x) != "Mn"]
        if len(parts) == 1 and parts[0] != chr(c) and c not in SPACE:
            yield c << 16 | ord(parts[0])


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


def table(name, about, numbers):
    rows = ", ".join(hex(n) for n in numbers)
    return f"{about}\ninline constexpr uint32_t {name}[] = {{{rows}}};\n"


print("""#pragma once
// Tables of Unicode 14, made by tests/golden/make_unicode_tables.py. For the library's own use: no
// public header includes this.

#include <cstdint>

namespace gradus::models::detail {
""")
print(table("category_changes", """// Where the category changes, from U+0080 on: the first code point of its category times 8, plus the
// category; code points that are not assigned (Cn) or no characters (Cs) change nothing.""", changes()))
print(table("base_letters", """// Letters whose canonical decomposition is one code point and nonspacing marks: the letter times 2^16,
// plus that code point. Without Hangul, and the compatibility ideographs from U+F900 on.""", bases()))
print(f"""struct Capitals {{
  char32_t first, last;
  int32_t to_lower;  // what is added
  char32_t step;     // 2: every second one, its lower-case form beside it
}};
inline constexpr Capitals capitals[] = {{{", ".join(capitals())}}};
""")
print("}  // namespace gradus::models::detail")
