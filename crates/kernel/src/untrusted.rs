//! Files that others have made, perhaps with malicious intent.

use crate::stream::own_user;
use rustix::fs::{Mode, OFlags, fstatfs, open};
use std::fs::{File, read_link};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Opens a plain file that belongs to `owner` or to root; never waits, and follows no link at its end.
///
/// # Errors
/// The kernel's error; `PermissionDenied` where it is something else, or belongs to another user.
pub fn open_file(path: &Path, owner: u32) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let theirs = metadata.uid() == owner || metadata.uid() == 0;
    if metadata.is_file() && theirs { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Whether a file is on a disk of this machine, or in its memory: reading it may take a while, but not forever. Not what lies on top of
/// other file systems (overlayfs), unless those who have `made` it are trusted.
#[must_use]
pub fn is_local(file: &File, made_by_trusted: bool) -> bool {
    // statfs(2): ext2 to ext4, xfs, btrfs, tmpfs, f2fs, squashfs, erofs, zfs, bcachefs.
    const LOCAL: [u64; 9] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0x0102_1994,
        0xf2f5_2010,
        0x7371_7368,
        0xe0f5_e1e2,
        0x2fc1_2fc1,
        0xca45_1a4e,
    ];
    const OVERLAY: u64 = 0x794c_7630;
    let Ok(about) = fstatfs(file) else { return false };
    // Some machines have it as a signed number of 32 bits.
    let kind = about.f_type as u64 & u64::from(u32::MAX);
    LOCAL.contains(&kind) || made_by_trusted && kind == OVERLAY
}

/// Whether a file belongs to root, and root alone may write it.
#[must_use]
pub fn is_roots_own(file: &File) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    file.metadata().is_ok_and(|about| about.uid() == 0 && about.mode() & WRITABLE_BY_OTHERS == 0)
}

/// Whether a process has its files from us, from root, or from this user: it is in our mount namespace, or in one that belongs to the
/// user namespace of one of them. Any user can make user and mount namespaces, and a file system in them that never answers.
#[must_use]
pub fn has_trusted_files(pid: u32) -> bool {
    let space = format!("/proc/{pid}/ns/mnt");
    let Ok(theirs) = read_link(&space) else { return false };
    if read_link("/proc/self/ns/mnt").is_ok_and(|ours| ours == theirs) {
        return true;
    }
    let maker = File::open(space).ok().and_then(|space| maker(&space));
    maker.is_some_and(|maker| [0, own_user()].contains(&maker))
}

/// The user who has made the user namespace that a namespace belongs to (ioctl_ns(2)).
fn maker(space: &File) -> Option<u32> {
    const GET_USER_NAMESPACE: libc::c_ulong = 0xb701;
    const GET_OWNER: libc::c_ulong = 0xb704;
    // SAFETY: the request has no argument, and returns a descriptor of its own.
    let users = match unsafe { libc::ioctl(space.as_raw_fd(), GET_USER_NAMESPACE) } {
        // SAFETY: nothing else has it.
        descriptor @ 0.. => unsafe { OwnedFd::from_raw_fd(descriptor) },
        _ => return None,
    };
    let mut user: libc::uid_t = u32::MAX;
    // SAFETY: the kernel writes a `uid_t` to where the argument points.
    let result = unsafe { libc::ioctl(users.as_raw_fd(), GET_OWNER, &raw mut user) };
    (result == 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_are_opened() {
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        assert!(open_file(&std::env::current_exe().unwrap(), own).is_ok());
        // A link, a device, a folder.
        for path in ["/proc/self/exe", "/dev/zero", "/tmp", "/nothing"] {
            assert!(open_file(Path::new(path), own).is_err(), "{path}");
        }
    }

    #[test]
    fn programs_are_local_and_what_the_kernel_makes_up_is_not() {
        let program = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(is_local(&program, true));
        assert!(is_roots_own(&File::open("/proc/self/maps").unwrap()) == (own_user() == 0));
        assert!(!is_local(&File::open("/proc/self/maps").unwrap(), true));
    }

    #[test]
    fn files_of_namespaces_that_others_have_made_are_not_looked_at() {
        let here = std::process::id();
        assert!(has_trusted_files(here));
        // A number that no process has.
        assert!(!has_trusted_files(1 << 29));
        let in_namespaces = |arguments: &[&str]| {
            let mut child = std::process::Command::new("unshare")
                .args(arguments)
                .args(["sh", "-c", "echo; read nothing"])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .ok()?;
            let mut line = [0];
            let came = std::io::Read::read(child.stdout.as_mut()?, &mut line).is_ok_and(|bytes| bytes == 1);
            let trusted = came.then(|| has_trusted_files(child.id()));
            drop(child.stdin.take());
            child.wait().unwrap();
            trusted
        };
        if own_user() != 0 {
            eprintln!("skipped: only root may make namespaces as another user");
            return;
        }
        assert_eq!(in_namespaces(&["--mount", "--"]), Some(true), "root has made it");
        let nobody = ["--setuid", "65534", "--", "unshare", "--user", "--map-root-user", "--mount", "--"];
        match in_namespaces(&nobody) {
            Some(trusted) => assert!(!trusted),
            None => eprintln!("skipped: users may make no namespaces here"),
        }
    }
}
