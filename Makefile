# SPDX-License-Identifier: MIT
#
# One non-recursive Makefile. `make help` lists the targets, `make info` shows what was found and chosen.
# Sources are found by wildcard, so a new file needs no edit here. Everything built lies under $(BUILD):
#   bin/ lib/ (runnable in place)   obj/ (objects, dependencies)   gen/ (embedded kernels and page)   tests/

MODE        ?= release
BUILD       ?= build/$(MODE)
# However it is spelled, so that nothing is built again for another spelling.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
WITH_OPENCL ?= auto
WERROR      ?= 0
SETUP       ?= yes
SUITES      := lint unit mpi device cli lab
SUITE       ?= $(SUITES)

PREFIX      ?= /usr/local
bindir      ?= $(PREFIX)/bin
libdir      ?= $(PREFIX)/lib
includedir  ?= $(PREFIX)/include
datadir     ?= $(PREFIX)/share
mandir      ?= $(datadir)/man
pkgconfigdir ?= $(libdir)/pkgconfig
bashdir     ?= $(datadir)/bash-completion/completions
zshdir      ?= $(datadir)/zsh/site-functions
fishdir     ?= $(datadir)/fish/vendor_completions.d
pythondir   ?= $(PREFIX)/lib/python3/dist-packages
INSTALL     ?= install
MPICXX      ?= mpicxx
PKG_CONFIG  ?= pkg-config

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$(2))')
# `make help` and its like must work before anything is installed.
BUILDING := $(filter-out help clean format uninstall,$(or $(MAKECMDGOALS),all))

# The commands of the README build everything first: on all cores, unless -j says otherwise.
ifneq ($(filter check demo,$(MAKECMDGOALS)),)
  ifeq ($(filter -j%,$(MAKEFLAGS)),)
    MAKEFLAGS += -j$(shell nproc)
  endif
endif

# ---- What is on this machine ------------------------------------------------------------------------------

# pkg-config is asked while this file is read, so for `check` and `demo` the packages must be there by now.
DRY_RUN := $(findstring n,$(firstword -$(MAKEFLAGS)))
ifneq ($(and $(filter check demo,$(MAKECMDGOALS)),$(filter yes,$(SETUP)),$(if $(DRY_RUN),,go)),)
  SETUP_OUTPUT := $(shell scripts/setup >&2)
  ifneq ($(.SHELLSTATUS),0)
    $(error scripts/setup could not install what is missing (SETUP=no goes on without it))
  endif
endif

