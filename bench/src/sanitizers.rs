//! The C and C++ targets, built with the address sanitizer and the thread sanitizer of GCC and clang: with the profiler they end as they
//! do without it, and sanitizers report nothing that they do not report without it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::profiler::Whatif;

#[derive(Debug, Args)]
pub struct Options {
    /// Only these targets [default: all in C and C++]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Only this sanitizer: address or thread
    #[arg(long)]
    sanitizer: Option<String>,

    /// How long each program runs, twice
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
}

/// Compilers of C and of C++.
const COMPILERS: [[&str; 2]; 2] = [["gcc", "g++"], ["clang", "clang++"]];
const SANITIZERS: [&str; 2] = ["address", "thread"];
const FLAGS: [&str; 5] = ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-w"];
/// Longer than any of them runs, with time to spare: `timeout` ends with this code, or by the signal.
const HANG: &str = "60";
const HUNG: i32 = 137;

pub fn run(options: &Options, whatif: &Whatif) -> Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = targets::build::folder()?.join("sanitized");
    fs::create_dir_all(&folder)?;
    let mut sources: Vec<PathBuf> = fs::read_dir(workspace.join("targets/c"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "cpp"))
        .collect();
    sources.sort();
    let (mut all, mut findings) = (0, Vec::new());
    for compilers in COMPILERS {
        for sanitizer in SANITIZERS {
            if options.sanitizer.as_ref().is_some_and(|only| only != sanitizer) {
                continue;
            }
            for source in &sources {
                let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                if !options.only.is_empty() && !options.only.contains(&name) {
                    continue;
                }
                let named = format!("{name}, {} -fsanitize={sanitizer}", compilers[0]);
                let program = folder.join(format!("{name}-{}-{sanitizer}", compilers[0]));
                let Some(program) = build(source, compilers, sanitizer, &workspace, &program) else {
                    println!("{named:<48} not built");
                    continue;
                };
                let word = compare(options, whatif, &program).with_context(|| named.clone())?;
                println!("{named:<48} {}", word.as_deref().unwrap_or("the same"));
                all += 1;
                findings.extend(word.map(|word| format!("{named}: {word}")));
            }
        }
    }
    println!("\n{all} programs, {} with a difference", findings.len());
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    Ok(())
}

/// `None`: the compiler, its sanitizer, or a library is not there.
fn build(
    source: &Path,
    [c, cpp]: [&str; 2],
    sanitizer: &str,
    workspace: &Path,
    program: &Path,
) -> Option<PathBuf> {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let mut command = Command::new(if is_cpp { cpp } else { c });
    command.args(is_cpp.then_some("-std=c++20")).args(FLAGS).arg(format!("-fsanitize={sanitizer}"));
    command.args((source.file_stem()? == "openmp").then_some("-fopenmp"));
    command.arg("-I").arg(workspace.join("include")).arg(source).arg("-o").arg(program);
    command.output().is_ok_and(|output| output.status.success()).then(|| program.to_owned())
}

/// What is different with the profiler.
fn compare(options: &Options, whatif: &Whatif, program: &Path) -> Result<Option<String>> {
    let seconds = format!("seconds={}", options.seconds);
    let line = [program.as_os_str(), seconds.as_ref()];
    let mut native = Command::new("timeout");
    let native = output(native.args(["-s", "KILL", HANG]).args(line))?;
    whatif.forget()?;
    let profiled = whatif.run_with(&["-q", "--speedup", "50"], crate::profiler::Mode::Full, &line);
    let mut within = Command::new("timeout");
    within.args(["-s", "KILL", HANG]).arg(profiled.get_program()).args(profiled.get_args());
    let profiled = output(&mut within)?;

    if profiled.status.code() == Some(HUNG) || profiled.status.code().is_none() {
        return Ok(Some(format!("{}: {}", profiled.status, tail(&profiled.stderr))));
    }
    let more: Vec<_> = reports(&profiled).difference(&reports(&native)).cloned().collect();
    if !more.is_empty() {
        return Ok(Some(more.join("; ")));
    }
    if shape(&native.stdout) != shape(&profiled.stdout) {
        return Ok(Some(format!("says {:?}: {}", tail(&profiled.stdout), tail(&profiled.stderr))));
    }
    // It need not have run long enough for an answer, which statuses of our own report.
    let same = native.status.code() == profiled.status.code()
        || native.status.success() && profiled.status.code().is_some_and(|code| (95..=101).contains(&code));
    Ok((!same)
        .then(|| format!("{} instead of {}: {}", profiled.status, native.status, tail(&profiled.stderr))))
}

/// Targets end without waiting for their threads, which is no leak.
fn output(command: &mut Command) -> Result<Output> {
    command.env("TSAN_OPTIONS", "report_thread_leaks=0").stdin(Stdio::null());
    command.output().with_context(|| format!("starting {command:?}"))
}

/// What a sanitizer reports: `ThreadSanitizer: data race`.
fn reports(output: &Output) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let summaries = text.lines().filter_map(|line| line.strip_prefix("SUMMARY: "));
    summaries.map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect()
}

/// The words of what a program has printed, without the numbers.
fn shape(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect()
}

fn tail(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().take(3).collect::<Vec<_>>().join(" | ")
}
