#!/usr/bin/env python3
"""Checks the law of size and prints the table; `make law` runs it. Exits with 1 if a limit is exceeded.

Code lines are neither blank nor comment. Tests are only reported. A comment allows more: `// Long file: why` in a
file's first ten lines; `// Long parameter lists: why` in its opening comment; `// Long function: why` or
`// Long parameter list: why` in a function or directly above it.
"""
import itertools
import os
import re
import sys
from collections import Counter

FILE, FUNCTION, PARAMETERS, FOLDER, SPINE = 400, 50, 6, 25, 3500
ROOMS = {  # name: (limit, folders, folders left out)
    # 60 more than planned, for weights in bfloat16 and int8, and for the matrices that modules tell optimisers
    # about; core/debug/dot.cpp could go to examples. 240 for recompute(), without which a model's depth is limited
    # by the memory of its activations; core/tensor/segment.* and recompute.h would go. 80 for Jacobians, Hessians and
    # their products with vectors (core/tensor/derivatives.*), which would otherwise be loops over grad() in each program.
    # 25 so that AddressSanitizer's tests need not map each large block anew: the table of ops takes 0.4 of the time.
    # 15 so that messages about dtypes name the op, views of compressed weights print, and hooks keep their state.
    # 10 so that modules register no expanded tensors, which cannot be changed in place, and so that loading refuses them.
    # 16 so that hooks and backward() inside a recomputed function count once, and so that it may make leaves.
    # 12 so that programs can tell that memory ran out (naming() saves 44 elsewhere). 21 so that a tied tensor with two values is refused (7 of
    # these came from models/folder).
    "core without ops, kernels": (3976, ["core"], ["core/ops", "core/kernels"]),
    # More than planned: 40 for weights of binary cross entropies, squares and weights of margins, and low-rank updates
    # of linear layers (updated_linear). 640 for functions of tensors that students know from PyTorch: transposed and
    # one-dimensional convolutions (100), einsum (165), orderings and counts (median, quantile, unique, bincount,
    # nonzero, scatter: 120), cumprod (70), allclose, atan2, lerp, diag and smaller ones. Quantiles could go. 20 for
    # sizes beyond int64, which are refused, and for denormals, which kernels flush to 0.
    # 10 so that fractions are refused as counts, so that gradients of losses have finite gradients, and for a vector
    # that is also a bias of its feed-forward layer. 12 for gradients of gradients of norms whose squares overflow.
    "core/ops": (5742, ["core/ops"], []),
    # 30 more than planned, for panels that are packed while they are multiplied: steps of small models take 0.98 of
    # the time. 205 for Intel's AMX (products/amx.h): steps in bfloat16 take 0.4 to 0.7 of float32's time instead of 1.3
    # to 1.6. 68 so that rows of A are packed on Intel's processors: products in float32 are 7 to 60% faster.
    "core/kernels": (3803, ["core/kernels"], []),
    # 500 more than planned, for Muon, several optimisers as one, running means of weights, and the model's options
    # that save steps: a loss in a fifth of the steps. Adagrad and Lion could go. 250 for what Llama's family has
    # (sizes of heads, biases of queries, keys and values, frequencies of rotary positions), and for LoRA; 15 of these
    # for feed-forward layers that keep one hidden tensor, a quarter of the memory of a step. 190 for caches whose
    # sequences differ in length (many texts are generated at once), and for updates read from adapters. 180 for
    # probability distributions (nn/probability), for variational autoencoders and policy gradients. 10 so that the
    # layers of a Sequential draw their weights in the order written, whatever the compiler. 50 for Conv1d and
    # ConvTranspose2d. 100 for three steps of Muon at less than half the cost of five: the Polar Express, each head on its
    # own, tall matrices without transposes. 10 so that adapters find output layers that are tied to embeddings.
    # 25 so that layers, updates and states of other sizes or dtypes are refused before anything changes, and so that
    # means, gradients and states may share no memory with parameters. 24 so that options of layers that cannot be met are
    # refused before anything changes. 10 so that infinite options and counts near int64's limit are refused. 7 so that a
    # cache forgets the NaN of a sequence that was removed.
    "nn and optim without ranks": (3901, ["nn", "optim"], ["optim/parallel", "optim/mpi"]),
    # Not planned: one run on several machines.
    "optim/parallel, optim/mpi": (1150, ["optim/parallel", "optim/mpi"], []),
    "models without data, folder": (3500, ["models"], ["models/data", "models/folder"]),
    # 350 more than planned, for conversations as training data (models/data/chat), packed into rows. 15 so that texts
    # larger than memory are cut only where their tokenizer may be cut. 5 so that contrastive batches repeat no image. 15 for lists
    # of chat templates, and messages that name the text. 28 so that each conversation is drawn equally often, and so
    # that tokens are those of Hugging Face where a token has two merges, where bytes are not UTF-8, and where
    # SentencePiece adds no space to an answer.
    "models/data": (5401, ["models/data"], []),
    # 750 more than planned, for GGUF, which llama.cpp reads (models/folder/gguf); 240 of these for the tokenizers of
    # Llama's family in it: SentencePiece's (gguf_pieces) could go. 305 for adapters that PEFT reads and writes, and for
    # labels and special tokens. 25 so that weights of another model change nothing, and so that GGUF files keep the
    # chat template and the ends of texts. 8 so that no older file hides the tokenizer or the
    # template that is saved. 2 so that tokens that would take the spaces beside them are refused. 1 so that tokenizers
    # that end each text with a token are.
    "models/folder": (4080, ["models/folder"], []),
    # More than planned: 1,100 for the page of a run (examples/page): what a model does while it trains is seen, asked
    # and changed without a second program. Answers about images and the statistics of layers could go. 130 for
    # TensorBoard's event files (examples/logs); runs are compared there with those of other libraries. 300 for pictures
    # that explain themselves: words beside images (pictures/tiles), the loss of every step, marks of shapes and digits.
    # 80 for errors that name the flag that was meant, and the data that are missing; edit_distance could go. 670 for
    # four models that students ask for and the course leaves out (variational_autoencoder, diffusion, reinforce,
    # word_vectors), one file each: they show the library outside of transformers. reinforce could go. 50 so that no
    # request or question ends a run, and so that flags without effect are refused. 23 so that ranks write tokens once,
    # a refused run leaves them as they are, and data and captions that cannot be right are refused.
    # 5 so that view_run answers with the run's newest weights, and a request that was cut is told so.
    "examples": (9920, ["examples"], []),
}
LARGE_FOLDERS = {"core/ops", "tests/ops", "examples"}  # one file per family of ops, per program

