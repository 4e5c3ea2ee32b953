# Recipes for the steps of .ci/run, and for further checks. `just` lists them.

set shell := ["bash", "-euo", "pipefail", "-c"]

[private]
default:
    @just --list --unsorted

# Run all checks of a change
check:
    .ci/run

# Format the sources
fmt:
    cargo fmt --all

# Lint all targets; a warning is an error
clippy:
    cargo clippy --workspace --all-targets -- -D warnings

# Build the documentation of the workspace's crates; a warning is an error
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Run all tests, including those with real clients, servers and the conformance suite
test *arguments:
    cargo build --workspace --all-targets
    cargo test --workspace --no-fail-fast {{ arguments }}

# Run the tests that require neither Node.js nor Python nor a network
test-fast *arguments:
    VMCP_TEST_SKIP_REAL=1 cargo test --workspace {{ arguments }}

# Check the dependency tree: duplicates, licenses, sources
deny:
    cargo deny check bans licenses sources

# Run the benchmark against a bare proxy, in release mode; `just bench --profile-row call` for some rows
bench *arguments:
    cargo build --release -p vmcp
    cargo run --release -p vmcp-bench -- {{ arguments }}

# Run every row of the benchmark with a few requests, to check correctness only
bench-smoke:
    cargo run -p vmcp-bench -- --smoke

# Compile the fuzz targets
fuzz-check:
    cargo check --manifest-path tests/fuzz/Cargo.toml --bins

# Run every fuzz target for some seconds each; requires a nightly compiler and cargo-fuzz
fuzz seconds="60":
    for target in $(cargo +nightly fuzz list --fuzz-dir tests/fuzz); do \
        cargo +nightly fuzz run --fuzz-dir tests/fuzz "$target" -- -max_total_time={{ seconds }} -timeout=20; \
    done

# Run every property test with many random cases
properties cases="5000":
    PROPTEST_CASES={{ cases }} VMCP_TEST_SKIP_REAL=1 cargo test --workspace --lib

# Test the aggregating service with random operations for some seconds, and check for leaks
soak seconds="600":
    VMCP_SOAK_SECONDS={{ seconds }} cargo test --release -p vmcp-aggregate --test gateway -- random --nocapture

# Run the scenarios of the operator in the cluster of a kubeconfig
real-cluster kubeconfig:
    VMCP_TEST_KUBECONFIG={{ kubeconfig }} cargo test -p vmcp-operator --test it -- real_cluster

# Count the instructions of the gateway for a request of a benchmark row; needs valgrind
instructions row="full-call-stateful":
    cargo build --release --package vmcp --package vmcp-bench --bins
    python3 tests/tools/instructions.py target/release {{ row }}

# Measure the memory of sessions that clients open and leave
session-memory sessions="100000":
    cargo build --release --package vmcp
    python3 tests/tools/session_memory.py target/release/vmcp {{ sessions }}

# Change one crate's code in many ways and run its tests on each; needs `cargo install --locked cargo-mutants`
mutants crate *arguments:
    cargo mutants --package {{ crate }} --in-place --timeout 120 {{ arguments }}

# Check each crate alone: the layers with each feature and their public types, the others with their own features
each-crate:
    cargo test -p vmcp-tests --test alone
    for manifest in services/*/Cargo.toml tests/Cargo.toml tests/bench/Cargo.toml; do \
        echo "$manifest"; cargo check --quiet --manifest-path "$manifest"; \
    done
    cargo clippy --quiet -p vmcp --all-targets --no-default-features -- -D warnings
    cargo check --quiet -p vmcp-examples --examples

# Run the gateway in front of its built-in example servers
demo *arguments:
    cargo run -p vmcp -- demo {{ arguments }}

# Build the images of the server and the operator in target/images, without a container engine: OCI layouts
image:
    bash tests/tools/image/images.sh programs target/image-build
    bash tests/tools/image/images.sh layouts target/image-build target/images

# Build the images twice, and compare their digests
image-reproducible:
    bash tests/tools/image/images.sh reproducible target/image-reproducible

# Print the compressed sizes of the images of `just image`, and the time to the first response of `initialize`
image-report: image
    cargo build --release -p vmcp-bench
    python3 tests/tools/image/report.py target/images target/release/bench-proxy target/release/bench-backend
