//! Inside: processes of a container are attached to from inside of it, where their numbers and paths mean what they mean by them.
//!
//! **Does:** find out that the processes which are meant are in a container, and run this command once more in there (`kernel::name_spaces`), with their numbers there. The folder of
//! the recording is mounted where only that command sees it.
//!
//! **Does not:** enter name spaces of the network, of users and of control groups: the page is where the user looks for it, and names of units are the machine's.

use super::Selection;
use super::members::Wanted;
use super::refusal::{self, Refusal};
use crate::{FAILED, arguments};
use anyhow::{Context as _, Result, anyhow, ensure};
use kernel::name_spaces::{
    enter as enter_name_spaces, has_our_mounts, has_our_users, is_inside, may_be_traced_in, run_in,
};
use kernel::process_memory::pid_namespace;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

/// What says that this is the command inside, and how it gets there.
const INSIDE: &str = "WHATIF_INSIDE";
/// The numbers of processes in there.
const PROCESSES: &str = "WHATIF_INSIDE_PROCESSES";

/// The processes that are meant, by their numbers in the container, and the name of the recording in the working directory, if this is the command inside.
pub fn told(selection: Selection, args: &mut arguments::Run) -> Selection {
    if !is_inside() {
        return selection;
    }
    args.output = args.output.take().and_then(|path| path.file_name().map(PathBuf::from));
    if args.hint_db.take().is_some() {
        kernel::say!("whatif: --hint-db is left out: in a container that would be the container's database");
    }
    Selection { processes: processes(), ..selection }
}

fn processes() -> Vec<u32> {
    let numbers = std::env::var(PROCESSES).unwrap_or_default();
    numbers.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// Runs the command in the container that the first of the processes is in; its exit status. None if it is in no other one, or we may not enter it.
///
/// # Errors
/// It cannot be entered.
pub fn enter(selection: &Selection, args: &arguments::Run) -> Result<Option<i32>> {
    if !geteuid().is_root() || go_inside()? {
        return Ok(None);
    }
    let found = match selection.is_numbers() {
        true => selection.processes.clone(),
        false => Wanted::new(selection, args)?.now(),
    };
    if found.iter().any(|pid| refusal::check(*pid).is_ok()) {
        return Ok(None);
    }
    let Some(pid) = found.into_iter().find(|pid| is_elsewhere(*pid)) else { return Ok(None) };
    let folder =
        args.output.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    run_command(pid, selection, folder.unwrap_or(Path::new("."))).map(Some)
}

/// The same for a command that is about one process, and writes nothing.
///
/// # Errors
/// The container cannot be entered.
pub fn enter_for(pid: u32) -> Result<Option<i32>> {
    if !geteuid().is_root() || go_inside()? || !is_elsewhere(pid) {
        return Ok(None);
    }
    let selection = Selection { processes: vec![pid], ..Selection::default() };
    run_command(pid, &selection, Path::new(".")).map(Some)
}

/// The number that a process has in the container, if this is the command inside and it is the one that was named.
pub fn told_of(pid: u32) -> u32 {
    if is_inside() { processes().first().copied().unwrap_or(pid) } else { pid }
}

/// Goes into the container that this command was told of, if it was; whether it was.
fn go_inside() -> Result<bool> {
    let Ok(way) = std::env::var(INSIDE) else { return Ok(false) };
    enter_name_spaces(&way).context("the container cannot be entered; run whatif in there")?;
    Ok(true)
}

/// Whether it is in a container that may be entered.
fn is_elsewhere(pid: u32) -> bool {
    match refusal::check(pid) {
        Err(Refusal::ProcessNumbers(_)) => true,
        Err(Refusal::Replaced { .. }) => has_our_mounts(pid).is_ok_and(|ours| !ours),
        _ => false,
    }
}

fn run_command(pid: u32, selection: &Selection, folder: &Path) -> Result<i32> {
    let name_space = pid_namespace(pid)?;
    let inside = |pid: &u32| {
        let is_there = pid_namespace(*pid).is_ok_and(|other| other == name_space);
        let number = number_inside(*pid).filter(|_| is_there);
        if number.is_none() {
            kernel::say!("whatif: process {pid} is not profiled: it is in another container");
        }
        number
    };
    let numbers: Vec<String> =
        selection.processes.iter().filter_map(inside).map(|pid| pid.to_string()).collect();
    let refused =
        |why: &str| anyhow!("the container of process {pid} is not entered: {why}; run whatif in there");
    // As root, only where the kernel keeps what is in there from us, and us from it.
    ensure!(has_our_users(pid)?, refused("it has users of its own, and may be any user's"));
    ensure!(!may_be_traced_in(pid), refused("its processes may trace others (CAP_SYS_PTRACE)"));
    kernel::say!("whatif: in the container of process {pid}, where processes have other numbers");
    let signals = Signals::new([SIGINT, SIGHUP, SIGQUIT, SIGTERM]);
    let mut signals = signals.context("signals cannot be handled")?;
    let child = run_in(pid, folder, |command, way| {
        command.args(std::env::args_os().skip(1)).env(INSIDE, way).env(PROCESSES, numbers.join(","));
        // Nothing is kept in the container's folders, and no program of it is asked.
        for variable in ["DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH", "HOME", "XDG_CACHE_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", ".").env("TMPDIR", ".");
    });
    let mut child = child
        .with_context(|| format!("the container of process {pid} cannot be entered; run whatif in there"))?;
    let to = Pid::from_child(&child);
    let handle = signals.handle();
    let passes = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            // Its number stays its own until this thread has ended.
            let _ = kill_process(to, Signal::TERM);
        }
    })?;
    let ended = rustix::process::waitid(
        rustix::process::WaitId::Pid(to),
        rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
    );
    handle.close();
    let _ = passes.join();
    ended?;
    let status = child.wait()?;
    Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(FAILED))
}

/// The number that a process has in its own name space.
fn number_inside(pid: u32) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status).into_owned();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}
