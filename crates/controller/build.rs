//! Builds `libwhatif_rt.so`, the half of the profiler that goes into the profiled program, so that the
//! command can carry it inside itself.
//!
//! rustc is called directly: a nested cargo would wait for the lock of the outer one, and flags meant for
//! the command (coverage, sanitizers, `-C target-cpu=native`) must not reach a library that is `no_std` and
//! runs in other people's processes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of the two crates that the runtime is made of, as their build scripts say.
struct Crates {
    runtime: PathBuf,
    wire: PathBuf,
}

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let crates = Crates {
        runtime: variable("DEP_WHATIF_RT_FOLDER").into(),
        wire: variable("DEP_WHATIF_WIRE_FOLDER").into(),
    };
    println!("cargo::rerun-if-changed=build.rs");
    for folder in crates.sources() {
        println!("cargo::rerun-if-changed={}", folder.display());
    }

    let target = ["CARGO_CFG_TARGET_ARCH", "CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ENV"].map(variable);
    if target != ["x86_64", "linux", "gnu"] {
        fail(&format!(
            "whatif's runtime supports x86-64 Linux with glibc only, and this build is for {}.\n\
             Build with `--target x86_64-unknown-linux-gnu`.",
            variable("TARGET")
        ));
    }

    let build_id = build_id(&crates);
    let wire = out.join("libwire.rlib");
    rustc(&crates, build_id, |command| {
        command
            .args(["--crate-name=wire", "--crate-type=rlib"])
            .arg(crates.wire.join("src/lib.rs"))
            .arg("-o")
            .arg(&wire);
    });

    let runtime = out.join("libwhatif_rt.so");
    rustc(&crates, build_id, |command| {
        command
            // Link-time optimisation, so that the account's few instructions are inlined into every lock.
            .args(["--crate-name=whatif_rt", "--crate-type=cdylib", "--cfg=whatif_cdylib", "-Clto=fat"])
            .arg(crates.runtime.join("src/lib.rs"))
            .arg(joined(["--extern=wire=".as_ref(), wire.as_ref()]))
            .arg("-o")
            .arg(&runtime)
            .args(["-lc", "-Wl,-soname,libwhatif_rt.so", "-Wl,-z,now", "-Wl,-z,nodelete"].map(link_argument))
            // The bounds of the section of `real!` must not be visible to other objects.
            .arg(link_argument("-Wl,-z,start-stop-visibility=hidden"));
    });

    let mut hash = Hash::new();
    hash.add(&std::fs::read(&runtime).expect("rustc has written the runtime"));
    println!("cargo::rustc-env=WHATIF_RUNTIME_HASH={:016x}", hash.0);
    println!("cargo::rustc-env=WHATIF_BUILD_ID={build_id}");
}

/// Runs rustc with the flags that both crates share.
fn rustc(crates: &Crates, build_id: u64, add: impl FnOnce(&mut Command)) {
    let mut command = Command::new(variable("RUSTC"));
    command
        .args(["--edition=2024", "--cap-lints=allow"])
        .args(["-Copt-level=3", "-Ccodegen-units=1", "-Cpanic=abort", "-Crelocation-model=pic"])
        .args([
            "-Cforce-frame-pointers=yes",
            "-Cforce-unwind-tables=yes",
            "-Cdebuginfo=0",
            "-Cstrip=debuginfo",
        ])
        // The same bytes wherever the sources lie.
        .arg(joined(["--remap-path-prefix=".as_ref(), crates.runtime.as_ref(), "=whatif/runtime".as_ref()]))
        .arg(joined(["--remap-path-prefix=".as_ref(), crates.wire.as_ref(), "=whatif/wire".as_ref()]))
        .arg(format!("--target={}", variable("TARGET")))
        .env("WHATIF_BUILD_ID", build_id.to_string());
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        command.arg(joined(["-Clinker=".as_ref(), &linker]));
    }
    add(&mut command);
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => fail(&format!(
            "whatif's runtime does not compile ({}):\n{}\nThe command was\n{command:?}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => fail(&format!("rustc could not be started: {error}\nThe command was\n{command:?}")),
    }
}

impl Crates {
    fn sources(&self) -> [PathBuf; 2] {
        [self.runtime.join("src"), self.wire.join("src")]
    }
}

/// What tells builds apart, so that a controller and a runtime of different sources refuse each other: a hash over every
/// source file of both crates.
fn build_id(crates: &Crates) -> u64 {
    let mut hash = Hash::new();
    for folder in crates.sources() {
        let mut files = Vec::new();
        add_sources(&folder, &mut files);
        files.sort();
        for file in &files {
            hash.add(&std::fs::read(file).expect("a source file can be read"));
        }
    }
    hash.0
}

fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// FNV-1a, 64 bits. Tells builds apart; protects against nothing.
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// One argument of several parts, some of them paths that need not be Unicode.
fn joined<const N: usize>(parts: [&OsStr; N]) -> OsString {
    parts.into_iter().collect()
}

fn link_argument(argument: &str) -> String {
    format!("-Clink-arg={argument}")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| fail(&format!("cargo did not set {name}")))
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(1)
}
