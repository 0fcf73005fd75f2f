# gradus is built with GNU make: `make` builds the library, `make help` lists all targets and variables.
#
#: Variables, for example: make test CXX=clang++ DEBUG=1
#:
#:   CXX       the compiler: g++ (the default) or clang++
#:   ARCH      the target processor, as in the compiler's -march. The default is native: everything that
#:             this machine's processor can do, so an older one may stop with an illegal instruction.
#:             For binaries to distribute: x86-64-v3 (AVX2 and FMA: Intel since 2013, AMD since 2015),
#:             x86-64-v4 (AVX-512), x86-64 (any), or on Arm armv8-a (any; the default of a
#:             cross-compiler, CXX=aarch64-linux-gnu-g++)
#:   DEBUG     1: build for a debugger, with the standard library's assertions (-Og -g)
#:   SANITIZE  sanitizers: address,undefined (make fuzz uses clang++ and
#:             address,undefined,fuzzer-no-link)
#:   COVERAGE  1: count how often each line of the library runs, for gcov
#:
#: Each combination of these has its own folder under build/. Other variables:
#:
#:   MPI       1: also build libgradus_mpi.so, for training with several processes (mpirun)
#:   WERROR    1: treat compiler warnings as errors
#:   V         1: print whole command lines
#:   CPPFLAGS, CXXFLAGS, LDFLAGS   additional flags
#:   ROOM      the room whose tests to build and run: core, ops, nn, optim, models, data or programs
#:   TESTS     test files to build and run: training_test modes_test (default: all)
#:   SKIP      tests to leave out, by tag: [learns] trains models to a stated quality
#:   LIMIT     seconds after which each room's run of tests is ended (default 7200)
#:   FUZZ      targets of make fuzz, such as png (default: all)
#:   SECONDS   time for each fuzz target (default 60)
#:   COUNT, SEED   the number of faults of make mutants (default 60), and the seed of their choice (1)
#:   TRACK, DATA   the track of make race (default fixed; open, a100, digits, cifar10) and its data: a text,
#:             mnist:DIR or cifar10:DIR
#:   PREFIX    where make install puts the library (default /usr/local). Without ARCH it runs on any
#:             processor of this family, and the shared library is also installed for x86-64-v3 and
#:             -v4: the system's loader picks the one that fits
#:   DESTDIR   a staging folder for packagers, prepended to PREFIX
#:
#: make runs as many jobs at a time as there are processors, or two with -j2.

# The machine to build for. A cross-compiler's is another one than ours: build for any of its family.
machine := $(firstword $(subst -, ,$(shell $(CXX) -dumpmachine 2>/dev/null || uname -m)))
generic_x86_64 := x86-64
generic_aarch64 := armv8-a
cross := $(filter-out $(shell uname -m),$(machine))
ARCH ?= $(if $(cross),$(generic_$(machine)),native)
PKG_CONFIG ?= $(if $(cross),$(shell $(CXX) -dumpmachine)-)pkg-config
PREFIX ?= /usr/local
SECONDS ?= 60
COUNT ?= 60
SEED ?= 1
LIMIT ?= 7200
TRACK ?= fixed
empty :=
space := $(empty) $(empty)
comma := ,
hash := \#
define newline


endef

# Use all processors unless the caller gives -j; keep each recipe's output together.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2) --output-sync=target
endif

# ---- where things go ----

compiler := $(notdir $(lastword $(CXX)))
variant := $(strip $(filter-out g++,$(compiler)) $(filter-out native,$(ARCH)) \
  $(if $(filter-out 0,$(DEBUG)),debug) $(subst $(comma),-,$(SANITIZE)) $(if $(filter-out 0,$(COVERAGE)),coverage))
BUILD := build$(addprefix /,$(subst $(space),-,$(variant)))

LIBRARY_SRC := $(sort $(wildcard core/*/*.cpp core/*/*/*.cpp nn/*.cpp nn/*/*.cpp optim/*.cpp optim/parallel/*.cpp \
  models/*.cpp models/*/*.cpp models/*/*/*.cpp))
