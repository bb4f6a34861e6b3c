# What people do with trapline; each target installs what it needs on Debian and its kin, or says what is missing.
# `make help` lists them. One profile (dev, optimised: see Cargo.toml) for all of them, so that Unicorn is compiled once.

SHELL := /bin/bash
CARGO ?= cargo
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(PATH):$(CARGO_HOME)/bin

# What `make run` passes to trapline: make run ARGS="run tiny/i386 --list"
ARGS ?= run
# What `make test` passes to the test runner: make test TESTS="-p trapline-isa"
TESTS ?= --workspace
# How long `make fuzz` runs each target; 0: on the committed corpora only.
FUZZ_SECONDS ?= 60

# `make budget BUDGET=all` measures the rows, too, that take callgrind long; BUDGET="loops/arm64 tiny/arm64": those guests alone.
BUDGET ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: run
run: ## boots the built-in tiny kernel with the demo probes; ARGS="..." runs any other trapline command
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
# The kernels that Debian's archive has for every guest here.
IMAGES = $(NEEDED) $(WANTED)
# Without these a run means little. The others may be missing, if the archive is away.
NEEDED := debian/amd64 debian/i386 debian/arm64 debian/armhf
WANTED := debian/ppc64el debian/mipsel debian/mips64el debian/s390x debian/i386-pae debian/armhf-lpae debian/amd64-rt debian/amd64-cloud

.PHONY: images
images: ## brings the stock kernels that tests run on, with their modules, by apt: those that are in no folder of TRAPLINE_IMAGES and not in the cache
	@scripts/setup.sh build
	$(CARGO) build --locked --package trapline --bin trapline
	scripts/images.sh $(NEEDED) -- $(WANTED)

.PHONY: recorded
recorded: ## writes down anew what guests do (tests/recorded.tsv), where that has changed for a reason
	@scripts/setup.sh test
	TRAPLINE_RECORD_RUNS=1 $(CARGO) test --locked --package trapline-tests --test recorded -- --test-threads=1

.PHONY: lint
lint: ## format, clippy with warnings denied, and the rules between the crates
	@scripts/setup.sh build
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	@$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null || \
		{ echo "fuzz/Cargo.lock is behind: run 'cargo fetch --manifest-path fuzz/Cargo.toml' and commit it"; exit 1; }
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --package trapline --no-default-features --lib -- -D warnings
	scripts/check-floors.sh
	scripts/check-references.sh

.PHONY: docs
docs: ## the API documentation, warnings denied
	@scripts/setup.sh build
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace

# One list for both workspaces, so each has exceptions that only the other needs. Advisories would have to be fetched.
DENY := --hide-inclusion-graph --allow license-exception-not-encountered licenses bans sources

.PHONY: licences
licences: ## licences and sources of every dependency (deny.toml)
	@scripts/setup.sh licences
	$(CARGO) deny --locked check $(DENY)
	$(CARGO) deny --locked --manifest-path fuzz/Cargo.toml check $(DENY)

.PHONY: budget
budget: ## host instructions that a hit adds, and of a guest's own code, by callgrind, against benches/budgets.tsv
	@scripts/setup.sh budget
	$(CARGO) run --locked --package trapline-benches --bin budget -- $(BUDGET)

.PHONY: bench
bench: ## criterion's benches (target/criterion/report/index.html), docs/overhead.md and its plots
	@scripts/setup.sh build
	$(CARGO) bench --locked --profile dev --package trapline-benches --bench hits
	$(CARGO) run --locked --package trapline-benches --bin overhead

.PHONY: machines
machines: ## docs/overhead.md's figures of whole machines: Debian kernels' boots and users' work, QEMU beside them, virtual time
	@scripts/setup.sh budget machines
	$(CARGO) run --locked --package trapline-benches --bin machine -- --write
	$(CARGO) run --locked --package trapline-benches --bin virtual_time -- --write
	$(CARGO) run --locked --package trapline-benches --bin guest_kprobes -- --write

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_SECONDS (60) each
	@scripts/setup.sh fuzz
	scripts/fuzz.sh $(FUZZ_SECONDS)
