# gradus is built with GNU make: `make` builds the library, `make help` lists what else there is. What
# follows a #: below is its list of variables.
#
#: Variables, given as in: make test CXX=clang++ DEBUG=1
#:
#:   CXX       the compiler: g++ (the default) or clang++
#:   ARCH      the processor to build for, as the compiler's -march takes it. The default is native:
#:             all that this machine's processor can do, so another's may refuse it as an illegal
#:             instruction. For a binary that others run: x86-64-v3 (AVX2 and FMA: Intel since 2013,
#:             AMD since 2015), x86-64-v4 (AVX-512), x86-64 (any), or on Arm armv8-a (any: the
#:             default of a cross-compiler, CXX=aarch64-linux-gnu-g++)
#:   DEBUG     1: for a debugger, with the standard library's assertions (-Og -g)
#:   SANITIZE  sanitizers: address,undefined (what make fuzz builds, with clang++:
#:             address,undefined,fuzzer-no-link)
#:
#: Each combination of these has a folder of its own under build/. The others:
#:
#:   WERROR    1: the compiler's warnings are errors
#:   V         1: shows whole command lines
#:   CPPFLAGS, CXXFLAGS, LDFLAGS   flags added to ours
#:   ROOM      the room whose tests to build and run: core, ops, nn, optim, models, data or programs
#:   TESTS     files of tests to build and run: training_test modes_test (default: all)
#:   FUZZ      the targets of make fuzz, such as png (default: all), for
#:   SECONDS   each (default 60)
#:   PREFIX    where make install puts the library (default /usr/local). Without ARCH it runs on any
#:             processor of this kind, and brings its shared library once more for x86-64-v3 and
#:             -v4: the system's loader takes the one that fits. Under
#:   DESTDIR   if given: a folder to make a package of
#:
#: make runs as many jobs at a time as there are processors, or two with -j2.

# The machine that is built for; a cross-compiler's is another one, of which any is meant.
machine := $(firstword $(subst -, ,$(shell $(CXX) -dumpmachine 2>/dev/null || uname -m)))
generic_x86_64 := x86-64
generic_aarch64 := armv8-a
cross := $(filter-out $(shell uname -m),$(machine))
ARCH ?= $(if $(cross),$(generic_$(machine)),native)
PKG_CONFIG ?= $(if $(cross),$(shell $(CXX) -dumpmachine)-)pkg-config
PREFIX ?= /usr/local
SECONDS ?= 60
empty :=
space := $(empty) $(empty)
comma := ,
hash := \#
define newline


endef

# All processors unless the caller gives -j; each recipe's output in one piece.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2) --output-sync=target
endif

# ---- where things go ----

compiler := $(notdir $(lastword $(CXX)))
variant := $(strip $(filter-out g++,$(compiler)) $(filter-out native,$(ARCH)) \
  $(if $(filter-out 0,$(DEBUG)),debug) $(subst $(comma),-,$(SANITIZE)))
BUILD := build$(addprefix /,$(subst $(space),-,$(variant)))

LIBRARY_SRC := $(sort $(wildcard core/*/*.cpp nn/*.cpp optim/*.cpp models/*.cpp models/*/*.cpp \
  models/*/*/*.cpp))