SUPPORT_SRC := $(sort $(wildcard examples/*/*.cpp))
PROGRAM_SRC := $(sort $(wildcard examples/*.cpp))
# The longest come first: make test runs them in this order.
test_rooms := programs ops models data core nn optim
test_files := $(foreach room,$(or $(ROOM),$(test_rooms)),$(wildcard tests/$(room)/*.cpp tests/$(room)/*/*.cpp))
# Tests are selected by the names of their files.
$(if $(filter-out $(words $(sort $(notdir $(test_files)))),$(words $(test_files))),$(error two test files have the same name))
TEST_SRC := $(wildcard tests/support/*.cpp) $(sort $(if $(TESTS), \
  $(foreach test,$(TESTS),$(or $(filter %/$(test).cpp,$(test_files)),$(error no test file $(test)))),$(test_files)))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/*.cpp))
RANDOM_SRC := $(sort $(wildcard tests/random_programs/*.cpp))
TWIN_SRC := tests/bench/twin_data.cpp
ONNX_SRC := tests/onnx/cases.cpp
TOKENIZER_SRC := tests/tokenizers/ids.cpp
BENCH_SRC := $(filter-out $(TWIN_SRC),$(sort $(wildcard tests/bench/*.cpp)))
SOURCES := $(LIBRARY_SRC) $(SUPPORT_SRC) $(PROGRAM_SRC) $(TEST_SRC) $(BENCH_SRC) $(TWIN_SRC) $(ONNX_SRC) $(TOKENIZER_SRC) \
  $(FUZZ_SRC) $(RANDOM_SRC)
objects = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(1))
# A folder's sources are compiled as one file, in a third of the time: they include the same headers. Those of
# core/ops and core/kernels take their time in code of their own, and are compiled one by one.
apart := core/ops/% core/kernels/%
units = $(basename $(filter $(apart),$(1))) $(patsubst %/,%,$(sort $(dir $(filter-out $(apart),$(1)))))
unit_objects = $(patsubst %,$(BUILD)/obj/%.o,$(call units,$(1)))
SUPPORT_OBJ := $(call unit_objects,$(SUPPORT_SRC))
# make install compiles only what computes for each processor level, and takes the rest from BASE.
BASE := $(BUILD)
computes := core/debug/% core/tensor/% core/kernels/% core/ops/% nn/% optim/%
LIBRARY_OBJ := $(patsubst %,$(BUILD)/obj/%.o,$(call units,$(filter $(computes),$(LIBRARY_SRC)))) \
  $(patsubst %,$(BASE)/obj/%.o,$(call units,$(filter-out $(computes),$(LIBRARY_SRC))))

STATIC := $(BUILD)/lib/libgradus.a
SHARED := $(BUILD)/lib/libgradus.so
SUPPORT := $(BUILD)/obj/support.a
# Training programs load it when mpirun starts them.
MPI_LIBRARY := $(BUILD)/lib/libgradus_mpi.so
MPICXX ?= mpicxx
PROGRAMS := $(patsubst examples/%.cpp,$(BUILD)/bin/%,$(PROGRAM_SRC))

# Users include <gradus/gradus.h> or <gradus/core/core.h>; so do we, through links to the rooms.
ROOMS := core nn optim models
LINKS := $(addprefix build/include/gradus/,$(ROOMS) gradus.h)

# Files that become part of a program, as string literals: attention_page.html.inc.
EMBEDDED := $(patsubst examples/%,build/embedded/%.inc,$(wildcard examples/*/*.html))

# ---- how things are compiled ----

version := $(shell awk '/define GRADUS_VERSION_(MAJOR|MINOR|PATCH)/ { printf dot $$3; dot = "." }' core/version.h)
# The SONAME's version.
abi := $(basename $(version))

# $(call lazy,NAME,COMMAND) sets NAME to COMMAND's output when NAME is first used: by then the compiler is
# installed.
lazy = $(eval $(1) = $$(eval $(1) := $$(shell $(2)))$$($(1)))

# Use AVX-512 at its full width; compilers default to half of it.
$(call lazy,wide,$(CXX) -march=$(ARCH) -mprefer-vector-width=512 -dM -E -x c++ /dev/null 2>/dev/null \
  | grep -q AVX512F && echo -mprefer-vector-width=512)
$(call lazy,BLAS_CFLAGS,$(PKG_CONFIG) --cflags openblas 2>/dev/null)
$(call lazy,BLAS_LDFLAGS,$(PKG_CONFIG) --libs-only-L openblas 2>/dev/null)
# The macros that the library was built with: they change its classes.
$(call lazy,HTTP_CFLAGS,$(PKG_CONFIG) --cflags cpp-httplib 2>/dev/null)

