//! Compiling the targets and finding them.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::table::{Language, TARGETS, Target};

/// What the C and C++ targets are compiled with.
pub const FLAGS: &[&str] = &["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"];

/// What some programs need besides; the last `-std` counts.
const MORE_FLAGS: &[(&str, &[&str])] =
    &[("atomic_wait", &["-std=c++20"]), ("counting_semaphore", &["-std=c++20"]), ("openmp", &["-fopenmp"])];

/// Programs that are no causal target, but of use to a benchmark.
const OTHERS: &[(&str, Language)] = &[("start_true", Language::C), ("visits", Language::C)];

/// Builds every target that is older than its sources, and returns the folder of the C and C++
/// ones. The Rust ones are built by cargo in the profile that the calling program was built in.
///
/// A target that needs what the compiler does not have (OpenMP, C++20) is left out, with a message on
/// standard error; [`path`] then has no program for it.
///
/// # Errors
///
/// When there is no compiler, or it fails; the message names the command. `$CC` and `$CXX` choose
/// another than `cc` and `c++`.
pub fn build() -> io::Result<PathBuf> {
    build_rust()?;
    build_without_cargo()
}

/// Builds the C and C++ targets only, and returns their folder. `cargo test` has built the Rust ones for its tests.
///
/// # Errors
///
/// As [`build`](fn@build).
pub fn build_without_cargo() -> io::Result<PathBuf> {
    // Tests of one process build at the same time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder()?;
    fs::create_dir_all(&folder)?;
    let targets = TARGETS.iter().map(|target| (target.program, target.language));
    for (program, language) in targets.chain(OTHERS.iter().copied()) {
        if language == Language::Rust {
            continue;
        }
        let source = source(program, language);
        compile(&source, &folder.join(program)).or_else(|error| without(&source, &folder, error))?;
    }
    Ok(folder)
}

/// The program of a target, or of `start_true`, after [`build`](fn@build).
///
/// # Errors
///
/// When nothing is called that, or the target was left out.
pub fn path(name: &str) -> io::Result<PathBuf> {
    let target = TARGETS.iter().find(|target| target.name == name);
    let (program, language) = target
        .map(|&Target { program, language, .. }| (program, language))
        .or_else(|| OTHERS.iter().copied().find(|(program, _)| *program == name))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("there is no target '{name}'; targets/src/table.rs lists them"),
            )
        })?;
    let path = match language {
        Language::Rust => profile_folder()?.join(program),
        Language::C | Language::Cpp => folder()?.join(program),
    };
    if !more_flags(program).is_empty() && !path.exists() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("'{name}' was not built: {}", missing(program)),
        ));
    }
    Ok(path)
}

/// Where the C and C++ targets go: `targets/` in cargo's target folder.
///
/// # Errors
///
/// When the calling program does not lie where cargo put it.
pub fn folder() -> io::Result<PathBuf> {
    Ok(profile_folder()?.with_file_name("targets"))
}

/// Compiles `source` to `program` unless that is newer than every file beside the source.
///
/// # Errors
///
/// As [`build`](fn@build).
pub fn compile(source: &Path, program: &Path) -> io::Result<()> {
    if is_fresh(source, program)? {
        return Ok(());
    }
    // Compiled beside and renamed, so that a failure or an interruption leaves no half program.
    let unfinished = program.with_extension(process::id().to_string());
    run(compiler(source)
        .args(more_flags(&stem(source)))
        .arg("-I")
        .arg(workspace().join("include"))
        .arg(source)
        .arg("-o")
        .arg(&unfinished))?;
    fs::rename(unfinished, program)
}

fn compiler(source: &Path) -> Command {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let (variable, default, standard) =
        if is_cpp { ("CXX", "c++", "-std=c++11") } else { ("CC", "cc", "-std=gnu99") };
    let mut compiler = Command::new(env::var_os(variable).unwrap_or_else(|| OsString::from(default)));
    compiler.arg(standard).args(FLAGS);
    compiler
}