SUPPORT_SRC := $(sort $(wildcard examples/*/*.cpp))
PROGRAM_SRC := $(sort $(wildcard examples/*.cpp))
test_rooms := core ops nn optim models data programs
test_files := $(foreach room,$(or $(ROOM),$(test_rooms)),$(wildcard tests/$(room)/*.cpp))
TEST_SRC := $(sort $(wildcard tests/support/*.cpp) $(if $(TESTS), \
  $(foreach test,$(TESTS),$(or $(filter %/$(test).cpp,$(test_files)),$(error no file of tests $(test)))),$(test_files)))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/*.cpp))
TWIN_SRC := tests/bench/twin_data.cpp
BENCH_SRC := $(filter-out $(TWIN_SRC),$(sort $(wildcard tests/bench/*.cpp)))
SOURCES := $(LIBRARY_SRC) $(SUPPORT_SRC) $(PROGRAM_SRC) $(TEST_SRC) $(BENCH_SRC) $(TWIN_SRC) $(FUZZ_SRC)
objects = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(1))

STATIC := $(BUILD)/lib/libgradus.a
SHARED := $(BUILD)/lib/libgradus.so
SUPPORT := $(BUILD)/obj/support.a
PROGRAMS := $(patsubst examples/%.cpp,$(BUILD)/bin/%,$(PROGRAM_SRC))

# Users include <gradus/gradus.h> or <gradus/core/core.h>; so do we, through links to the rooms.
ROOMS := core nn optim models
LINKS := $(addprefix build/include/gradus/,$(ROOMS) gradus.h)

# ---- how things are compiled ----

version := $(shell awk '/define GRADUS_VERSION_(MAJOR|MINOR|PATCH)/ { printf dot $$3; dot = "." }' core/version.h)
# That of the SONAME.
abi := $(basename $(version))
# What must ask the compiler is worked out once, when first used: by then it is installed.

lazy = $(eval $(1) = $$(eval $(1) := $$(shell $(2)))$$($(1)))

# On a processor with AVX-512 its full width is wanted; compilers default to half of it.
$(call lazy,wide,$(CXX) -march=$(ARCH) -mprefer-vector-width=512 -dM -E -x c++ /dev/null 2>/dev/null \
  | grep -q AVX512F && echo -mprefer-vector-width=512)
$(call lazy,BLAS_CFLAGS,$(PKG_CONFIG) --cflags openblas 2>/dev/null)
$(call lazy,BLAS_LDFLAGS,$(PKG_CONFIG) --libs-only-L openblas 2>/dev/null)

march := $(if $(filter native-aarch64 native-arm64,$(ARCH)-$(machine)),-mcpu=native,$(ARCH:%=-march=%))
# sqrt sets errno unless told otherwise, and then no loop that calls it is vectorised.
# clang++ reports each `omp simd` loop that it leaves scalar: in double precision, those that call libm.
remarks := $(if $(findstring clang,$(compiler)),-Wno-pass-failed)
flags = -std=c++20 $(march) $(wide) -fopenmp -fno-math-errno \
  -fPIC -fno-semantic-interposition -fvisibility-inlines-hidden \
  -Wall -Wextra -Wpedantic $(remarks) \
  $(if $(filter-out 0,$(WERROR)),-Werror) $(if $(filter-out 0,$(DEBUG)),-g -D_GLIBCXX_ASSERTIONS) \
  $(if $(SANITIZE),-g -fno-omit-frame-pointer $(sanitize))
# g++'s sanitizers make it warn of std::function's members where nothing is amiss.
sanitize := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all \
  $(if $(findstring g++,$(compiler)),$(if $(findstring clang,$(compiler)),,-Wno-maybe-uninitialized)))

# Tests hold no loops worth optimising, and compile faster without.
quick = $(filter-out tests/bench/%,$(filter tests/%,$(1)))
optimize = $(if $(filter-out 0,$(DEBUG)),-Og,$(if $(SANITIZE)$(quick),-O1,-O3))
# Two files know where the source tree and the programs are.
folders := -DGRADUS_SOURCE_DIR='"$(CURDIR)"' -DGRADUS_BIN_DIR='"$(CURDIR)/$(BUILD)/bin"'
includes = -Ibuild/include $(if $(filter core/kernels/blas.cpp,$(1)),$(BLAS_CFLAGS:-I%=-isystem%)) \
  $(if $(filter examples/% tests/%,$(1)),-I.) \
  $(if $(filter examples/support/source_text.cpp tests/support/paths.cpp,$(1)),$(folders))

# Fuzzers are guided by the code that reads files; to count what kernels do would double the tests' time.
computes := core/kernels/blas.cpp core/tensor/engine.cpp core/kernels/% core/ops/% nn/% optim/%
uncounted = $(if $(findstring fuzzer,$(SANITIZE)),$(if $(filter $(computes),$(1)),-fno-sanitize=fuzzer-no-link))

# How source $(1) is compiled.
compile = $(CXX) $(optimize) $(flags) $(uncounted) $(CPPFLAGS) $(CXXFLAGS) $(includes)
link = $(CXX) -fopenmp $(sanitize) $(LDFLAGS)
libraries = $(BLAS_LDFLAGS) -lopenblas -lpng -lz
program_libraries = -Wl,--as-needed -lboost_iostreams -lboost_filesystem -lboost_system

quiet := $(if $(filter-out 0,$(V)),,@)
say = @echo '  $(1)'

# ---- targets ----

.PHONY: all train test fuzz test-crash examples bench bench-peers bench-twins bench-growth deps packages \
  install install-base install-level uninstall docs format format-check compile_commands.json clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(STATIC) $(SHARED)  ## builds the library, build/lib/libgradus.a and .so (the default)

# What a recipe runs for long is marked with +, so that its output appears as it is written; make would
# then run it under -n too.
dry_run := $(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS))))
run = $(if $(dry_run),$(quiet)echo $(1),$(quiet)$(1))

train: $(BUILD)/bin/train_gpt  ## trains a small GPT on the project's own source text, into out/train
	+$(call run,$(BUILD)/bin/train_gpt --overwrite)

test: $(BUILD)/bin/tests $(if $(TESTS)$(filter-out programs,$(ROOM)),,examples)  ## builds and runs the tests
	+$(call run,$(BUILD)/bin/tests)

# libFuzzer is clang's. CI's sanitized tests are of the same objects, compiled once for both.
fuzz_compiler := $(if $(findstring clang,$(compiler)),$(CXX),clang++)
fuzz_sanitize := address,undefined,fuzzer-no-link
fuzz:  ## gives hostile input to all that reads files: FUZZ=png SECONDS=600
	+$(quiet)$(MAKE) --no-print-directory CXX='$(fuzz_compiler)' SANITIZE=$(fuzz_sanitize) run-fuzz

.PHONY: run-fuzz
run-fuzz: $(BUILD)/bin/fuzz
	+$(call run,tests/fuzz/run $(BUILD)/bin/fuzz $(BUILD)/fuzz $(SECONDS) $(FUZZ))

test-crash: $(PROGRAMS)  ## kills training programs 200 times; each must lose nothing
	+$(call run,/usr/bin/python3 tests/crash.py --bin $(BUILD)/bin)

examples: $(PROGRAMS)  ## builds the programs, build/bin/*

bench: $(BUILD)/bin/bench  ## builds and runs the benchmark
	+$(call run,$(BUILD)/bin/bench)

bench-peers: $(BUILD)/bin/bench  ## runs the benchmark beside PyTorch's (Debian: python3-torch)
	+$(call run,/usr/bin/python3 tests/bench/peers.py)

bench-twins: $(BUILD)/bin/twin_data $(BUILD)/bin/train_bert $(BUILD)/bin/train_gpt  ## trains a BERT and a GPT beside PyTorch's
	+$(call run,/usr/bin/python3 tests/bench/twins.py bert --bin $(BUILD)/bin)
	+$(call run,/usr/bin/python3 tests/bench/twins.py gpt --bin $(BUILD)/bin)

bench-growth: $(BUILD)/bin/bench  ## shows how time and memory grow with length, width, batch, threads
	+$(call run,/usr/bin/python3 tests/bench/growth.py)

root = $(DESTDIR)$(if $(filter /%,$(firstword $(PREFIX))),,$(error PREFIX must begin with /, got "$(PREFIX)"))$(PREFIX)

# What is installed is for any processor of this kind unless ARCH is given; glibc's loader looks for a
# library of the processor's own level first, in glibc-hwcaps beside the one for all.
install_arch := $(if $(filter file,$(origin ARCH)),$(or $(generic_$(machine)),native),$(ARCH))
install_levels := $(if $(filter x86-64,$(install_arch)),$(if $(filter file,$(origin ARCH)),x86-64-v3 x86-64-v4))

install:  ## installs headers, libraries, gradus.pc and a CMake package under DESTDIR/PREFIX
	+$(quiet)$(MAKE) --no-print-directory uninstall
	+$(quiet)$(MAKE) --no-print-directory ARCH=$(install_arch) install-base
	+$(quiet)for level in $(install_levels); do \
	  $(MAKE) --no-print-directory ARCH=$$level install-level || exit 1; done

# Libraries of another SONAME stay, for the programs that are linked to them.
uninstall:  ## removes what make install brought
	$(quiet)rm -rf "$(root)/include/gradus" "$(root)/lib/cmake/gradus" "$(root)/lib/pkgconfig/gradus.pc" \
	  "$(root)/lib/libgradus.a" "$(root)/lib/libgradus.so" "$(root)/lib/libgradus.so.$(abi)" \
	  "$(root)"/lib/libgradus.so.$(abi).* "$(root)"/lib/glibc-hwcaps/*/libgradus.so.$(abi)

# Public headers are those that gradus.h includes, as the compiler tells.
$(call lazy,public_headers,$(CXX) -std=c++20 -Ibuild/include -include gradus/gradus.h -MM -x c++ /dev/null \
  | grep -o 'build/[^ ]*')

install-base: all
	$(quiet)for header in $(or $(public_headers),$(error no public headers)); do \
	  install -Dm644 $$header "$(root)/$${header$(hash)build/}" || exit 1; done
	$(quiet)install -Dm644 $(STATIC) "$(root)/lib/libgradus.a"
	$(quiet)install -Dm755 $(SHARED) "$(root)/lib/libgradus.so.$(version)"
	$(quiet)ln -s libgradus.so.$(version) "$(root)/lib/libgradus.so.$(abi)"
	$(quiet)ln -s libgradus.so.$(abi) "$(root)/lib/libgradus.so"
	$(quiet)install -dm755 "$(root)/lib/pkgconfig" "$(root)/lib/cmake" "$(root)/lib/cmake/gradus"
	$(file >$(BUILD)/obj/gradus.pc,$(pkg_config))
	$(file >$(BUILD)/obj/gradus-config.cmake,$(cmake_config))
	$(file >$(BUILD)/obj/gradus-config-version.cmake,$(cmake_version))
	$(quiet)install -m644 $(BUILD)/obj/gradus.pc "$(root)/lib/pkgconfig"
	$(quiet)install -m644 $(BUILD)/obj/gradus-config.cmake $(BUILD)/obj/gradus-config-version.cmake \
	  "$(root)/lib/cmake/gradus"

install-level: $(SHARED)
	$(quiet)install -Dm755 $(SHARED) "$(root)/lib/glibc-hwcaps/$(ARCH)/libgradus.so.$(abi)"

define pkg_config
prefix=$(PREFIX)
libdir=$${prefix}/lib
Name: gradus
Version: $(version)
Description: Deep learning for multicore CPUs
Cflags: -I"$${prefix}/include"
Libs: -L"$${libdir}" -Wl,-rpath,"$${libdir}" -lgradus
Libs.private: $(libraries) -fopenmp
endef

# gradus::gradus is the shared library, gradus::static the other.
define cmake_config
get_filename_component(gradus_prefix "$${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(gradus_FIND_COMPONENTS)
  set(gradus_FOUND FALSE)
  set(gradus_NOT_FOUND_MESSAGE "gradus has no components")
  return()
endif()
if(NOT TARGET gradus::gradus)
  add_library(gradus::gradus SHARED IMPORTED)
  set_target_properties(gradus::gradus PROPERTIES
    IMPORTED_LOCATION "$${gradus_prefix}/lib/libgradus.so.$(version)"
    IMPORTED_SONAME "libgradus.so.$(abi)")
  add_library(gradus::static STATIC IMPORTED)
  set_target_properties(gradus::static PROPERTIES
    IMPORTED_LOCATION "$${gradus_prefix}/lib/libgradus.a"
    INTERFACE_LINK_LIBRARIES "$(subst $(space),;,$(strip $(libraries) -fopenmp))")
  foreach(target gradus::gradus gradus::static)
    set_target_properties($${target} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "$${gradus_prefix}/include"
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endforeach()
endif()
endef

# Versions are compatible whose libraries have one SONAME, and those of a range that was asked for.
define cmake_version
set(PACKAGE_VERSION "$(version)")
if(PACKAGE_FIND_VERSION VERSION_EQUAL "$(version)")
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(PACKAGE_FIND_VERSION_RANGE)
  if("$(version)" VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION_MIN AND ("$(version)" VERSION_LESS PACKAGE_FIND_VERSION_MAX OR
      (PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "INCLUDE" AND "$(version)" VERSION_EQUAL PACKAGE_FIND_VERSION_MAX)))
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
elseif(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL "$(version)" AND PACKAGE_FIND_VERSION VERSION_GREATER_EQUAL "$(abi)")
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
endef

format:  ## formats the sources with clang-format (Debian 12's, version 14)
	$(quiet)find $(ROOMS) examples tests -name '*.h' -o -name '*.cpp' | xargs clang-format -i

format-check:  ## fails where make format would change something
	$(quiet)find $(ROOMS) examples tests -name '*.h' -o -name '*.cpp' | xargs clang-format --dry-run -Werror

# ---- documentation ----

docs: | packages $(LINKS)  ## makes build/docs/index.html of the headers' comments and the guides (needs doxygen)
	@command -v doxygen >/dev/null || { echo "make docs needs doxygen, Debian's package of that name" >&2; exit 2; }
	$(if $(dry_run),,$(file >build/docs.awk,$(docs_filter))$(file >build/docs.conf,$(docs_options)))
	$(quiet)rm -rf build/docs && doxygen build/docs.conf
	$(call say,DOCS  build/docs/index.html)

# Doxygen wants a comment a name, and a missing one is an error. What our headers say once, the filter
# hands on; line numbers stay. A comment behind several names (Tensor weight, bias;  ///< ...) is each
# one's. What is called alike in all models is described here. And where nothing stands above them,
# options, constructors and calls are what the comment of their struct says.
define docs_filter
function meant(line) {
  if (line ~ /^ *static Fields fields\(/) return "The configuration's entries, with their limits."
  if (line ~ /^ *static constexpr const char\* kind = /) return "What config.json calls such a model."
  if (line ~ /^ *using Config = /) return "What such a model is made from."
  if (line ~ /^ *const [A-Za-z]*Config config;/) return "What it was made from."
  if (line ~ /^ *struct [A-Za-z0-9]+(Options|Config) {/) {
    match(line, /[A-Za-z0-9]+(Options|Config) /)
    return "Options of " substr(line, RSTART, RLENGTH - (line ~ /Options / ? 8 : 7)) "."
  }
  if (line ~ /^ +(\[\[nodiscard\]\] )?(constexpr )?(explicit )?[A-Z][A-Za-z0-9]*\(/ || line ~ / operator\(\)\(/ ||
      line ~ / = default;$$/ || line ~ /^ *using [A-Za-z]*::[A-Za-z]*;/) return "&zwnj;"
}
function flush(more) { if (NR > 1) print held more; held = "" }
NR == 1 { $$0 = "/// @file"; head = 1 }
head && NR > 1 { head = sub(/^\/\//, "///") }
{ code = /^ *\/\/\/   +[^ ]/; flush(code && !in_code ? " @code{.cpp}" : !code && in_code ? " @endcode" : "")
  in_code = code; held = $$0 }
/^ *\/\/\/@{/ { group = 1 }
/^ *\/\/\/@}/ { group = 0 }
/^[^(]*,[^(]*;  *\/\/\/</ {
  at = index($$0, "///<"); note = " /**< " substr($$0, at + 4) " */"; names = substr($$0, 1, at - 1)
  sub(/; *$$/, ";", names); gsub(/, /, "," note " ", names); held = names note; next
}
{ said = above || group; above = /^ *\/\/\// || (above && /^ *(template|requires) /)
  text = said || /\/\/\// ? "" : meant($$0); held = (text ? "/** " text " */ " : "") $$0 }
END { flush("") }
endef

# The README is the first page, the models' equations and the guides follow.
define docs_options
PROJECT_NAME = gradus
PROJECT_NUMBER = $(version)
PROJECT_BRIEF = "Deep learning for multicore CPUs"
OUTPUT_DIRECTORY = build
HTML_OUTPUT = docs
GENERATE_LATEX = NO
INPUT = README.md $(addprefix examples/guide/,student.md trainer.md engineer.md speed.md) examples/guide/equations.md $(public_headers)
IMAGE_PATH = examples/guide/pictures
USE_MDFILE_AS_MAINPAGE = $(CURDIR)/README.md
STRIP_FROM_PATH = build/include .
STRIP_FROM_INC_PATH = build/include
INCLUDE_PATH = build/include
FILTER_PATTERNS = *.h="awk -f build/docs.awk"
EXCLUDE_SYMBOLS = $(foreach hidden,detail internal,*::$(hidden) gradus::*::$(hidden)::* gradus::$(hidden)::*)
JAVADOC_AUTOBRIEF = YES
DISTRIBUTE_GROUP_DOC = YES
BUILTIN_STL_SUPPORT = YES
SORT_MEMBER_DOCS = NO
GENERATE_TREEVIEW = YES
HAVE_DOT = NO
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
endef

# https://clang.llvm.org/docs/JSONCompilationDatabase.html
json_string = "$(subst ",\",$(subst \,\\,$(1)))"
json_entry = {"directory": $(call json_string,$(CURDIR)), "file": $(call json_string,$(1)), \
  "command": $(call json_string,$(strip $(call compile,$(1)) -c $(1) -o $(call objects,$(1))))}
json_entries = $(foreach source,$(SOURCES),$(call json_entry,$(source)))

# clangd looks for it in build/ as well; for an editor that doesn't: ln -s build/compile_commands.json .
compile_commands.json: | packages $(LINKS)  ## writes build/compile_commands.json for editors (clangd finds it)
	$(if $(dry_run),,$(file >build/$@,[$(subst }$(space){,}$(comma)$(newline){,$(json_entries))]))
	$(call say,JSON  build/$@)

clean:  ## removes what was built
	rm -rf build

help:  ## lists the targets and the variables
	@awk -F ':.*##' '/^[a-z_.-]+:.*##/ { printf "  make %-22s%s\n", $$1, $$2 }' Makefile
	@echo; sed -n 's/^#: \?//p' Makefile

# ---- packages ----
# Each header that we need and the Debian package that brings it. Whether all are there takes one run
# of the preprocessor to see.

clang_version := $(patsubst clang++%,%,$(filter clang++%,$(compiler)))
compiler_package := $(subst clang++,clang,$(compiler))
headers := catch2/catch.hpp=catch2 nlohmann/json.hpp=nlohmann-json3-dev CLI/CLI.hpp=libcli11-dev \
  gnuplot-iostream.h=libgnuplot-iostream-dev boost/iostreams/stream.hpp=libboost-iostreams-dev \
  boost/filesystem.hpp=libboost-filesystem-dev openblas_config.h=libopenblas-dev png.h=libpng-dev zlib.h=zlib1g-dev \
  $(if $(filter clang%,$(compiler)),omp.h=libomp$(clang_version)-dev)
packages := $(compiler_package) gnuplot-nox $(foreach header,$(headers),$(lastword $(subst =, ,$(header))))

missing = $(shell command -v $(lastword $(CXX)) >/dev/null || { echo $(packages); exit; }; \
  command -v gnuplot >/dev/null || echo gnuplot-nox; \
  for header in $(headers); do \
    printf '$(hash)if !__has_include(<%s>)\n%s\n$(hash)endif\n' $${header%=*} $${header$(hash)*=}; \
  done | $(CXX) -fopenmp $(BLAS_CFLAGS) -E -P -x c++ -)

define name_packages
@echo "gradus needs packages that are not installed: $(1)" >&2; \
echo "make deps installs them (with apt-get, as root or by sudo)." >&2; exit 2
endef

define install_packages
@set -e; packages="$(1)"; echo "gradus needs packages that are not installed: $$packages"; \
if ! command -v apt-get >/dev/null; then \
  echo "Please install them (these are Debian's names), then run make again." >&2; exit 1; \
fi; \
if [ "$$(id -u)" = 0 ]; then as_root=; \
elif sudo -n true 2>/dev/null || { [ -t 0 ] && command -v sudo >/dev/null; }; then as_root=sudo; \
else \
  echo "Please install them, then run make again:" >&2; \
  echo "  sudo apt-get install --no-install-recommends $$packages" >&2; exit 1; \
fi; \
$$as_root apt-get update -q; \
$$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$packages
endef

# Only these install what is missing; other targets name it and stop.
obtain := $(if $(filter deps test train,$(MAKECMDGOALS)),install_packages,name_packages)

packages:
	+$(if $(dry_run),,$(if $(missing),$(call $(obtain),$(missing))))

deps: packages  ## installs missing packages on Debian and Ubuntu, or names them

# ---- rules ----

$(LINKS):
	@mkdir -p $(@D)
	@ln -sfn ../../../$(if $(filter %.h,$@),models/)$(@F) $@

# Two notes that change only when their content does: the flags, and which sources there are.
note = @mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || \
  printf '%s\n' '$(subst ','\'',$(1))' > $@
$(BUILD)/obj/flags: FORCE | packages
	$(call note,$(call compile) $(folders) $(link) $(libraries))
$(BUILD)/obj/sources: FORCE
	$(call note,$(LIBRARY_SRC) $(SUPPORT_SRC) $(TEST_SRC) $(BENCH_SRC) $(FUZZ_SRC))

$(BUILD)/obj/%.o: %.cpp $(BUILD)/obj/flags | packages $(LINKS)
	$(call say,CXX   $<)
	@mkdir -p $(@D)
	$(quiet)$(call compile,$<) -MMD -MP -c $< -o $@

$(STATIC): $(call objects,$(LIBRARY_SRC))
$(SUPPORT): $(call objects,$(SUPPORT_SRC))
$(STATIC) $(SUPPORT): $(BUILD)/obj/sources
	$(call say,AR    $@)
	@mkdir -p $(@D) && rm -f $@
	$(quiet)ar rcs $@ $(filter %.o,$^)

# The shared library exports what is named gradus::, but for these namespaces, classes and functions.
internal := kernel blas internal models::internal core::Engine core::all_finite core::sum_in_place \
  core::take_input core::take_grad

# The linker's list of exports, by the compiler's names: _ZN6gradus4core4NodeD2Ev is gradus::core::Node's
# destructor. Weak symbols with lambdas or packs among their arguments are left out: templates that each
# user's own compiler instantiates.
$(BUILD)/obj/exports: $(call objects,$(LIBRARY_SRC)) $(BUILD)/obj/sources Makefile
	@nm -g --defined-only $(filter %.o,$^) | awk -v internal='$(internal)' ' \
	  BEGIN { print "{ global:"; count = split(internal, hidden); \
	          for (i in hidden) { parts = split(hidden[i], part, "::"); hidden[i] = ""; \
	            for (j = 1; j <= parts; ++j) hidden[i] = hidden[i] length(part[j]) part[j] } } \
	  match($$3, /^_Z[A-Z]*NV?K?[RO]?6gradus/) { \
	    rest = substr($$3, RLENGTH + 1); public = !($$2 == "W" && rest ~ /Ul|IJ/) && !seen[$$3]++; \
	    for (i in hidden) if (index(rest, hidden[i]) == 1) public = 0; \
	    if (public) print $$3 ";" } \
	  END { print "local: *; };" }' > $@

$(SHARED): $(call objects,$(LIBRARY_SRC)) $(BUILD)/obj/sources $(BUILD)/obj/flags $(BUILD)/obj/exports
	$(call say,LINK  $@)
	@mkdir -p $(@D)
	$(quiet)$(link) -shared -Wl,-soname,libgradus.so.$(abi) -Wl,--version-script=$(BUILD)/obj/exports $(filter %.o,$^) $(libraries) -o $@
	$(quiet)ln -sf $(@F) $@.$(abi)

$(BUILD)/bin/tests: $(call objects,$(TEST_SRC)) $(BUILD)/obj/sources
$(BUILD)/bin/bench: $(call objects,$(BENCH_SRC)) $(BUILD)/obj/sources
$(BUILD)/bin/fuzz: $(call objects,$(FUZZ_SRC)) $(BUILD)/obj/sources
$(BUILD)/bin/twin_data: $(call objects,$(TWIN_SRC))
$(PROGRAMS): $(BUILD)/bin/%: $(BUILD)/obj/examples/%.o
$(PROGRAMS) $(BUILD)/bin/tests $(BUILD)/bin/bench $(BUILD)/bin/fuzz $(BUILD)/bin/twin_data: $(SUPPORT) $(STATIC) $(BUILD)/obj/flags
	$(call say,LINK  $@)
	@mkdir -p $(@D)
	$(quiet)$(link) $(if $(filter %/fuzz,$@),-fsanitize=fuzzer) $(filter %.o,$^) $(SUPPORT) $(STATIC) \
	  $(libraries) $(program_libraries) -o $@

-include $(patsubst %.cpp,$(BUILD)/obj/%.d,$(SOURCES))