march := $(if $(filter native-aarch64 native-arm64,$(ARCH)-$(machine)),-mcpu=native,$(ARCH:%=-march=%))
# -fno-math-errno: a sqrt that sets errno prevents vectorisation.
# -Wno-pass-failed: clang++ warns of each `omp simd` loop that it cannot vectorise (in double precision, those
# that call libm).
remarks := $(if $(findstring clang,$(compiler)),-Wno-pass-failed)
flags = -std=c++20 $(march) $(wide) -fopenmp -fno-math-errno \
  -fPIC -fno-semantic-interposition -fvisibility-inlines-hidden \
  -Wall -Wextra -Wpedantic $(remarks) \
  $(if $(filter-out 0,$(WERROR)),-Werror) $(if $(filter-out 0,$(DEBUG)),-g -D_GLIBCXX_ASSERTIONS) \
  $(if $(SANITIZE),$(if $(filter-out 0,$(DEBUG)),,-g1) -fno-omit-frame-pointer $(sanitize))
# UndefinedBehaviorSanitizer's checks of pointers and of the classes they point to (vptr) would take more than half of
# the time to compile, and AddressSanitizer checks each access anyway. With sanitizers g++ warns of std::function's members by mistake.
unchecked := $(if $(findstring address,$(SANITIZE)),-fno-sanitize=$(subst $(space),$(comma),pointer-overflow null object-size vptr))
sanitize := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all $(unchecked) \
  $(if $(findstring g++,$(compiler)),$(if $(findstring clang,$(compiler)),,-Wno-maybe-uninitialized)))

# Most tests have no loops worth optimising: compile them fast instead, with Catch2 and the standard library
# precompiled, unless ccache does the work (it cannot cache such a compilation). The programs compute in the
# library.
slow := tests/ops/op_checks.cpp $(patsubst %,tests/%_test.cpp,core/kernels/blas core/kernels/gemm_boundaries \
  core/kernels/math core/files/safetensors data/tokenizer_files models/file_growth models/hostile_files) tests/support/main.cpp
quick = $(filter-out tests/bench/% tests/fuzz/% tests/random_programs/% $(slow),$(filter tests/%,$(1)))
# Sanitized programs and model folders compute little: at -O0 they take 0.6 of the time to compile.
unoptimized = $(or $(quick),$(if $(SANITIZE),$(filter examples/% models/folder/%,$(1))))
optimize = $(if $(filter-out 0,$(DEBUG)),-Og,$(if $(unoptimized),-O0,$(if \
  $(SANITIZE)$(filter $(slow) examples/% tests/bench/main.cpp tests/random_programs/%,$(1)),-O1,-O3)))
# The other tests of a folder are compiled eight files at a time, in less than half the time: each file has a
# namespace of its own. Those of internals, which an installed library hides, are apart. Tests that TESTS names are
# compiled one by one. The elements are unit:file.
single := $(filter $(if $(TESTS),%,$(slow) tests/support/%),$(TEST_SRC))
eight := $(shell grep -HcE '\b(internal|kernel|blas)(::|;)' $(filter-out $(single),$(TEST_SRC)) /dev/null | awk -F: \
  '/tests/ { unit = $$1; sub("[^/]*$$", $$2 ? "internal" : "", unit); print unit int((files[unit]++) / 8) + 1 ":" $$1 }')