/// Forgives the `failure` to compile `source` if an empty program with the same flags fails as well.
fn without(source: &Path, folder: &Path, failure: io::Error) -> io::Result<()> {
    let program = stem(source);
    let flags = more_flags(&program);
    if flags.is_empty() {
        return Err(failure);
    }
    let empty = folder.join("empty").with_extension(source.extension().unwrap_or_default());
    fs::write(&empty, "int main(void) { return 0; }\n")?;
    if run(compiler(&empty).args(flags).arg(&empty).arg("-o").arg(folder.join("empty"))).is_ok() {
        return Err(failure);
    }
    eprintln!("target '{program}' is left out: {}", missing(&program));
    Ok(())
}

fn missing(program: &str) -> String {
    format!(
        "the compiler fails with {} (install what that needs, or name another compiler in $CC or $CXX)",
        more_flags(program).join(" ")
    )
}

fn more_flags(program: &str) -> &'static [&'static str] {
    MORE_FLAGS.iter().find(|(name, _)| *name == program).map_or(&[], |(_, flags)| flags)
}

fn stem(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_fresh(source: &Path, program: &Path) -> io::Result<bool> {
    let Ok(built) = fs::metadata(program).and_then(|metadata| metadata.modified()) else {
        return Ok(false);
    };
    let header = workspace().join("include/whatif.h");
    let mut newest = modified(source)?.max(modified(&header)?);
    for entry in fs::read_dir(source.parent().unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "h") {
            newest = newest.max(modified(&path)?);
        }
    }
    Ok(built > newest)
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

fn build_rust() -> io::Result<()> {
    let programs: BTreeSet<_> = TARGETS
        .iter()
        .filter(|target| target.language == Language::Rust)
        .map(|target| target.program)
        .collect();
    build_programs(programs)?;
    Ok(())
}

/// Lets cargo build programs of this workspace, in the profile that the calling program was built in, and returns their folder.
///
/// # Errors
///
/// When cargo fails, or the calling program does not lie where cargo put it.
pub fn build_programs(names: impl IntoIterator<Item = &'static str>) -> io::Result<PathBuf> {
    let folder = profile_folder()?;
    let profile = match folder.file_name() {
        Some(name) if name == "debug" => "dev".into(),
        Some(name) => name.to_os_string(),
        None => return Err(unplaced(&folder)),
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    run(Command::new(cargo)
        .current_dir(workspace())
        // With the features that all of the workspace has together: a package alone has fewer, and what it stands on would be
        // compiled again, SQLite among it.
        .args(["build", "--quiet", "--workspace"])
        .args(names.into_iter().flat_map(|name| ["--bin", name]))
        .arg("--profile")
        .arg(profile)
        .arg("--target-dir")
        .arg(folder.parent().ok_or_else(|| unplaced(&folder))?))?;
    Ok(folder)
}

fn run(command: &mut Command) -> io::Result<()> {
    let status = command.status().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{error}: {command:?} (install the compiler, or name it in $CC or $CXX)"),
        )
    })?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{status}: {command:?} (run it by hand to see why)")))
}

fn source(program: &str, language: Language) -> PathBuf {
    let extension = match language {
        Language::C => "c",
        Language::Cpp => "cpp",
        Language::Rust => "rs",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(program).with_extension(extension)
}

fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo puts the programs of the profile that the calling program was built in, such as
/// `target/release`. Tests lie one folder deeper, in `deps`.
///
/// # Errors
///
/// When the calling program does not lie there.
pub fn profile_folder() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let folder = program.parent().ok_or_else(|| unplaced(&program))?;
    let folder =
        if folder.ends_with("deps") { folder.parent().ok_or_else(|| unplaced(folder))? } else { folder };
    Ok(folder.to_path_buf())
}

fn unplaced(path: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is not where cargo puts programs; run this with `cargo run`",
        path.display()
    ))
}
