//! Name spaces of another process: this program, run once more inside of them ([`namespaces(7)`]).
//!
//! **Does:** enter those of process numbers and of mounts, in which that process's numbers and paths mean what it means by them. The copy has mounts of its own from there on: what it
//! mounts, no other process sees. **Does not:** enter any other, or change rights. Takes `CAP_SYS_ADMIN`.
//!
//! **Constraints:** nothing of what is in there is executed or loaded, because it may be hostile, and our rights are the machine's. So a program is executed where its loader and its libraries
//! are the machine's, and enters the mounts afterwards ([`enter`]), and whatever it executes is [`outside`] again.
//!
//! [`namespaces(7)`]: https://man7.org/linux/man-pages/man7/namespaces.7.html

use crate::cpu::field_of;
use crate::signals;
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
    open_tree,
};
use rustix::process::{Signal, fchdir, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Which of a process's name spaces is meant.
fn name_space(process: &str, kind: &str) -> io::Result<OwnedFd> {
    let path = format!("/proc/{process}/ns/{kind}");
    Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether a process has the same mounts as this one.
///
/// # Errors
/// The kernel's.
pub fn has_our_mounts(pid: u32) -> io::Result<bool> {
    Ok(number_of(&pid.to_string(), "mnt")? == number_of("self", "mnt")?)
}

/// Whether a process has the same users as this one: of a process in a user name space of its own any user can be the maker, and the maker's files are what they like.
///
/// # Errors
/// The kernel's.
pub fn has_our_users(pid: u32) -> io::Result<bool> {
    Ok(number_of(&pid.to_string(), "user")? == number_of("self", "user")?)
}

/// Device and inode of a name space.
fn number_of(process: &str, kind: &str) -> io::Result<(u64, u64)> {
    let about = std::fs::metadata(format!("/proc/{process}/ns/{kind}"))?;
    Ok((about.dev(), about.ino()))
}

/// Whether a thread in the name space of process numbers of `pid` may trace others there, and not do everything: it could trace a process of ours that goes in, which may do everything.
/// Where that cannot be found out it may.
#[must_use]
pub fn may_be_traced_in(pid: u32) -> bool {
    let Ok(there) = number_of(&pid.to_string(), "pid") else { return true };
    let is_there = |other: &u32| number_of(&other.to_string(), "pid").is_ok_and(|number| number == there);
    let numbers = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let threads = |process: u32| {
        let folder = format!("/proc/{process}/task");
        numbers(&folder).into_iter().map(move |thread| format!("{folder}/{thread}/status"))
    };
    let all = numbers("/proc").into_iter().filter(is_there).flat_map(threads);
    all.filter(|status| std::fs::exists(status).unwrap_or(true)).any(|status| may_trace(&status))
}

/// The same of a thread, by its `status`.
fn may_trace(status: &str) -> bool {
    const TRACE: u64 = 1 << 19;
    const ADMINISTER: u64 = 1 << 21;
    let rights = |word: &str| u64::from_str_radix(&field_of(status, word)?, 16).ok();
    // What it has, and what it may get back; against what it can do in any case.
    let Some([bound, permitted]) = rights("CapBnd:").zip(rights("CapPrm:")).map(|(a, b)| [a, b]) else {
        return std::fs::exists(status).unwrap_or(true);
    };
    (bound | permitted) & TRACE != 0 && permitted & ADMINISTER == 0
}

/// Where the folder is mounted: in a `/proc` that only this program sees, so that the container cannot exchange what is there.
const PLACE: &str = "/proc/driver";

/// Makes all that is mounted here readable only: no device and no program of it works for this one.
fn lock_mounts() -> io::Result<()> {
    /// `struct mount_attr`.
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        users: u64,
    }
    const READ_ONLY_NOSUID_NODEV_NOEXEC: u64 = 0xf;
    const RECURSIVE: libc::c_int = 0x8000;
    let attributes = Attributes { set: READ_ONLY_NOSUID_NODEV_NOEXEC, clear: 0, propagation: 0, users: 0 };
    // SAFETY: a path, and attributes of that size, which the kernel reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            RECURSIVE,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The machine's mounts, of a program that has left them, and its `/dev/null`.
static OUTSIDE: OnceLock<(OwnedFd, File)> = OnceLock::new();

/// A standard stream of a program that is to be executed which leads nowhere.
///
/// # Errors
/// There are too many descriptors.
pub fn nowhere() -> io::Result<Stdio> {
    OUTSIDE.get().map_or_else(|| Ok(Stdio::null()), |(_, null)| Ok(null.try_clone()?.into()))
}

/// Whether this program has entered another process's mounts.
#[must_use]
pub fn is_inside() -> bool {
    OUTSIDE.get().is_some()
}

/// A program that is executed has this descriptor.
fn is_kept(file: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfd(file, FdFlags::empty())?)
}

/// Runs this program with the process numbers of the process `pid`; `prepare` gives it its arguments, and what [`enter`] takes. It enters that process's mounts by that, where
/// `folder`, which is one of this process's, is its working directory and the only one that it can write to. It is asked to end (`SIGTERM`) when the calling thread ends.
///
/// # Errors
/// The kernel's: without `CAP_SYS_ADMIN`.
pub fn run_in(pid: u32, folder: &Path, prepare: impl FnOnce(&mut Command, String)) -> io::Result<Child> {
    let process = pid.to_string();
    let (numbers, mounts) = (name_space(&process, "pid")?, name_space(&process, "mnt")?);
    let own_numbers = name_space("self", "pid")?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let folder = open_tree(CWD, folder, flags)?;
    let mut command = Command::new("/proc/self/exe");
    prepare(&mut command, format!("{},{}", mounts.as_raw_fd(), folder.as_raw_fd()));
    let begin = move || {
        is_kept(&mounts)?;
        is_kept(&folder)?;
        set_parent_process_death_signal(Some(Signal::TERM))?;
        signals::restore_inherited();
        Ok(())
    };
    // SAFETY: runs in the forked child, where only async-signal-safe calls are allowed: it makes system calls, and touches no lock and no allocator.
    unsafe { command.pre_exec(begin) };
    let _blocked = signals::AllBlocked::new();
    // Only what this thread starts is in there.
    move_into_link_name_space(numbers.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    let child = command.spawn();
    let back = move_into_link_name_space(own_numbers.as_fd(), Some(LinkNameSpaceType::ProcessID));
    let child = child?;
    back?;
    Ok(child)
}

/// Enters the mounts that [`run_in`] has told of, with a list of processes that has the numbers in there. The folder is the working directory then. To be called before there is another thread.
///
/// # Errors
/// The kernel's; `InvalidInput` if nothing of the kind was told.
pub fn enter(told: &str) -> io::Result<()> {
    let nonsense = || io::Error::from(io::ErrorKind::InvalidInput);
    let (mounts, folder) = told.split_once(',').ok_or_else(nonsense)?;
    let (mounts, folder) = (received(mounts)?, received(folder)?);
    leave_for(&mounts)?;
    // SAFETY: there is one thread, and this says nothing of descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    lock_mounts()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None)?;
    move_mount(&folder, "", CWD, PLACE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(fchdir(&folder)?)
}

/// Enters the mounts that [`outside`] has told of. To be called before there is another thread.
///
/// # Errors
/// As for [`enter`].
pub fn enter_again(told: &str) -> io::Result<()> {
    leave_for(&received(told)?)
}

fn leave_for(mounts: &OwnedFd) -> io::Result<()> {
    let outside = (name_space("self", "mnt")?, File::options().read(true).write(true).open("/dev/null")?);
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
    let _ = OUTSIDE.set(outside);
    Ok(())
}

/// A descriptor that this program was executed with.
fn received(number: &str) -> io::Result<OwnedFd> {
    let number = number.parse().ok().filter(|number| *number > 2);
    let number: i32 = number.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: only looked at until it is known to be open; then it is this one's, because nothing else of this program knows it.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(file, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and no other part of this program uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has a program executed where the machine's loader and libraries are, if this one is inside; what it has to be told for [`enter_again`].
///
/// # Errors
/// The kernel's.
pub fn outside(command: &mut Command) -> io::Result<Option<String>> {
    let Some((outside, _)) = OUTSIDE.get() else { return Ok(None) };
    let inside = name_space("self", "mnt")?;
    let told = inside.as_raw_fd().to_string();
    let leave = move || {
        is_kept(&inside)?;
        Ok(move_into_link_name_space(outside.as_fd(), Some(LinkNameSpaceType::Mount))?)
    };
    // SAFETY: as in `run_in`.
    unsafe { command.pre_exec(leave) };
    Ok(Some(told))
}