TEST_UNITS := $(sort $(foreach pair,$(eight),$(firstword $(subst :, ,$(pair)))))
TEST_OBJ := $(patsubst %,$(BUILD)/obj/%.o,$(TEST_UNITS) $(basename $(single)))
sources_of = $(or $(patsubst $(1):%,%,$(filter $(1):%,$(eight))),$(wildcard $(1)/*.cpp))
PRECOMPILED := $(if $(filter ccache,$(notdir $(CXX))),,$(BUILD)/obj/tests/support/precompiled.h)
precompiled = $(if $(PRECOMPILED),$(if $(quick), \
  $(if $(findstring clang,$(compiler)),-include-pch $(PRECOMPILED).gch,-include $(PRECOMPILED))))
# Two files contain the paths of the source tree and the programs.
folders := -DGRADUS_SOURCE_DIR='"$(CURDIR)"' -DGRADUS_BIN_DIR='"$(CURDIR)/$(BUILD)/bin"'
includes = -Ibuild/include $(if $(filter core/kernels/products/blas.cpp,$(1)),$(BLAS_CFLAGS:-I%=-isystem%))$(if \
  $(filter examples/page/server.cpp,$(1)),$(HTTP_CFLAGS:-I%=-isystem%)) \
  $(if $(filter examples/% tests/%,$(1)),-I. -Ibuild/embedded) \
  $(if $(filter examples/support/source_text.cpp tests/support/paths.cpp,$(1)),$(folders))

# Fuzzers follow coverage of the code that reads files. Coverage of kernels would double the time of the tests.
uncounted = $(if $(findstring fuzzer,$(SANITIZE)),$(if $(filter $(computes),$(1)),-fno-sanitize=fuzzer-no-link))

# In the tests themselves UndefinedBehaviorSanitizer would take a third of the time to compile them. Kernels would
# take ten times as long to run.
no_ubsan = $(if $(SANITIZE),$(if $(quick)$(filter core/kernels/%,$(1)),-fno-sanitize=undefined))

# gcov counts what the library does, not the tests.
counters := $(if $(filter-out 0,$(COVERAGE)),--coverage)
counted = $(if $(counters),$(if $(filter core/% nn/% optim/% models/%,$(1)),-O1 $(counters)))

# The command that compiles source $(1).
compile = $(CXX) $(optimize) $(flags) $(uncounted) $(no_ubsan) $(counted) $(CPPFLAGS) $(CXXFLAGS) $(includes)
link = $(CXX) -fopenmp $(sanitize) $(counters) $(LDFLAGS)
libraries = $(BLAS_LDFLAGS) -lopenblas -lpng -lz -lutf8proc
# Of the programs, only convert needs ONNX and protobuf.
program_libraries = -Wl,--as-needed -lonnx_proto -lprotobuf -lboost_iostreams -lboost_filesystem -lboost_system \
  -lcpp-httplib
# Each header of another library, and the Debian package that contains it.
headers := catch2/catch.hpp=catch2 nlohmann/json.hpp=nlohmann-json3-dev CLI/CLI.hpp=libcli11-dev \
  gnuplot-iostream.h=libgnuplot-iostream-dev boost/iostreams/stream.hpp=libboost-iostreams-dev \
  boost/filesystem.hpp=libboost-filesystem-dev openblas_config.h=libopenblas-dev png.h=libpng-dev zlib.h=zlib1g-dev \
  utf8proc.h=libutf8proc-dev onnx/onnx-ml.pb.h=libonnx-dev google/protobuf/message.h=libprotobuf-dev \
  httplib.h=libcpp-httplib-dev openssl/ssl.h=libssl-dev brotli/encode.h=libbrotli-dev \
  $(if $(filter clang%,$(compiler)),omp.h=libomp$(clang_version)-dev)

quiet := $(if $(filter-out 0,$(V)),,@)
say = @echo '  $(1)'

# ---- targets ----

.PHONY: all train test test-objects fuzz mutants test-crash test-runs test-ranks test-onnx test-tokenizers examples bench bench-peers \
  bench-ddp bench-twins bench-growth race format format-check law \
  clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(STATIC) $(SHARED) $(if $(filter-out 0,$(MPI)),$(MPI_LIBRARY))  ## builds the library, build/lib/libgradus.a and .so (the default)

# Long-running commands are marked with +, so that their output appears as it is written. make runs such
# lines under -n too; `run` only prints them there.
dry_run := $(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS))))
run = $(if $(dry_run),$(quiet)echo $(1),$(quiet)$(1))

train: $(BUILD)/bin/train_gpt  ## trains a small GPT on the project's own source text, into out/train
	+$(call run,$(BUILD)/bin/train_gpt --overwrite)

test: $(BUILD)/bin/tests $(if $(TESTS)$(filter-out programs,$(ROOM)),,examples)  ## builds and runs the tests
	+$(quiet)$(MAKE) --no-print-directory -k $(if $(TESTS),run-tests,$(addprefix run-,$(call runs,$(or $(ROOM),$(test_rooms)))))

test-objects:
	@echo $(TEST_OBJ)

# A test that hangs must end.
limited := timeout --foreground --kill-after=10 $(LIMIT)

# Each room's tests run in a process of their own, side by side. The two longest rooms have two processes: the table of
# ops and the tests of the training loop run apart from the rest. Tests tagged [.] run only when named.
runs = $(patsubst ops,op_table ops,$(patsubst programs,programs training,$(1)))
op_table := tests/ops/op_table.cpp
training := tests/programs/training/%
tests_of = $(or $(filter $($(1)),$(TEST_SRC)),$(filter-out $(op_table) $(training),$(filter tests/$(1)/%,$(TEST_SRC))))
.PHONY: run-tests $(addprefix run-,$(call runs,$(test_rooms)))
run-tests:
	$(quiet)$(limited) $(BUILD)/bin/tests '~[.]$(SKIP:%=~%)'
$(addprefix run-,$(call runs,$(test_rooms))): run-%:
	@echo '  TEST  $*'
	$(quiet)$(limited) $(BUILD)/bin/tests -$(hash) "$$(grep -lE '^(TEMPLATE_)?TEST_CASE' $(call tests_of,$*) | \
	  sed -E 's|.*/(.*)\.cpp|[$(hash)\1]~[.]$(SKIP:%=~%)|' | paste -sd,)"

# libFuzzer is part of clang. CI's sanitized tests use the same objects.
fuzz_compiler := $(if $(findstring clang,$(compiler)),$(CXX),clang++)
fuzz_sanitize := address,undefined,fuzzer-no-link
fuzz:  ## feeds hostile input to all code that reads files: FUZZ=png SECONDS=600; FUZZ=programs: random programs
	+$(if $(filter programs,$(FUZZ)),$(quiet)$(MAKE) --no-print-directory run-random-programs)
	+$(if $(filter-out programs,$(or $(FUZZ),all)),$(quiet)$(MAKE) --no-print-directory CXX='$(fuzz_compiler)' SANITIZE=$(fuzz_sanitize) FUZZ='$(filter-out programs,$(FUZZ))' run-fuzz)

.PHONY: run-fuzz
run-fuzz: $(BUILD)/bin/fuzz
	+$(call run,tests/fuzz/run $(BUILD)/bin/fuzz $(BUILD)/fuzz $(SECONDS) $(FUZZ))

.PHONY: run-random-programs
run-random-programs: $(BUILD)/bin/random_programs
	+$(call run,$< --seconds $(SECONDS))
	+$(call run,$< --wrong-calls --count 20000)

mutants:  ## plants faults in a copy of the library and shows which of them no test notices: COUNT=60 SEED=1
	+$(call run,/usr/bin/python3 tests/mutants.py --cxx '$(CXX)' --count $(COUNT) --seed $(SEED))

test-crash: $(PROGRAMS)  ## kills training programs 200 times; none may lose anything
	+$(call run,/usr/bin/python3 tests/crash.py --bin $(BUILD)/bin)

test-runs: $(PROGRAMS)  ## runs programs in random ways: killed and resumed, other flags, damaged folders
	+$(call run,/usr/bin/python3 tests/random_runs.py --bin $(BUILD)/bin)

test-ranks: $(PROGRAMS)  ## trains with several ranks under mpirun, which 200 faults hit
	+$(quiet)$(MAKE) --no-print-directory MPI=1 all
	+$(call run,/usr/bin/python3 tests/ranks.py --bin $(BUILD)/bin)

test-onnx: $(BUILD)/bin/onnx_cases  ## compares exported models with onnxruntime (npm's onnxruntime-node)
	+$(call run,tests/onnx/run $(BUILD))

test-tokenizers: $(BUILD)/bin/tokenizer_ids  ## compares tokenizers with Hugging Face's (npm)
	+$(call run,tests/tokenizers/run $(BUILD))

examples: $(PROGRAMS)  ## builds the programs, build/bin/*

bench: $(BUILD)/bin/bench  ## builds and runs the benchmark
	+$(call run,$(BUILD)/bin/bench)

# The first Python that has PyTorch.
pythons := python3 /usr/bin/python3
torch_python = $(or $(shell for p in $(pythons); do $$p -c 'import torch' 2>/dev/null && echo $$p && break; done),$(error \
  no Python with PyTorch: tried $(pythons). On Debian the package is python3-torch))

bench-peers: $(BUILD)/bin/bench  ## runs the benchmark and the same in PyTorch (Debian: python3-torch)
	+$(call run,$(torch_python) tests/bench/peers.py)

bench-ddp: $(BUILD)/bin/bench  ## times several ranks beside PyTorch's DistributedDataParallel (Debian: openmpi-bin)
	+$(quiet)$(MAKE) --no-print-directory MPI=1 all
	+$(call run,$(torch_python) tests/bench/ddp.py --bin $(BUILD)/bin)

bench-twins: $(BUILD)/bin/twin_data $(BUILD)/bin/train_bert $(BUILD)/bin/train_gpt  ## trains a BERT and a GPT here and in PyTorch
	+$(call run,$(torch_python) tests/bench/twins.py bert --bin $(BUILD)/bin)
	+$(call run,$(torch_python) tests/bench/twins.py gpt --bin $(BUILD)/bin)

bench-growth: $(BUILD)/bin/bench  ## shows how time and memory grow with length, width, batch, threads
	+$(call run,/usr/bin/python3 tests/bench/growth.py)

race: $(BUILD)/bin/train_gpt $(BUILD)/bin/train_cnn_attention  ## trains ten seeds to a target: TRACK=fixed DATA=FILE
	+$(call run,/usr/bin/python3 tests/bench/race.py $(TRACK) --bin $(BUILD)/bin --data "$(DATA)")

format:  ## formats the sources with clang-format (Debian 12's, version 14)
	$(quiet)find $(ROOMS) examples tests -name '*.h' -o -name '*.cpp' | xargs clang-format -i

format-check:  ## fails where make format would change something
	$(quiet)find $(ROOMS) examples tests -name '*.h' -o -name '*.cpp' | xargs clang-format --dry-run -Werror

law:  ## checks the law of size: lines per room, file and function; parameters
	$(quiet)/usr/bin/env python3 .ci/law.py

include .ci/deps.mk .ci/docs.mk .ci/install.mk

clean:  ## removes build/
	rm -rf build

help:  ## lists the targets and the variables
	@awk -F ':.*##' '/^[a-z_.-]+:.*##/ { printf "  make %-22s%s\n", $$1, $$2 }' Makefile .ci/*.mk
	@echo; sed -n 's/^#: \?//p' Makefile

# ---- rules ----

$(LINKS):
	@mkdir -p $(@D)
	@ln -sfn ../../../$(if $(filter %.h,$@),models/)$(@F) $@

# Files that change only when their content does: the flags, the list of sources, and those of each unit.
note = @mkdir -p $(@D); printf $(1) | cmp -s - $@ || printf $(1) > $@
$(BUILD)/obj/flags: FORCE | packages
	$(call note,'%s\n' '$(subst ','\'',$(call compile) $(folders) $(link) $(libraries))')
$(BUILD)/obj/sources: FORCE
	$(call note,'%s\n' '$(LIBRARY_SRC) $(SUPPORT_SRC) $(TEST_SRC) $(BENCH_SRC) $(FUZZ_SRC)')
$(BUILD)/obj/%.sources: FORCE
	$(call note,'#include "%s"\n' $(call sources_of,$*))

$(BUILD)/obj/%.o: %.cpp $(BUILD)/obj/flags | packages $(LINKS)
	$(call say,CXX   $<)
	@mkdir -p $(@D)
	$(quiet)$(call compile,$<) $(call precompiled,$<) -MMD -MP -c $< -o $@

build/embedded/%.inc: examples/%
	@mkdir -p $(@D)
	@{ printf 'R"embedded('; cat $<; printf ')embedded"\n'; } > $@
$(SUPPORT_OBJ): | $(EMBEDDED)

.SECONDEXPANSION:
$(TEST_UNITS:%=$(BUILD)/obj/%.o) $(call unit_objects,$(filter-out $(apart),$(LIBRARY_SRC) $(SUPPORT_SRC) $(FUZZ_SRC) $(RANDOM_SRC))): \
  $(BUILD)/obj/%.o: $(BUILD)/obj/%.sources $$(call sources_of,$$*) $(BUILD)/obj/flags | packages $(LINKS)
	$(call say,CXX   $*)
	$(quiet)$(call compile,$(filter %.cpp,$^)) $(call precompiled,$(filter %.cpp,$^)) -I. -MMD -MP -x c++ -c $< -o $@

$(BUILD)/obj/tests/support/precompiled.h.gch: tests/support/precompiled.h $(BUILD)/obj/flags | packages
	$(call say,CXX   $<)
	@mkdir -p $(@D)
	$(quiet)$(call compile,tests/quick) -x c++-header -c $< -o $@
$(TEST_OBJ): $(addsuffix .gch,$(PRECOMPILED))

$(STATIC): $(LIBRARY_OBJ)
$(SUPPORT): $(SUPPORT_OBJ)
$(STATIC) $(SUPPORT): $(BUILD)/obj/sources
	$(call say,AR    $@)
	@mkdir -p $(@D) && rm -f $@
	$(quiet)ar rcs $@ $(filter %.o,$^)

# The shared library exports everything in gradus:: except these namespaces.
internal := kernel blas internal

$(BUILD)/obj/exports: $(LIBRARY_OBJ) $(BUILD)/obj/sources Makefile .ci/exports.awk
	@nm -g --defined-only $(filter %.o,$^) | awk -v internal='$(internal)' -f .ci/exports.awk > $@

$(SHARED): $(LIBRARY_OBJ) $(BUILD)/obj/sources $(BUILD)/obj/flags $(BUILD)/obj/exports
	$(call say,LINK  $@)
	@mkdir -p $(@D)
	$(quiet)$(link) -shared -Wl,-soname,libgradus.so.$(abi) -Wl,--version-script=$(BUILD)/obj/exports $(filter %.o,$^) $(libraries) -o $@
	$(quiet)ln -sf $(@F) $@.$(abi)

$(MPI_LIBRARY): optim/mpi/mpi.cpp optim/mpi/mpi.h optim/parallel/communicator.h $(SHARED)
	$(call say,MPI   $@)
	@command -v $(MPICXX) >/dev/null || { echo "$(MPICXX) is missing: install libopenmpi-dev or libmpich-dev" >&2; exit 2; }
	$(quiet)OMPI_CXX='$(CXX)' MPICH_CXX='$(CXX)' $(MPICXX) $(subst $(CXX) -O,-O,$(call compile,$<)) -shared $< -L$(BUILD)/lib -lgradus \
	  -Wl,-rpath,'$$ORIGIN' -o $@

# Of a template that tests instantiate too, the linker takes the first instance: the library's, optimised.
library_first := -Wl,--whole-archive $(STATIC) -Wl,--no-whole-archive
$(BUILD)/bin/tests: $(TEST_OBJ) $(BUILD)/obj/sources
$(BUILD)/bin/bench: $(call objects,$(BENCH_SRC)) $(BUILD)/obj/sources
$(BUILD)/bin/fuzz: $(call unit_objects,$(FUZZ_SRC)) $(BUILD)/obj/sources
$(BUILD)/bin/random_programs: $(call unit_objects,$(RANDOM_SRC)) $(BUILD)/obj/sources
$(BUILD)/bin/twin_data: $(call objects,$(TWIN_SRC))
$(BUILD)/bin/onnx_cases: $(call objects,$(ONNX_SRC))
$(BUILD)/bin/tokenizer_ids: $(call objects,$(TOKENIZER_SRC))
$(PROGRAMS): $(BUILD)/bin/%: $(BUILD)/obj/examples/%.o
linked := $(addprefix $(BUILD)/bin/,tests bench fuzz random_programs twin_data onnx_cases tokenizer_ids)
$(PROGRAMS) $(linked): $(SUPPORT) $(STATIC) $(BUILD)/obj/flags
	$(call say,LINK  $@)
	@mkdir -p $(@D)
	$(quiet)$(link) $(if $(filter %/fuzz,$@),-fsanitize=fuzzer) $(if $(filter %/tests,$@),$(library_first)) \
	  $(filter %.o,$^) $(SUPPORT) $(STATIC) \
	  $(libraries) $(program_libraries) -o $@

-include $(patsubst %.cpp,$(BUILD)/obj/%.d,$(SOURCES)) $(patsubst %.o,%.d,$(LIBRARY_OBJ) $(SUPPORT_OBJ) $(TEST_OBJ) \
  $(call unit_objects,$(FUZZ_SRC) $(RANDOM_SRC)))
