# The ways to build, try and test gpumux, each by one name. CMake and Ninja do the work (the presets
# are in CMakePresets.json); everything that is built lies under build/, and a second run builds only
# what changed.

PREFIX ?= /usr/local
export PREFIX DESTDIR FUZZ_SECONDS BENCH_RESULTS

.DEFAULT_GOAL := help
.PHONY: help setup build demo test clang soak fuzz bare bench install bundle deb deb-test format clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## install the packages that building and testing need, if any is missing
	@scripts/setup build

build: setup ## build the release: build/release
	@scripts/build release

demo: build ## build, then run gpumux on emulated GPUs, in three minutes
	@scripts/demo

test: ## build and run every test: release, then again under ASan+UBSan and TSan
	@scripts/setup build test
	@scripts/headers
	@scripts/test

clang: ## build everything with clang, too: build/clang
	@scripts/setup build fuzz
	@scripts/build clang

soak: setup ## the tests three times beside a load and three times quiet, then what CI leaves out
	@scripts/setup test
	@scripts/soak

fuzz: ## run every fuzzer for FUZZ_SECONDS (60), and prove that a planted bug is found
	@scripts/setup build fuzz
	@scripts/fuzz

bare: ## make demo and make test in a chroot of a bare Debian system (needs root)
	@scripts/setup bare
	@scripts/bare

comma := ,
bench: build ## measure: bench/run; BENCH=NAME,NAME limits it to these
	@bench/run $(subst $(comma), ,$(BENCH))

install: build ## install under PREFIX (/usr/local); honours DESTDIR
	@cmake --install build/release --prefix "$(PREFIX)" --strip
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

bundle: build ## one tarball in dist/ that runs on any x86-64 Linux with glibc 2.36 or later
	@scripts/bundle

deb: ## Debian packages in dist/, linked with Debian's libraries
	@scripts/setup build deb
	@scripts/deb

deb-test: ## install, upgrade, remove and purge the packages in a chroot (needs root)
	@scripts/setup build deb bare
	@scripts/deb-test

format: ## lay out all C code with clang-format
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format -i

clean: ## remove build/ and dist/
	@rm -rf build dist
