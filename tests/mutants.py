"""Plants faults in the library, one at a time, and runs the tests that execute the changed line.

usage: python3 tests/mutants.py [--count 60] [--seed 1] [--skip 0] [--rooms nn optim] [--cxx g++]

It works on a copy of the sources, build/mutants/tree; the sources themselves stay as they are. The first run compiles
the copy twice: as it is, and with gcov's counters, to learn which lines each file of tests executes. A fault is a small
change of one line: a sign, a factor, a comparison, an axis, a condition, a bool, or a lost statement. For each it prints
whether a test noticed, and which. What no test noticed is either equivalent, a matter of speed, or a missing test.
tests/mutants_judged.json says why no test can notice some faults; these are reported as judged.

Left out: tests of programs, tests tagged [learns], headers that many files include, and the room optim/mpi.
"""
import argparse
import concurrent.futures
import functools
import glob
import itertools
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
HOME = os.path.join(SOURCE, "build", "mutants")
TREE = os.path.join(HOME, "tree")
COUNTS = os.path.join(HOME, "counts")
JUDGED = os.path.join(SOURCE, "tests", "mutants_judged.json")

sys.path.insert(0, os.path.join(SOURCE, ".ci"))
from law import LITERAL  # noqa: E402

ROOMS = ["core/kernels", "core/ops", "core/tensor", "core/runtime", "core/files", "nn", "optim", "models",
         "models/generation", "models/folder", "models/data"]
WIDE = 40  # a header that more files include is left out
COUNTING = 60  # seconds; tests that take longer with counters are taken to execute every line

# Name, pattern, replacement. A pattern matches in code alone: comments, literals and messages are blank.
FAULTS = [
    ("sign", r" \+ ", " - "),
    ("sign", r" - ", " + "),
    ("sign", r" \+= ", " -= "),
    ("sign", r" -= ", " += "),
    ("sign", r"(?<=[(=,] )-(?=[a-zA-Z(])|(?<=\()-(?=[a-zA-Z(])|(?<=return )-(?=[a-zA-Z(])", ""),
    ("factor", r" \* (?!=)", " / "),
    ("factor", r" / ", " * "),
    ("factor", r"(?<![\w.])(\d+\.\d+)(?![\w.])", r"(1.25 * \1)"),
    ("off by one", r"(?<= )= 0;", "= 1;"),
    ("off by one", r" < ", " <= "),
    ("off by one", r" <= ", " < "),
    ("off by one", r" > ", " >= "),
    ("off by one", r" >= ", " > "),
    ("off by one", r" \+ 1\b", ""),
    ("off by one", r" - 1\b", ""),
    ("equality", r" == ", " != "),
    ("equality", r" != ", " == "),
    ("condition", r"\bif \((?!constexpr)", "if (false && "),
    ("condition", r"\bif \(!", "if ("),
    ("condition", r" \? ", " && false ? "),
    ("condition", r" && ", " || "),
    ("condition", r" \|\| ", " && "),
    ("axis", r"(?<=[(, ])-1(?=[,)])", "-2"),
    ("axis", r"(?<=\bsize\()0(?=\))", "1"),
    ("axis", r"(?<=\bsize\()1(?=\))", "0"),
    ("min, max", r"\bstd::min\b", "std::max"),
    ("min, max", r"\bstd::max\b", "std::min"),
    ("option", r"\btrue\b", "false"),
    ("option", r"\bfalse\b", "true"),
    ("lost statement", r"^ +[a-z][\w.\[\]>-]* [-+*/|]?= [^;{}]*;$", " ;"),
    ("lost statement", r"^ +(?!return|throw|using|check)[a-z][\w.:>-]*\([^;{}]*\);$", " ;"),
]


def code_of(text):
    """The text with blanks for comments, literals, preprocessor lines, and messages of check() and throw."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    text = LITERAL.sub(blank, text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|\b(throw|static_assert|template|using)\b[^;{]*|\bfail\([^;]*", blank, text,
                  flags=re.MULTILINE)
    out = list(text)
    for call in re.finditer(r"\bcheck\(", text):
        depth, message = 1, False
        for i in range(call.end(), len(text)):
            depth += (text[i] in "([{") - (text[i] in ")]}")
            if depth == 0:
                break
            message = message or (depth == 1 and text[i] == ",")
            if message and text[i] != "\n":
                out[i] = " "
    return "".join(out)


def read(path):
    with open(os.path.join(TREE, path), encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(os.path.join(TREE, path), "w", encoding="utf-8") as f:
        f.write(text)


def same(a, b):
    if not os.path.exists(b):
        return False
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read()


def copy_sources(coverage):
    """Brings the copy up to date; files that did not change keep their times."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE,
                            check=True, capture_output=True).stdout.decode().split("\0")
    names = {name for name in listed if name and os.path.isfile(os.path.join(SOURCE, name))}
    for folder, folders, files in os.walk(TREE):
        folders[:] = [f for f in folders if (folder, f) != (TREE, "build")]
        for name in files:
            if os.path.relpath(os.path.join(folder, name), TREE) not in names:
                os.remove(os.path.join(folder, name))
    changed = [name for name in names if not same(os.path.join(SOURCE, name), os.path.join(TREE, name))]
    coverage.forget(changed)
    for name in changed:
        os.makedirs(os.path.dirname(os.path.join(TREE, name)), exist_ok=True)
        shutil.copy(os.path.join(SOURCE, name), os.path.join(TREE, name))


