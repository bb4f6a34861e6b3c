# Targets for users and developers; `make help` lists them. Each target installs what it needs on Debian and Ubuntu, or says what is missing.
# All use one profile (dev, optimised: see Cargo.toml), so that Unicorn is compiled once.

SHELL := /bin/bash
CARGO ?= cargo
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(PATH):$(CARGO_HOME)/bin

# Arguments of trapline for `make run`: make run ARGS="run tiny/i386 --list"
ARGS ?= run
# Arguments of the test runner for `make test`: make test TESTS="-p trapline-isa"
TESTS ?= --workspace
# Seconds for each target of `make fuzz`; 0 runs only the committed corpora.
FUZZ_SECONDS ?= 60

# `make budget BUDGET=all` also measures slow rows; BUDGET="loops/arm64 tiny/arm64" measures only these guests.
BUDGET ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## lists the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: run
run: ## boots the built-in tiny kernel with demo probes; ARGS="..." runs any other trapline command
	@scripts/setup.sh build
	$(CARGO) run --locked --package trapline --bin trapline -- $(ARGS)

.PHONY: test
test: ## all tests; brings the stock kernels that they run on by apt, where it can; the last lines say what was skipped
	@scripts/setup.sh test
	scripts/test-setup.sh
	$(CARGO) build --locked --package trapline --bin trapline
	@$(if $(NO_IMAGES),,scripts/images.sh -- $(IMAGES) || true)
	@mkdir -p $(dir $(TALLY)) && rm -f $(TALLY)
	$(CARGO) test --locked --doc --workspace
	TRAPLINE_TALLY=$(TALLY) $(CARGO) nextest run --locked $(TESTS); status=$$?; scripts/tally.sh $(TALLY); exit $$status

# The lines that tests leave: what they ran on, and why they were skipped.
TALLY := $(CURDIR)/target/tally.tsv
# The kernels of the tests that Debian's archive has. every_kernel runs on all that are there.
IMAGES = $(NEEDED) $(WANTED)
# Without these a run means little. The others may be missing, if the archive is away.
NEEDED := debian/amd64 debian/i386 debian/arm64 debian/armhf
WANTED = $(filter-out $(NEEDED),$(shell sed -nE 's|.*name: "(debian/[^"]*)".*|\1|p' tests/harness/src/guests.rs)) debian/amd64-cloud

.PHONY: images
images: ## downloads the stock kernels for the tests, with modules, unless a folder of TRAPLINE_IMAGES or the cache has them
	@scripts/setup.sh build
	$(CARGO) build --locked --package trapline --bin trapline
	scripts/images.sh $(NEEDED) -- $(WANTED)

.PHONY: recorded
recorded: ## records the guests' runs again (tests/recorded.tsv), after a deliberate change
	@scripts/setup.sh test
	TRAPLINE_RECORD_RUNS=1 $(CARGO) test --locked --package trapline-tests --test recorded -- --test-threads=1

.PHONY: lint
lint: ## rustfmt, clippy with warnings denied, the fuzz targets compile, layer rules, references between files
	@scripts/setup.sh build
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	@$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null || \
		{ echo "fuzz/Cargo.lock is behind: run 'cargo fetch --manifest-path fuzz/Cargo.toml' and commit it"; exit 1; }
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --package trapline --no-default-features --lib -- -D warnings
	@if command -v c++ >/dev/null; then set -x; $(CARGO) check --locked --manifest-path fuzz/Cargo.toml --bins; \
		else echo "the fuzz targets are not compiled: libFuzzer needs c++, which is missing"; fi
	scripts/check-floors.sh
	scripts/core-exits.sh
	scripts/core-functions.sh
	scripts/check-references.sh

# The number of random instructions of each ISA for `make differential`.
CASES ?= 1000000

.PHONY: differential
differential: ## runs CASES random instructions of each ISA in place and out of line, on all cores; ARCHES="x86_64 arm64" chooses
	@scripts/setup.sh test
	scripts/differential.sh $(CASES) $(ARCHES)

.PHONY: opinions
opinions: ## compares our decoders with capstone, yaxpeax and objdump over the text of the stock kernels; OPINION=amd64 chooses
	@scripts/setup.sh test opinions
	scripts/opinions.sh $(OPINION)