# Debian keeps one openblas.pc per threading flavour: take the pthread one, whatever the alternatives say.
export PKG_CONFIG_PATH := $(PKG_CONFIG_PATH)$(addprefix :,$(wildcard /usr/lib/*/openblas-pthread/pkgconfig))

found = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes)

PACKAGES := hwloc openblas jansson libxxhash libzip yaml-0.1 ompi-c
CLI_PACKAGES := ncursesw
OPENCL_PACKAGES := OpenCL clblast

ifeq ($(filter auto yes no,$(WITH_OPENCL)),)
  $(error WITH_OPENCL is '$(WITH_OPENCL)': expected auto, yes or no)
endif
ifneq ($(BUILDING),)
  ifneq ($(WITH_OPENCL),no)
    OPENCL := $(call found,$(OPENCL_PACKAGES))
  endif
  ifeq ($(WITH_OPENCL)$(OPENCL),yes)
    $(error WITH_OPENCL=yes, but pkg-config does not find both of: $(OPENCL_PACKAGES). Run scripts/setup)
  endif
  PACKAGES += $(if $(OPENCL),$(OPENCL_PACKAGES))
  # lowdown makes manual pages of Markdown.
  MISSING := $(strip $(foreach p,$(PACKAGES) $(CLI_PACKAGES),$(if $(call found,$(p)),,$(p))) \
               $(if $(shell command -v lowdown),,lowdown))
  ifneq ($(and $(MISSING),$(filter-out info lint,$(BUILDING))),)
    $(error not found: $(MISSING). Run scripts/setup)
  endif
  # -isystem: our warnings are for our code, not for mpi.h.
  PKG_CPPFLAGS := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null))
  # The program's alone, not the library's.
  CLI_CPPFLAGS := $(shell $(PKG_CONFIG) --cflags $(CLI_PACKAGES) 2>/dev/null)
  CLI_LIBS     := $(shell $(PKG_CONFIG) --libs $(CLI_PACKAGES) 2>/dev/null) -lm
  PKG_LIBS     := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null)
  MPI_LIBS     := $(shell $(PKG_CONFIG) --libs ompi-c 2>/dev/null)
  cc_option     = $(shell $(CC) $(1) -E -x c /dev/null >/dev/null 2>&1 && echo '$(1)')
  HARDENING    := $(call cc_option,-fcf-protection) $(call cc_option,-fstack-clash-protection)
endif

# ---- Flags ------------------------------------------------------------------------------------------------

ifeq ($(MODE),release)
  MODE_FLAGS := -O3 -g
else ifeq ($(MODE),debug)
  MODE_FLAGS := -O0 -g -DMMUL_DEBUG
else ifeq ($(MODE),asan)
  MODE_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
else ifeq ($(MODE),fuzz)
  MODE_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
                -fno-sanitize-recover=all
else ifeq ($(MODE),tsan)
  MODE_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
else
  $(error MODE is '$(MODE)': expected release, debug, asan or tsan)
endif
# glibc's checks need an optimiser and get in the sanitizers' way.
ifeq ($(MODE)$(filter -O0,$(CFLAGS)),release)
  FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif

WARNINGS := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            -Wformat=2 -Wundef $(if $(filter 1 yes,$(WERROR)),-Werror)

# The user's CPPFLAGS, CFLAGS and LDFLAGS come last everywhere, so they win.
BUILD_CPPFLAGS := -Isrc -Iinclude -I$(BUILD)/gen -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 \
                  -DMMUL_WITH_OPENCL=$(if $(OPENCL),1,0) $(FORTIFY) $(PKG_CPPFLAGS)
BUILD_CFLAGS   := -std=c11 -pthread $(MODE_FLAGS) $(WARNINGS) -fstack-protector-strong $(HARDENING)
BUILD_LDFLAGS  := -pthread -Wl,-z,relro,-z,now -Wl,--as-needed
COMPILE = $(CC) $(BUILD_CPPFLAGS) $(BUILD_CFLAGS) -MMD -MP
LINK    = $(CC) $(BUILD_CFLAGS) $(BUILD_LDFLAGS)
LIBS   := $(PKG_LIBS) -lm
USER_LINK = $(CFLAGS) $(LDFLAGS)

# ---- Sources and products ---------------------------------------------------------------------------------

VERSION := $(shell sed -n 's/^.define MMUL_VERSION "\(.*\)"/\1/p' include/mpimatmul_local.h)
SONAME  := libmpimatmul.so.$(firstword $(subst ., ,$(VERSION)))

ABSENT   := src/device/opencl_absent.c
LEFT_OUT := $(if $(OPENCL),$(ABSENT),$(filter-out $(ABSENT),$(wildcard src/device/opencl_*.c)))
CLI_SRC  := $(sort $(wildcard src/cli/*.c))
LIB_SRC  := $(sort $(filter-out $(CLI_SRC) $(LEFT_OUT),$(wildcard src/*/*.c src/*/*/*.c)))
KERNELS  := $(if $(OPENCL),$(sort $(wildcard kernels/*.cl)))
PAGE     := $(sort $(wildcard src/api/page/*.html src/api/page/*.css src/api/page/*.js))

OBJ     := $(BUILD)/obj
GEN     := $(BUILD)/gen
F64_SRC := $(shell grep -l mmul_real src/device/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(OBJ)/%.o) $(F64_SRC:%.c=$(OBJ)/%.f64.o) $(OBJ)/gen/kernels.o $(OBJ)/gen/page_parts.o
CLI_OBJ := $(CLI_SRC:%.c=$(OBJ)/%.o)

PROGRAM := $(if $(CLI_SRC),$(BUILD)/bin/mpimatmul)
STATIC  := $(BUILD)/lib/libmpimatmul.a
SHARED  := $(BUILD)/lib/libmpimatmul.so.$(VERSION)
LINKS   := $(BUILD)/lib/$(SONAME) $(BUILD)/lib/libmpimatmul.so

# A command is a row with a name, and has a manual page of its own. Other pages are texts beside what they describe.
COMMANDS := $(sort $(shell sed -n 's/^    \.name = "\(.*\)",$$/\1/p' src/cli/cmd_*.c src/cli/one_line_commands.c))
MAN      := $(patsubst %,$(BUILD)/man/%.1,mpimatmul $(COMMANDS:%=mpimatmul-%))
TEXTS    := $(wildcard src/*/*mpimatmul*.[357].md)
PAGES    := $(patsubst %.md,$(BUILD)/man/%,$(notdir $(TEXTS)))
COMPLETIONS := $(patsubst %,$(BUILD)/completions/%,mpimatmul _mpimatmul mpimatmul.fish)

# tests/SUITE/NAME_test.c becomes the program tests/SUITE/NAME_test under $(BUILD), tests/embed/NAME.c the
# program tests/embed/NAME, and tests/lib/NAME.c, which is for LD_PRELOAD, tests/NAME.so.
tests_of  = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$(1)/*_test.c))
EMBED    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/embed/*.c))
PRELOAD  := $(patsubst tests/lib/%.c,$(BUILD)/tests/%.so,$(wildcard tests/lib/*.c))
INTERNAL := $(foreach s,unit mpi device,$(call tests_of,$(s)))
# Parsers that take any bytes: with a main that replays files, and in MODE=fuzz with libFuzzer's.
FUZZ     := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/*_fuzz.c))
# The program once more, and a conformance test, with a kind of device that tests/stub/stub_device.c adds.
STUB     := $(BUILD)/tests/stub/mpimatmul $(BUILD)/tests/stub/conformance_test

# Programs to compare with, bench/peers/NAME.c, where their libraries are there.
SCALAPACK := $(firstword $(wildcard $(patsubst %,%/libscalapack-openmpi.so,$(wildcard /usr/lib/*-linux-gnu /usr/lib))))
PEERS     := $(patsubst %,$(BUILD)/bench/%,sgemm stream copy empty_mpi $(if $(SCALAPACK),psgemm) \
               $(if $(OPENCL),clblast_sgemm))
# Our own library as an embedder has it.
DRIVER    := $(BUILD)/bench/program
INSIDE    := $(BUILD)/bench/grid_plan $(BUILD)/bench/rows
NVCC      ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_PEER := $(if $(NVCC),$(BUILD)/bench/cublas_sgemm)
# No package: the folder that COSMA (and COSTA) was installed to.
COSMA      ?=
COSMA_PEER := $(if $(COSMA),$(BUILD)/bench/cosma_sgemm)

# ---- Building ---------------------------------------------------------------------------------------------

.PHONY: all
all: $(PROGRAM) $(STATIC) $(SHARED) $(LINKS) $(MAN) $(PAGES) $(COMPLETIONS) ## build everything (default)

# A stamp changes only when its text does: other flags rebuild the objects, another set of files the libraries.
.PHONY: FORCE
FORCE:
$(BUILD)/flags: export STAMP = $(COMPILE) $(CPPFLAGS) $(CFLAGS)
$(BUILD)/link: export STAMP = $(LINK) $(USER_LINK) $(LIBS) $(CLI_LIBS) $(LIB_OBJ) $(CLI_OBJ)
$(BUILD)/kernels: export STAMP = $(KERNELS) $(PAGE)
$(BUILD)/flags $(BUILD)/link $(BUILD)/kernels: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$STAMP" | cmp -s - $@ || printf '%s\n' "$$STAMP" > $@

$(GEN)/kernels.h $(GEN)/kernels.c &: $(KERNELS) scripts/embed $(BUILD)/kernels
	$(call say,EMBED,$(GEN)/kernels.c)
	$(Q)scripts/embed $(GEN)/kernels kernel $(KERNELS)

$(GEN)/page_parts.h $(GEN)/page_parts.c &: $(PAGE) scripts/embed $(BUILD)/kernels
	$(call say,EMBED,$(GEN)/page_parts.c)
	$(Q)scripts/embed $(GEN)/page_parts page $(PAGE)

$(OBJ)/%.o: %.c $(BUILD)/flags | $(GEN)/kernels.h $(GEN)/page_parts.h
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(PIC) $(VECTOR) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(OBJ)/gen/%.o: $(GEN)/%.c $(BUILD)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(PIC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# What says mmul_real is made for float32 and once more for float64 (device/cpu_map_loops.h).
$(OBJ)/%.f64.o: %.c $(BUILD)/flags | $(GEN)/kernels.h $(GEN)/page_parts.h
	$(call say,CC,$< (float64))
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(PIC) $(VECTOR) -DMMUL_CPU_F64 $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# `private`: a target's value must not leak into what it depends on.
$(LIB_OBJ): private PIC := -fPIC -fvisibility=hidden
$(CLI_OBJ): private PIC := -fPIE
$(OBJ)/src/cli/top_screen.o: private PIC := -fPIE $(CLI_CPPFLAGS)
$(OBJ)/tests/%.o: private PIC := -fPIE
# Loops that are to become vector code: no errno, no traps, a * b + c rounded once; sums in any order where they say so.
$(OBJ)/src/device/cpu_map%.o: private VECTOR := -fopenmp-simd -ffp-contract=fast -fno-math-errno -fno-trapping-math

$(STATIC): $(LIB_OBJ) $(BUILD)/link
	$(call say,AR,$@)
	@mkdir -p $(@D) && rm -f $@
	$(Q)$(AR) rcs $@ $(LIB_OBJ)

$(SHARED): $(LIB_OBJ) $(BUILD)/link
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs -o $@ $(LIB_OBJ) $(LIBS) $(USER_LINK)

$(LINKS): $(SHARED)
	@ln -sf $(notdir $<) $@ && touch -h $@

# Embedders, our own program first: the shared library and MPI (its public header names MPI_Comm), nothing else.
# $(1): from the program to the library, where that is not where the system looks.
rpath = -Wl,-rpath,'$$ORIGIN/$(1)'
link_embedder = $(LINK) -pie $(if $(1),$(call rpath,$(1))) -o $@ $(filter %.o,$^) \
                -L$(BUILD)/lib -lmpimatmul $(MPI_LIBS) $(USER_LINK)

$(BUILD)/bin/mpimatmul: $(CLI_OBJ) $(SHARED) $(LINKS) $(BUILD)/link
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(call link_embedder,../lib) $(CLI_LIBS)

$(BUILD)/deb/mpimatmul: $(CLI_OBJ) $(SHARED) $(LINKS) $(BUILD)/link
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(call link_embedder) $(CLI_LIBS)

$(EMBED): $(BUILD)/%: $(OBJ)/%.o $(SHARED) $(LINKS) $(BUILD)/link
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(call link_embedder,../../lib)

# Tests of the inside see every symbol, so they take the static library.
$(INTERNAL): $(BUILD)/%: $(OBJ)/%.o $(STATIC)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(LINK) -pie -o $@ $< $(STATIC) -lcmocka $(LIBS) $(USER_LINK)

FUZZ_MAIN := $(if $(filter fuzz,$(MODE)),,$(OBJ)/tests/fuzz/replay.o)
$(FUZZ): $(BUILD)/%: $(OBJ)/%.o $(FUZZ_MAIN) $(STATIC)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(LINK) -pie $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) -o $@ $< $(FUZZ_MAIN) $(STATIC) $(LIBS) $(USER_LINK)

$(OBJ)/tests/stub/registry.o: src/device/registry.c $(BUILD)/flags
	$(call say,CC,$< for the stub)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -fPIE -D'MMUL_MORE_KINDS=KIND(stub)' $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

STUB_OBJ := $(filter-out $(OBJ)/src/device/registry.o,$(LIB_OBJ)) $(OBJ)/tests/stub/registry.o \
            $(OBJ)/tests/stub/stub_device.o
$(BUILD)/tests/stub/mpimatmul: $(CLI_OBJ)
$(BUILD)/tests/stub/mpimatmul: private MORE_LIBS := $(CLI_LIBS)
$(BUILD)/tests/stub/conformance_test: $(OBJ)/tests/device/conformance_test.o
$(STUB): $(STUB_OBJ) $(BUILD)/link
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(LINK) -pie -o $@ $(filter %.o,$^) $(LIBS) $(MORE_LIBS) $(USER_LINK)

$(PEERS): $(BUILD)/bench/%: bench/peers/%.c $(wildcard bench/peers/*.h) $(BUILD)/flags
	$(call say,LINK,$@)
	@mkdir -p $(@D) $(OBJ)/bench
	$(Q)$(COMPILE) $(CPPFLAGS) $(CFLAGS) -MF $(OBJ)/bench/$*.d -o $@ $< $(PKG_LIBS) \
	    $(if $(filter psgemm,$*),$(SCALAPACK)) $(LDFLAGS)

# What measures the inside, like the tests of it.
$(INSIDE): $(BUILD)/bench/%: $(OBJ)/bench/peers/%.o $(STATIC)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(LINK) -pie -o $@ $< $(STATIC) $(LIBS) $(USER_LINK)

$(DRIVER): $(OBJ)/bench/peers/program.o $(SHARED) $(LINKS) $(BUILD)/link
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(call link_embedder,../lib)

$(COSMA_PEER): bench/peers/cosma_sgemm.cpp bench/peers/peer.h
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(MPICXX) -std=c++17 -O2 -fopenmp -I$(COSMA)/include -o $@ $< $(addprefix -L$(COSMA)/,lib lib64) \
	    -lcosma -lcosta $(PKG_LIBS)

# Where it is built need not be where it runs: there the library lies in the same folder or on the path.
$(BUILD)/bench/cublas_sgemm: bench/peers/cublas_sgemm.cu bench/peers/peer.h
	$(call say,NVCC,$@)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -O2 -o $@ $< -lcublas -Xlinker -rpath,$(patsubst %/bin/nvcc,%/lib64,$(realpath $(NVCC)))

$(PRELOAD): $(BUILD)/tests/%.so: tests/lib/%.c $(BUILD)/flags
	$(call say,LINK,$@)
	@mkdir -p $(@D) $(OBJ)/tests
	$(Q)$(COMPILE) -fPIC $(CPPFLAGS) $(CFLAGS) -MF $(OBJ)/tests/lib-$*.d -shared -o $@ $< -ldl $(LDFLAGS)

# Made from what the program prints for --help.
$(MAN): scripts/make-man $(PROGRAM)
	$(if $(filter mpimatmul.1,$(@F)),$(call say,MAN,$(@D)/*.1))
	@mkdir -p $(@D)
	$(Q)scripts/make-man $(PROGRAM) $(patsubst mpimatmul-%,%,$(filter mpimatmul-%,$(basename $(@F)))) > $@

vpath %.md $(sort $(dir $(TEXTS)))
$(PAGES): $(BUILD)/man/%: %.md scripts/make-man $(PROGRAM)
	$(call say,MAN,$@)
	@mkdir -p $(@D)
	$(Q)scripts/make-man $(PROGRAM) $< > $@

$(COMPLETIONS): scripts/make-completion $(PROGRAM)
	$(if $(filter %.fish,$@),$(call say,SHELL,$(@D)/*))
	@mkdir -p $(@D)
	$(Q)scripts/make-completion $(if $(filter %.fish,$@),fish,$(if $(filter _%,$(@F)),zsh,bash)) $(PROGRAM) > $@

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

# ---- Checking ---------------------------------------------------------------------------------------------

CHECK_unit   = $(call tests_of,unit) $(PRELOAD)
CHECK_mpi    = $(call tests_of,mpi) $(PRELOAD)
CHECK_device = $(call tests_of,device)
CHECK_cli    = all $(CHECK_device) $(DRIVER) $(INSIDE) $(FUZZ) $(EMBED) $(PRELOAD) $(STUB) $(BUILD)/deb/mpimatmul
CHECK_lab    = all $(BUILD)/tests/mpi/program_test $(EMBED) $(PRELOAD)

.PHONY: demo check check-long tests lint
demo: all ## multiply large matrices on one core, then on all there is; show the speed-up
	@BUILD=$(BUILD) scripts/demo

check: $(foreach s,$(SUITE),$(CHECK_$(s))) ## lint and all tests (SUITE="unit mpi", ONLY=part-of-a-name for some)
	@BUILD=$(BUILD) MODE=$(MODE) scripts/run-tests $(SUITE)

check-long: all $(PRELOAD) $(CHECK_device) ## tests that need tens of GiB or hours: huge matrices, all faults
	@BUILD=$(BUILD) MODE=$(MODE) scripts/run-tests long

HOURS ?= 1
SEED  ?= 1
.PHONY: soak
soak: all $(PRELOAD) ## random jobs with random faults for hours (HOURS=8 SEED=2 KINDS="stalls cuts")
	@bash -c '. tests/environment.sh; export PYTHONPATH=$$REPO/src/python \
	    MPIMATMUL_LIBRARY=$$BUILD/lib/libmpimatmul.so.0; "$$PYTHON" tests/soak.py $(HOURS) $(SEED) $(KINDS)'

tests: all $(INTERNAL) $(FUZZ) $(EMBED) $(PRELOAD) $(STUB) ## build every test program, run none

# clang alone has libFuzzer. SECONDS_EACH and TARGETS="npy npz" for less or some.
SECONDS_EACH ?= 600
.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZ)
fuzz: ## look for inputs that break parsers, 10 minutes each (needs clang; SECONDS_EACH=60 TARGETS="npy npz")
	@clang --version > /dev/null 2>&1 || \
	    { echo 'make fuzz needs clang and its libFuzzer: apt-get install clang' >&2; exit 69; }
	@$(MAKE) --no-print-directory MODE=fuzz BUILD=build/fuzz CC=clang SETUP=no fuzz-programs
	@scripts/fuzz build/fuzz/tests/fuzz $(SECONDS_EACH) $(TARGETS)

lint: ## layers, style, plain language, clang-format, shellcheck and, where installed, cppcheck
	@BUILD=$(BUILD) MODE=$(MODE) scripts/run-tests lint

.PHONY: hooks compile_commands.json
hooks: ## let git run lint before each commit
	@git config core.hooksPath scripts/hooks

compile_commands.json: ## the commands that compile, for clangd and other tools
	@$(MAKE) --no-print-directory --always-make --dry-run V=1 SETUP=no all tests | scripts/compile-commands

# ---- Measuring --------------------------------------------------------------------------------------------

.PHONY: bench bench-peers
bench-peers: $(PEERS) $(DRIVER) $(INSIDE) $(CUDA_PEER) $(COSMA_PEER)
	@$(if $(SCALAPACK),:,echo 'psgemm is not built: no libscalapack-openmpi.so, run scripts/setup bench')

bench: all bench-peers ## measure the cases of bench/README.md (BENCH="--quick small" for options and cases)
	@bench/run --build $(BUILD) $(BENCH)

.PHONY: gpu-kit
gpu-kit: all bench-peers $(CHECK_device) ## pack build/gpu-kit.tar.gz, which tests and measures a card elsewhere
	@BUILD=$(BUILD) bench/kit/pack build/gpu-kit.tar.gz

# ---- Installing -------------------------------------------------------------------------------------------

# FILES_NAME go to the folder that the variable NAME holds: one list for install and uninstall.
data_dir     := $(datadir)/mpimatmul
hostfile_dir := $(data_dir)/hostfiles
man1_dir     := $(mandir)/man1
man3_dir     := $(mandir)/man3
man5_dir     := $(mandir)/man5
man7_dir     := $(mandir)/man7
python_dir   := $(pythondir)/mpimatmul
doc_dir      := $(datadir)/doc/mpimatmul
example_dir  := $(doc_dir)/examples
FOLDERS      := bindir libdir includedir man1_dir man3_dir man5_dir man7_dir bashdir zshdir fishdir hostfile_dir \
                data_dir python_dir example_dir
FILES_bindir       = $(PROGRAM)
FILES_libdir       = $(SHARED) $(STATIC)
FILES_includedir  := $(wildcard include/*.h)
FILES_man1_dir     = $(MAN)
FILES_man3_dir     = $(filter %.3,$(PAGES))
FILES_man5_dir     = $(filter %.5,$(PAGES))
FILES_man7_dir     = $(filter %.7,$(PAGES))
FILES_bashdir      = $(BUILD)/completions/mpimatmul
FILES_zshdir       = $(BUILD)/completions/_mpimatmul
FILES_fishdir      = $(BUILD)/completions/mpimatmul.fish
FILES_hostfile_dir := $(wildcard hostfiles/*)
FILES_data_dir    := $(wildcard include/*.schema.json) \
                     $(addprefix scripts/,mpimatmul.tune environment.sh mpimatmul.sbatch)
FILES_python_dir  := $(wildcard src/python/mpimatmul/*.py)
FILES_example_dir := $(wildcard bench/programs/*) tests/embed/multiply.c tests/reference.py
LIB_LINKS         := $(SONAME) libmpimatmul.so
# Shells look for completions by the name of the command, here that of a launcher.
LAUNCHER_LINKS    := $(foreach l,mpirun mpiexec,$(bashdir)/$(l) $(fishdir)/$(l).fish)

to = $(DESTDIR)$(1)
define install_folder
	$(INSTALL) -d $(call to,$($(1)))
	$(INSTALL) -m $(if $(filter bindir,$(1)),755,644) $(FILES_$(1)) $(call to,$($(1)))

endef

.PHONY: install uninstall deb wheel
# Libs.private instead of Requires.private: only who links statically needs our libraries' own packages.
install: all ## install under PREFIX (/usr/local), below DESTDIR if given
	$(foreach folder,$(FOLDERS),$(call install_folder,$(folder)))
	$(foreach link,$(LIB_LINKS),ln -sf $(notdir $(SHARED)) $(call to,$(libdir)/$(link));)
	$(foreach link,$(LAUNCHER_LINKS),[ -e $(call to,$(link)) ] || \
	    ln -s mpimatmul$(suffix $(link)) $(call to,$(link));)
	scripts/install-documents $(call to,$(doc_dir))
	$(INSTALL) -d $(call to,$(pkgconfigdir))
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(libdir)|' -e 's|@INCLUDEDIR@|$(includedir)|' \
	    -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS_PRIVATE@|$(LIBS)|' scripts/mpimatmul.pc.in \
	    > $(call to,$(pkgconfigdir)/mpimatmul.pc)

uninstall: ## remove what install put there
	rm -f $(foreach d,$(FOLDERS),$(foreach f,$(notdir $(FILES_$(d))),$(call to,$($(d))/$(f))))
	rm -f $(foreach f,$(LIB_LINKS),$(call to,$(libdir)/$(f))) $(call to,$(pkgconfigdir)/mpimatmul.pc)
	$(foreach l,$(LAUNCHER_LINKS),[ "$$(readlink $(call to,$(l)))" != mpimatmul$(suffix $(l)) ] || rm $(call to,$(l));)
	rm -rf $(call to,$(doc_dir))
	-rmdir $(call to,$(hostfile_dir)) $(call to,$(data_dir)) $(call to,$(python_dir)) 2>/dev/null

DEB_ARCH = $(shell dpkg --print-architecture)
deb: all $(BUILD)/deb/mpimatmul ## build a Debian package of all that install installs: mpimatmul_VERSION_ARCH.deb
	$(Q)rm -rf $(BUILD)/deb/root
	$(Q)$(MAKE) -s --no-print-directory -o all install DESTDIR=$(BUILD)/deb/root PREFIX=/usr \
	    libdir=/usr/lib/$(shell $(CC) -print-multiarch) zshdir=/usr/share/zsh/vendor-completions \
	    FILES_bindir=$(BUILD)/deb/mpimatmul
	$(Q)scripts/make-deb $(BUILD)/deb/root $(VERSION) $(BUILD)/mpimatmul_$(VERSION)_$(DEB_ARCH).deb

wheel: all ## build a Python wheel with program and library in it: mpimatmul-VERSION-py3-none-PLATFORM.whl
	$(Q)scripts/make-wheel $(PROGRAM) $(SHARED) $(BUILD)

# ---- Everything else --------------------------------------------------------------------------------------

.PHONY: info format clean help
info: ## show compiler, mode, flags and the libraries found
	@printf '%-12s %s\n' version '$(VERSION)' mode '$(MODE) in $(BUILD)' compiler "$$($(CC) --version | head -n 1)" \
	    opencl '$(if $(OPENCL),on,off) (WITH_OPENCL=$(WITH_OPENCL))' \
	    cppflags '$(strip $(BUILD_CPPFLAGS) $(CPPFLAGS))' cflags '$(strip $(BUILD_CFLAGS) $(CFLAGS))' \
	    ldflags '$(strip $(BUILD_LDFLAGS) $(LDFLAGS))' libs '$(strip $(LIBS))'
	@for p in $(PACKAGES) $(CLI_PACKAGES) cmocka; do \
	    printf '%-12s %s\n' $$p "$$($(PKG_CONFIG) --modversion $$p 2>/dev/null || echo absent)"; done

format: ## let clang-format rewrite all C and OpenCL files
	clang-format -i $(wildcard include/*.h src/*/*.[ch] src/*/*/*.[ch] kernels/*.cl tests/*.[ch] tests/*/*.[ch] \
	    bench/*/*.[ch])

clean: ## remove the build folder of all modes
	rm -rf build $(BUILD)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo 'Choices: MODE=release|debug|asan|tsan WITH_OPENCL=auto|yes|no WERROR=1 PREFIX= DESTDIR= CFLAGS= SETUP=no V=1'
