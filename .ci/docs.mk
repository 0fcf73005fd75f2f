# make docs and make compile_commands.json.

.PHONY: docs compile_commands.json

guides := build/steps.md \
  $(addprefix examples/guide/,student.md trainer.md engineer.md contributing.md speed.md equations.md)
doxyfile = $(subst @version@,$(version),$(subst @here@,$(CURDIR),$(subst @guides@,$(guides),$(subst \
  @headers@,$(public_headers),$(file <.ci/Doxyfile.in)))))

docs: | packages $(LINKS)  ## makes build/docs/index.html from the headers' comments, the guides and an index of the steps (needs doxygen)
	@command -v doxygen >/dev/null || { echo "make docs needs doxygen, Debian's package of that name" >&2; exit 2; }
	$(if $(dry_run),,$(file >build/Doxyfile,$(doxyfile)))
	$(quiet)python3 .ci/steps.py examples/guide/student.md >build/steps.md
	$(quiet)rm -rf build/docs && doxygen build/Doxyfile
	$(call say,DOCS  build/docs/index.html)

# https://clang.llvm.org/docs/JSONCompilationDatabase.html
json_string = "$(subst ",\",$(subst \,\\,$(1)))"
json_entry = {"directory": $(call json_string,$(CURDIR)), "file": $(call json_string,$(1)), \
  "command": $(call json_string,$(strip $(call compile,$(1)) -c $(1) -o $(call objects,$(1))))}
json_entries = $(foreach source,$(SOURCES),$(call json_entry,$(source)))

# clangd finds it in build/; for an editor that does not: ln -s build/compile_commands.json .
compile_commands.json: | packages $(LINKS) $(EMBEDDED)  ## writes build/compile_commands.json for editors (clangd finds it)
	$(if $(dry_run),,$(file >build/$@,[$(subst }$(space){,}$(comma)$(newline){,$(json_entries))]))
	$(call say,JSON  build/$@)
