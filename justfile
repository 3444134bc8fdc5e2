# What is done daily; `just` lists it. Each recipe can be typed as it stands.

# Lists the recipes.
default:
    @just --list

# Builds all, among others the command (target/release/whatif).
build:
    cargo build --workspace --release --locked

# Builds the command with its debug information, to profile it or to look at it in a debugger (target/self/release/whatif).
profile-self:
    WHATIF_KEEP_DEBUG=1 CARGO_PROFILE_RELEASE_DEBUG=1 cargo build --release --locked -p whatif --target-dir target/self

# Runs all tests, or those of a crate: `just test -p whatif-profile`, `just test -p whatif --test all answer::`.
test *arguments="--workspace":
    cargo test --release --locked {{arguments}}

# Says what the compiler, clippy and rustfmt do not like.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --release --locked -- -D warnings

# Builds the docs of all crates (target/doc).
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --release --locked

# Does what every change must pass.
ci:
    .ci/run

# Judges what is measured: all checks, or those whose names contain a part: `just accept --only truth::mutex`.
accept *arguments="": build
    target/release/bench accept --whatif target/release/whatif {{arguments}}

# Runs the suite so many times under load, on one CPU, as a user without rights, and without BPF.
stress rounds="3" *surroundings="":
    .ci/stress {{rounds}} {{surroundings}}

# Writes the expected reports and exports anew; `git diff` shows what became of them.
golden:
    UPDATE_GOLDEN=1 cargo test --release --locked -p whatif-report

# Tests the pages and builds them into page/dist/, which is committed.
page:
    cd page && npm ci --no-audit --no-fund && npm test && npm run build

# Looks for inputs that crash a reader of others' bytes or are expensive: `just fuzz elf 600`; all of them for ten minutes each: `just fuzz-all`.
fuzz name seconds="600":
    fuzz/run {{name}} {{seconds}}

fuzz-all seconds="600":
    for name in $(sed -n 's/.*Reader { name: "\([a-z-]*\)".*/\1/p' fuzz/src/lib.rs); do fuzz/run $name {{seconds}}; done

# Makes the Debian package and the tarball (target/packages), and tries them in a fresh root file system, for which it takes root.
package:
    packaging/make
    packaging/try

# Tries all interleavings of the lock-free protocols.
loom:
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p whatif-wire --release --locked --test loom

# Runs tests of crates with unsafe code and of readers of others' bytes with the address sanitizer, which the pinned compiler brings.
sanitize-address:
    .ci/sanitize address

# Runs the tests of the shared memory and of the runtime with the thread sanitizer.
sanitize-thread:
    .ci/sanitize thread

# Runs `wire`'s tests under Miri, which needs a nightly: rustup toolchain install nightly --component miri,rust-src
miri:
    MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=4 cargo +nightly miri test --locked --target-dir target/miri -p whatif-wire

# Runs the C and C++ targets, built with sanitizers, with the profiler and without (a quarter of an hour).
sanitizers: build
    target/release/bench sanitizers --whatif target/release/whatif

# Looks for memory, descriptors and threads that grow: `just soak 60` (minutes; as root).
soak minutes="60": build
    target/release/bench soak --minutes {{minutes}} --whatif target/release/whatif

# Does what takes hours: soak, fuzzers, sanitizers, faults, hostile programs, corners.
nightly:
    .ci/nightly
