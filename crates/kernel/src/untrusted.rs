//! Files that others have made, perhaps with malicious intent.

use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io;
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
}