.PHONY: all-functions
all-functions: ## measures boots of the stock kernels with a probe on every function; KERNELS="debian/amd64 debian/arm64" chooses
	@scripts/setup.sh build
	$(CARGO) build --locked --package trapline --bin trapline
	scripts/all-functions.sh $(KERNELS)

.PHONY: upgrade-check
upgrade-check: ## proves a version of Unicorn: changed functions, self-checks, walls, in-place against out-of-line, recorded runs
	@scripts/setup.sh test
	scripts/core-functions.sh
	scripts/core-exits.sh
	$(CARGO) nextest run --locked --workspace --lib
	$(CARGO) nextest run --locked --workspace --test walls --test differential --test recorded --test same_run --test snapshots

# The engine in a kernel: no standard library, no C library, an allocator and a panic handler of its own. With a crate that needs std, the
# compiler would find two panic handlers.
# A kernel has its own memcpy and the like, so symbols may stay unresolved.
FREESTANDING := -C relocation-model=static $(addprefix -C link-arg=,-nostartfiles -nostdlib -static -Wl,--unresolved-symbols=ignore-all)
.PHONY: freestanding
freestanding: ## compiles the engine without std, as a kernel would
	@scripts/setup.sh build
	$(CARGO) rustc --locked --package trapline-probes --example made_up_kernel -- --cfg freestanding -C panic=abort $(FREESTANDING)

.PHONY: package
package: ## packs isa, core, probes and script as for the registry and compiles the packages; publishes nothing
	@scripts/setup.sh build
	scripts/package.sh

.PHONY: nightly
nightly: freestanding package licences opinions ## the steps that .ci/run leaves away on a slow computer, all tests, whole kernels for other decoders, all budgets
	$(CARGO) nextest run --locked --workspace --ignore-default-filter
	$(MAKE) fuzz FUZZ_SECONDS=0
	$(MAKE) budget BUDGET=all

.PHONY: deb
deb: ## builds the Debian package target/trapline.deb, with manual pages and completions
	@scripts/setup.sh build
	$(CARGO) build --locked --release --package trapline --bin trapline
	scripts/deb.sh target/release/trapline target/trapline.deb

.PHONY: release
release: ## checks and prepares a release, VERSION=1.2.3: release notes, packages; prints the commands that make it
	@scripts/setup.sh build
	scripts/release.sh "$(VERSION)"

.PHONY: docs
docs: ## builds the API documentation, with warnings denied
	@scripts/setup.sh build
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace

# Both workspaces use one list, so each has exceptions that only the other needs. Advisories are not checked: they need the network.
DENY := --hide-inclusion-graph --allow license-exception-not-encountered licenses bans sources

.PHONY: licences
licences: ## checks licences and sources of all dependencies (deny.toml)
	@scripts/setup.sh licences
	$(CARGO) deny --locked check $(DENY)
	$(CARGO) deny --locked --manifest-path fuzz/Cargo.toml check $(DENY)

.PHONY: budget
# Incremental builds inline less, so their counts are others (docs/overhead.md).
budget: ## counts host instructions of hits and of guest code with callgrind, against benches/budgets.tsv
	@scripts/setup.sh budget
	CARGO_INCREMENTAL=0 $(CARGO) run --locked --package trapline-benches --bin budget -- $(BUDGET)

.PHONY: bench
bench: ## runs criterion's benchmarks (target/criterion/report/index.html), writes docs/overhead.md and its plots
	@scripts/setup.sh build
	$(CARGO) bench --locked --profile dev --package trapline-benches --bench hits
	$(CARGO) run --locked --package trapline-benches --bin overhead

.PHONY: kernels
kernels: ## boots and probes the newest kernel of each of Debian's suites and flavours that apt reaches: the rows of docs/kernels.md
	@scripts/setup.sh build
	$(CARGO) build --locked --package trapline
	scripts/try-kernels.sh $(KERNELS)

.PHONY: machines
machines: ## measures whole machines for docs/overhead.md: boots and workloads of Debian kernels, compared with QEMU, and virtual time
	@scripts/setup.sh budget machines
	$(CARGO) run --locked --package trapline-benches --bin machine -- --write
	$(CARGO) run --locked --package trapline-benches --bin virtual_time -- --write
	$(CARGO) run --locked --package trapline-benches --bin guest_kprobes -- --write

.PHONY: fuzz
fuzz: ## runs every fuzz target for FUZZ_SECONDS (60)
	@scripts/setup.sh fuzz
	scripts/fuzz.sh $(FUZZ_SECONDS)