def make(cxx, *arguments):
    env = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", f"CXX={cxx}", *arguments], cwd=TREE, env=env, capture_output=True, text=True,
                          check=False)


def must_make(cxx, *arguments):
    made = make(cxx, *arguments)
    if made.returncode != 0:
        sys.exit(f"mutants: make {' '.join(arguments)} failed without a fault:\n{made.stderr[-2000:]}")


def test_files():
    """The files of tests, without those of programs."""
    paths = glob.glob("tests/**/*.cpp", root_dir=TREE, recursive=True)
    return sorted({os.path.basename(path)[:-4] for path in paths if not path.startswith("tests/programs/")
                   and re.search(r"^(TEMPLATE_)?TEST_CASE", read(path), re.MULTILINE)})


def run_test(binary, test, limit, *options, env=None, cpu=None):
    """Runs one file of tests with Catch2's options, on one processor if it is given. Returns what is wrong, or None."""
    on_cpu = [] if cpu is None else ["taskset", "-c", str(cpu)]
    command = [*on_cpu, os.path.join(TREE, binary), "-#", f"[#{test}]~[.]~[learns]", *options]
    try:
        done = subprocess.run(command, cwd=TREE, capture_output=True, timeout=limit, check=False,
                              env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired:
        return f"no end in {limit:.0f} s"
    if b"No test cases matched" in done.stdout or b"No tests ran" in done.stdout:
        return None
    return None if done.returncode == 0 else "fails" if done.returncode > 0 else f"signal {-done.returncode}"


class Coverage:
    """Which tests execute a line, and how long each file of tests runs (from build/mutants/counts)."""

    def __init__(self):
        self.seconds, self.failing, self.slow = {}, [], []
        if os.path.exists(self.index):
            with open(self.index, encoding="utf-8") as f:
                self.seconds, self.failing, self.slow = json.load(f)

    index = os.path.join(HOME, "tests.json")

    def save(self):
        with open(self.index, "w", encoding="utf-8") as f:
            json.dump([self.seconds, self.failing, self.slow], f)

    def forget(self, changed):
        """Drops what was counted before these files changed: one test's, or all, if the library or a header changed."""
        tests = {os.path.basename(name)[:-4] for name in changed if name.startswith("tests/")}
        rest = [name for name in changed if name.endswith(".h") or (name.endswith(".cpp") and not name.startswith("tests/"))]
        for test in list(self.seconds):
            if rest or test in tests:
                del self.seconds[test]
                shutil.rmtree(os.path.join(COUNTS, test), ignore_errors=True)
        self.failing = [test for test in self.failing if test in self.seconds]
        self.slow = [test for test in self.slow if test in self.seconds]
        os.makedirs(HOME, exist_ok=True)
        self.save()

    def measure(self, end):
        """Runs the tests that have not been run yet, one on each processor. False if `end` came first."""
        def run(test):
            if time.monotonic() > end:
                return None
            cpu = free.get()
            begin, slow, failing = time.monotonic(), False, False
            counts = {"GCOV_PREFIX": os.path.join(COUNTS, test)}
            wrong = run_test("build/coverage/bin/tests", test, COUNTING, env=counts, cpu=cpu)
            if wrong:  # it is slow with counters, or rounds otherwise
                slow, begin = wrong.startswith("no end"), time.monotonic()
                failing = run_test("build/bin/tests", test, 600, cpu=cpu) is not None
            free.put(cpu)
            return test, time.monotonic() - begin, slow, failing

        free = queue.SimpleQueue()  # of processors: threads of one test would wait for each other's counters
        for cpu in os.sched_getaffinity(0):
            free.put(cpu)
        with concurrent.futures.ThreadPoolExecutor(free.qsize()) as pool:
            for done in pool.map(run, [test for test in test_files() if test not in self.seconds]):
                if done:
                    test, self.seconds[test], slow, failing = done
                    self.slow += [test] * slow
                    self.failing += [test] * failing
                    self.save()
        return len(self.seconds) == len(test_files())

    @functools.lru_cache(maxsize=None)
    def executed(self, test, unit):
        """The lines that the test executes in the object `unit` (core/ops/linear, nn): {(file, line): executed}."""
        notes = os.path.join(TREE, "build/coverage/obj", unit + ".gcno")
        data = os.path.join(COUNTS, test) + os.path.splitext(notes)[0] + ".gcda"
        if not os.path.exists(data):
            return {}
        link = os.path.splitext(data)[0] + ".gcno"
        if not os.path.exists(link):
            os.symlink(notes, link)
        found = subprocess.run(["gcov", "-r", "--json-format", "--stdout", data], cwd=TREE, capture_output=True, check=False)
        lines = {}
        for file in json.loads(found.stdout or "{}").get("files", []):
            name = re.sub(r"^(\./)?(build/include/gradus/)?", "", file["file"])
            for line in file["lines"]:
                key = name, line["line_number"]
                lines[key] = lines.get(key, False) or line["count"] > 0
        return lines

    def tests(self, path, line, units):
        """The tests that execute the line: those that should notice most likely first, then by time.

        Constants and members with defaults have no code of their own: for a line without code, the tests of the last
        line with code come first, then those that execute anything in the file or in its header or .cpp; if neither has
        code, in the objects.
        """
        of = os.path.splitext(path)[0]

        def rank(test):
            best = 2
            for unit in units:
                lines = self.executed(test, unit)
                near = next((n for n in range(line, line - 6, -1) if (path, n) in lines), 0)
                if near and lines[path, near]:
                    return 0
                pair = [count for (file, _), count in lines.items() if os.path.splitext(file)[0] == of]
                if near != line and any(pair or lines.values()):
                    best = 1
            return 0 if test in self.slow else best

        stem = os.path.splitext(os.path.basename(path))[0]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda pair: self.executed(*pair), itertools.product(self.seconds, units)))
        ranks = {t: rank(t) for t in self.seconds if t not in self.failing}
        return sorted((t for t in ranks if ranks[t] < 2),
                      key=lambda t: (not t.startswith(stem), ranks[t], self.seconds[t]))


