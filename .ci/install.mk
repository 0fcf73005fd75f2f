# make install and make uninstall: headers, libraries, gradus.pc, a CMake package and the Python module under DESTDIR/PREFIX.

root = $(DESTDIR)$(if $(filter /%,$(firstword $(PREFIX))),,$(error PREFIX must begin with /, got "$(PREFIX)"))$(PREFIX)

# Without ARCH the installed library runs on any processor of this family. On x86-64 the shared library is
# installed for two newer levels as well, in glibc-hwcaps/LEVEL, where glibc's loader looks first.
install_arch := $(if $(filter file,$(origin ARCH)),$(or $(generic_$(machine)),native),$(ARCH))
install_levels := $(if $(filter x86-64,$(install_arch)),$(if $(filter file,$(origin ARCH)),x86-64-v3 x86-64-v4))

.PHONY: install install-base install-level uninstall

install:  ## installs headers, libraries, gradus.pc and a CMake package under DESTDIR/PREFIX
	+$(quiet)$(MAKE) --no-print-directory uninstall
	+$(quiet)$(MAKE) --no-print-directory ARCH=$(install_arch) LEVELS='$(install_levels)' install-base

# Libraries with another SONAME stay: programs may be linked to them.
uninstall:  ## removes what make install installed
	$(quiet)rm -rf "$(root)/include/gradus" "$(root)/lib/cmake/gradus" "$(root)/lib/pkgconfig/gradus.pc" \
	  "$(root)/lib/python3/dist-packages/gradus.py" \
	  "$(root)/lib/libgradus.a" "$(root)/lib/libgradus_mpi.so" "$(root)/lib/libgradus.so" "$(root)/lib/libgradus.so.$(abi)" \
	  "$(root)"/lib/libgradus.so.$(abi).* "$(root)"/lib/glibc-hwcaps/*/libgradus.so.$(abi)

# The public headers: those that gradus.h includes, as the compiler lists them.
$(call lazy,public_headers,$(CXX) -std=c++20 -Ibuild/include -include gradus/gradus.h -MM -x c++ /dev/null \
  | grep -o 'build/[^ ]*')

# Template $(1) with its @names@ replaced.
# -L is left out: where BLAS lies on this machine says nothing about another. A C program needs libstdc++, too.
link_line = $(strip $(filter-out -L%,$(libraries)) -fopenmp -lstdc++ -lm)
filled = $(subst @prefix@,$(PREFIX),$(subst @version@,$(version),$(subst @abi@,$(abi),$(subst @libraries@,$(link_line),$(subst \
  @library_list@,$(subst $(space),;,$(link_line)),$(file <$(1)))))))

install-base: all
	$(quiet)for header in $(or $(public_headers),$(error no public headers)); do \
	  install -Dm644 $$header "$(root)/$${header$(hash)build/}" || exit 1; done
	$(quiet)install -Dm644 $(STATIC) "$(root)/lib/libgradus.a"
	$(quiet)install -Dm755 $(SHARED) "$(root)/lib/libgradus.so.$(version)"
	$(quiet)ln -s libgradus.so.$(version) "$(root)/lib/libgradus.so.$(abi)"
	$(quiet)ln -s libgradus.so.$(abi) "$(root)/lib/libgradus.so"
	$(if $(filter-out 0,$(MPI)),$(quiet)install -Dm755 $(MPI_LIBRARY) "$(root)/lib/libgradus_mpi.so" && \
	  install -Dm644 optim/mpi/mpi.h "$(root)/include/gradus/optim/mpi/mpi.h")
	$(quiet)install -dm755 "$(root)/lib/pkgconfig" "$(root)/lib/cmake" "$(root)/lib/cmake/gradus"
	$(foreach file,gradus.pc gradus-config.cmake gradus-config-version.cmake,\
	  $(file >$(BUILD)/obj/$(file),$(call filled,.ci/$(file).in)))
	$(file >$(BUILD)/obj/gradus.py,$(call filled,models/c/gradus.py))
	$(quiet)install -Dm644 $(BUILD)/obj/gradus.py "$(root)/lib/python3/dist-packages/gradus.py"
	$(quiet)install -m644 $(BUILD)/obj/gradus.pc "$(root)/lib/pkgconfig"
	$(quiet)install -m644 $(BUILD)/obj/gradus-config.cmake $(BUILD)/obj/gradus-config-version.cmake \
	  "$(root)/lib/cmake/gradus"
	+$(quiet)for level in $(LEVELS); do \
	  $(MAKE) --no-print-directory ARCH=$$level BUILD=$(BUILD)/$$level BASE=$(BUILD) install-level || exit 1; done

install-level: $(SHARED)
	$(quiet)install -Dm755 $(SHARED) "$(root)/lib/glibc-hwcaps/$(ARCH)/libgradus.so.$(abi)"