LITERAL = re.compile(r'R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/',
                     re.DOTALL)


def bare_code(text):
    """The text without comments, literals and preprocessor lines; line numbers stay."""
    def blank(match):
        found = match.group()
        lines = "\n" * found.count("\n")
        return lines if found.startswith(("//", "/*")) else '""' + lines

    text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "", text)  # 1'000
    text = LITERAL.sub(blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"), text, flags=re.MULTILINE)


def code_lines(text):
    """The numbers of the lines that hold code, literals and preprocessor lines included."""
    def blank(match):
        found = match.group()
        return re.sub(r"[^\n]", "", found) if found.startswith(("//", "/*")) else found

    return {i for i, line in enumerate(LITERAL.sub(blank, text).split("\n"), 1) if line.strip()}


def parameter_count(head):
    """How many parameters the function declared by `head` has, or None if `head` declares no function."""
    head = re.sub(r"\boperator\s*(\(\)|[^\s(\w]+)", "operator_", head)
    match = re.search(r"[\w\]>]\s*\(", head)
    if not match or re.match(r"\s*(return|if|for|while|switch|using|static_assert|throw|else|case)\b", head):
        return None
    if re.search(r"(?<![=!<>])=(?!=)", head[:match.end()]):
        return None
    depth, count, empty = 0, 1, True
    for i in range(match.end(), len(head)):
        c = head[i]
        if c in "([{" or (c == "<" and head[i - 1] not in " <"):
            depth += 1
        elif c in ")]}" or (c == ">" and head[i - 1] not in " -"):
            if c == ")" and depth == 0:
                return 0 if empty else count
            depth -= 1
        elif c == "," and depth == 0:
            count += 1
        empty = empty and c.isspace()
    return None


def scope_of(head, outer):
    """What the brace after `head` opens: a namespace, type, function or block."""
    plain = re.sub(r"\btemplate\s*<[^{}]*?>\s*(?=[a-zA-Z\[:])", "", head)
    if outer not in ("namespace", "type"):
        return "block"
    if re.search(r"\bnamespace\b|\bextern\b\s*\"\"\s*$", plain):
        return "namespace"
    if re.search(r"\b(class|struct|union|enum)\b[^()]*$", plain) and not re.search(r"\)\s*(const)?\s*$", plain):
        return "type"
    return "function" if parameter_count(plain) is not None else "block"


def functions(text):
    """Yields (first line, last line, parameters) of each function; a declaration ends where it begins."""
    stack, head, start = ["namespace"], "", 1
    opened = []
    line = 1
    for c in bare_code(text):
        if c == "\n":
            line += 1
        if c == "{":
            scope = scope_of(head, stack[-1])
            opened.append((start, parameter_count(head)) if scope == "function" else None)
            stack.append(scope)
        elif c == "}":
            if len(stack) == 1:
                raise ValueError(f"line {line}: a brace too many")
            stack.pop()
            function = opened.pop()
            if function:
                yield function[0], line, function[1] or 0
        elif c == ";" and stack[-1] in ("namespace", "type"):
            count = parameter_count(head)
            if count is not None:
                yield start, start, count
        if c in "{};":
            head = ""
            continue
        if not head.strip():
            start = line
            head = ""
        head += c


def lambda_parameters(text):
    """Yields (line, parameters) of each lambda."""
    code = bare_code(text)
    for match in re.finditer(r"\]\s*\(", code):
        count = parameter_count("f" + code[match.end() - 1:match.end() + 2000])
        yield code.count("\n", 0, match.start()) + 1, count or 0


def excused(lines, first, last):
    """True if a comment in these lines, or in the comment above them, says why they are long."""
    first -= 1
    while first > 0 and re.match(r"\s*(//|template|\[\[)", lines[first - 1]):
        first -= 1
    return any(re.search(r"// ?Long (file|function|parameter lists?): \w", line) for line in lines[first:last])


def excused_by_opening(lines):
    """True if the file's opening comment says why its parameter lists are long."""
    comment = itertools.takewhile(lambda line: line.startswith(("//", "#pragma once")), lines)
    return any(line.startswith("// Long parameter lists: ") for line in comment)


def check_file(path):
    """Returns the file's code lines and a list of what exceeds a limit."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    lines, code, problems = text.split("\n"), code_lines(text), []
    wide = sys.maxsize if path.startswith("tests/") or excused_by_opening(lines) else PARAMETERS
    if len(code) > FILE and not excused(lines, 1, 10):
        problems.append(f"{path}: {len(code)} lines of code, at most {FILE}")
    for first, last, parameters in functions(text):
        size = sum(first <= i <= last for i in code)
        if size > FUNCTION and not excused(lines, first, last):
            problems.append(f"{path}:{first}: a function of {size} lines, at most {FUNCTION}")
        if parameters > wide and not excused(lines, first, last):
            problems.append(f"{path}:{first}: {parameters} parameters, at most {PARAMETERS}")
    for line, parameters in lambda_parameters(text):
        if parameters > wide and not excused(lines, line, line + 2):
            problems.append(f"{path}:{line}: a lambda of {parameters} parameters, at most {PARAMETERS}")
    return len(code), problems


def spine():
    """The files of the README's weekend's reading, in reading order."""
    with open("README.md", encoding="utf-8") as f:
        section = re.search(r"^## A weekend's reading\n(.*?)^## ", f.read(), re.MULTILINE | re.DOTALL)
    return re.findall(r"`([a-z_/]+\.(?:h|cpp))`", section.group(1)) if section else []


def row(name, value, limit, problems):
    mark = "" if value <= limit else "   too many"
    print(f"{name:<30}{value:>7} of {limit:>5}{mark}")
    if mark:
        problems.append(f"{name}: {value}, at most {limit}")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    sizes, problems, notes, folders = {}, [], [], Counter()
    for room in ("core", "nn", "optim", "models", "examples", "tests"):
        for folder, _, names in os.walk(room):
            for name in sorted(names):
                folders[folder] += not name.endswith(".pyc")
                if name.endswith((".h", ".cpp")):
                    path = os.path.join(folder, name)
                    sizes[path], found = check_file(path)
                    (notes if room == "tests" else problems).extend(found)

    def total(inside, outside):
        return sum(n for path, n in sizes.items() if any(path.startswith(f + "/") for f in inside) and
                   not any(path.startswith(f + "/") for f in outside))

    print("Lines of code in the spine, the README's weekend's reading:")
    files = spine()
    for path in files:
        print(f"  {path:<36}{sizes.get(path, 0):>5}")
        if path not in sizes:
            problems.append(f"README.md: {path} does not exist")
    row("the spine", sum(sizes.get(path, 0) for path in files), SPINE, problems)
    if not files:
        problems.append("README.md: no files in the section \"A weekend's reading\"")
    print("\nand in the rooms:")
    for name, (limit, inside, outside) in ROOMS.items():
        row(name, total(inside, outside), limit, problems)
    print(f"{'tests':<30}{total(['tests'], []):>7}")
    for folder, count in sorted(folders.items()):
        if count > FOLDER and folder not in LARGE_FOLDERS:
            problems.append(f"{folder}: {count} files, at most {FOLDER}")
    print("\nTests beyond the limits, which are only reported:", *(notes or ["none"]), sep="\n  ")
    print(f"\nThe law of size: {len(sizes)} files, {len(problems)} beyond a limit", *problems, sep="\n  ")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