@functools.lru_cache(maxsize=None)
def includers():
    """{header: the objects of the library that include it}."""
    users = {}
    for folder, _, names in os.walk(os.path.join(TREE, "build", "obj")):
        for name in names:
            unit = os.path.relpath(os.path.join(folder, name[:-2]), os.path.join(TREE, "build", "obj"))
            if name.endswith(".d") and not unit.startswith(("tests/", "examples/")):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    for header in set(re.findall(r"build/include/gradus/(\S+\.h)\b", f.read())):
                        if any(os.path.exists(os.path.join(TREE, unit + end)) for end in (".cpp", "/")):
                            users.setdefault(header, set()).add(unit)
    return users


def units_of(path):
    """The objects that contain a file. The Makefile compiles most folders as one."""
    if path.endswith(".h"):
        return includers().get(path, set())
    alone = os.path.exists(os.path.join(TREE, "build/obj", path[:-4] + ".o"))
    return {path[:-4] if alone else os.path.dirname(path)}


def room_of(path):
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default=None)


def sites(room):
    """Every (path, line, fault) that can be planted in a room."""
    found = []
    for folder, _, names in sorted(os.walk(os.path.join(TREE, room))):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), TREE)
            if (not name.endswith((".cpp", ".h")) or room_of(path) != room or path.startswith("optim/mpi/")
                    or not 1 <= len(units_of(path)) <= WIDE):
                continue
            for i, line in enumerate(code_of(read(path)).split("\n")):
                found += [(path, i, fault) for fault in FAULTS if re.search(fault[1], line)]
    return found


def draw(rooms, seed):
    """Yields faults without end, from each room in turn; a line and a kind of fault are drawn at a time."""
    random_ = random.Random(seed)
    by_line = {}
    for room in rooms:
        for path, i, fault in sites(room):
            by_line.setdefault(room, {}).setdefault((path, i), []).append(fault)
    lines = {room: random_.sample(sorted(of_room), len(of_room)) for room, of_room in by_line.items()}
    while any(lines.values()):
        for room in lines:
            if lines[room]:
                path, i = lines[room].pop()
                fault = random_.choice(by_line[room][path, i])
                where = [m.span() for m in re.finditer(fault[1], code_of(read(path)).split("\n")[i])]
                yield path, i, fault, random_.choice(where)


def plant(text, i, fault, span):
    """The text with the fault in its line i, and both lines."""
    lines = text.split("\n")
    old = lines[i]
    if fault[0] == "lost statement":
        lines[i] = ";"
    else:
        part = old[span[0]:span[1]]
        lines[i] = old[:span[0]] + re.sub(r"(\d+\.\d+)", fault[2], part) + old[span[1]:] \
            if "\\1" in fault[2] else old[:span[0]] + fault[2] + old[span[1]:]
    return "\n".join(lines), old.strip(), lines[i].strip()


