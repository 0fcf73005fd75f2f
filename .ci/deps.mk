# Finds out which Debian packages are missing, and installs or names them.

.PHONY: deps packages

clang_version := $(patsubst clang++%,%,$(filter clang++%,$(compiler)))
compiler_package := $(subst clang++,clang,$(compiler))
packages := $(compiler_package) gnuplot-nox $(foreach header,$(headers),$(lastword $(subst =, ,$(header))))

# One run of the preprocessor checks all headers.
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

# Only these targets install what is missing; all others name it and stop.
obtain := $(if $(filter deps test train,$(MAKECMDGOALS)),install_packages,name_packages)

packages:
	+$(if $(dry_run),,$(if $(missing),$(call $(obtain),$(missing))))

deps: packages  ## installs missing packages on Debian and Ubuntu, or names them