class Planted:
    """A context in which the copy holds a changed file. At its end the file and its objects are as before.

    The file keeps its time, so that make compiles the library's objects, which are gone, and no test. If no test
    notices a fault in a header, everything that includes it is compiled: see everywhere().
    """

    def __init__(self, path, text):
        self.path, self.text, self.original, self.everywhere_ = path, text, read(path), False
        self.objects = {f"build/obj/{unit}.o": None for unit in units_of(path)}

    def __enter__(self):
        for name in self.objects:
            with open(os.path.join(TREE, name), "rb") as f:
                self.objects[name] = f.read()
            os.remove(os.path.join(TREE, name))
        self.replace(self.text)
        return self

    def replace(self, text):
        path = os.path.join(TREE, self.path)
        times = os.stat(path)
        write(self.path, text)
        if not self.everywhere_:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def everywhere(self):
        """Lets make compile the tests too, now and again at the end."""
        self.everywhere_ = True
        self.replace(self.text)

    def same_code(self):
        for name, before in self.objects.items():
            with open(os.path.join(TREE, name), "rb") as f:
                if f.read() != before:
                    return False
        return True

    def __exit__(self, *_):
        for name in self.objects:  # an interrupted __exit__ leaves no object with the fault
            if os.path.exists(os.path.join(TREE, name)):
                os.remove(os.path.join(TREE, name))
        self.replace(self.original)
        for name, content in self.objects.items():
            with open(os.path.join(TREE, name), "wb") as f:
                f.write(content)


def judge(cxx, path, text, tests, coverage, limit):
    """What became of a fault: (kind, detail)."""
    def run_tests():
        left = limit
        for done, test in enumerate(tests):
            if done > 0 and coverage.seconds[test] > left:
                return "unnoticed", f"in {done} of {len(tests)} tests, those of {limit} s"
            begin = time.monotonic()
            wrong = run_test("build/bin/tests", test, 3 * coverage.seconds[test] + 10, "--abort")
            left -= time.monotonic() - begin
            if wrong:
                return "noticed", f"{test} {wrong}"
        return "unnoticed", f"by {len(tests)} tests"

    if not tests:
        return "unnoticed", "no test executes the line"
    with Planted(path, text) as planted:
        if make(cxx, "BUILD=build", "build/bin/tests").returncode != 0:
            return "not compiled", ""
        if planted.same_code():
            return "same code", ""
        kind, detail = run_tests()
        if kind == "unnoticed" and path.endswith(".h"):
            planted.everywhere()
            made = make(cxx, "BUILD=build", "build/bin/tests")
            kind, detail = run_tests() if made.returncode == 0 else ("noticed", "when a test is compiled")
    return kind, detail


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of faults")
    parser.add_argument("--skip", type=int, default=0, help="faults of this seed to leave out first")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no fault is planted later")
    parser.add_argument("--limit", type=float, default=60, help="seconds of tests for a fault")
    parser.add_argument("--most-objects", type=int, default=WIDE,
                        help="leave out faults in headers that more objects include: each compiles them all")
    parser.add_argument("--cxx", default="g++")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a planted fault is then removed
    end = time.monotonic() + options.seconds
    coverage = Coverage()
    copy_sources(coverage)
    must_make(options.cxx, "BUILD=build", "build/bin/tests")
    must_make(options.cxx, "COVERAGE=1", "BUILD=build/coverage", "build/coverage/bin/tests")
    if not coverage.measure(end):
        sys.exit(f"mutants: {len(coverage.seconds)} of {len(test_files())} files of tests counted, start again")
    print(f"{len(coverage.seconds)} files of tests, {sum(coverage.seconds.values()):.0f} s;"
          f" failing without a fault, and left out: {', '.join(coverage.failing) or 'none'}")
    with open(JUDGED, encoding="utf-8") as f:
        judged = {(entry["file"], entry["line"], entry["fault"]): entry["why"] for entry in json.load(f)}
    kinds = {}
    for number, (path, i, fault, span) in enumerate(draw(options.rooms, options.seed)):
        if number < options.skip:
            continue
        if number >= options.skip + options.count or time.monotonic() > end:
            break
        if len(units_of(path)) > options.most_objects:
            continue
        begin = time.monotonic()
        text, old, new = plant(read(path), i, fault, span)
        tests = coverage.tests(path, i + 1, units_of(path))
        kind, detail = judge(options.cxx, path, text, tests, coverage, options.limit)
        if kind == "unnoticed" and (path, old, new) in judged:
            kind, detail = "judged", judged[path, old, new]
        kinds[kind] = kinds.get(kind, 0) + 1
        print(f"{number:4} {kind:12} {path}:{i + 1} ({fault[0]}, {time.monotonic() - begin:.0f} s) {detail}\n"
              f"      - {old}\n      + {new}", flush=True)
    print(f"{sum(kinds.values())} faults: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))


if __name__ == "__main__":
    main()
