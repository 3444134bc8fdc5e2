//! Place: the file that a process is about to execute, as it would find it, and whether it is the same file for us.

use std::ffi::OsStr;
use std::fs::{Metadata, metadata, read_link};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use wire::follow::{Request, WORKING_DIRECTORY};

/// A process that is about to execute a program.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

impl Process {
    fn link(self, name: &str) -> Option<PathBuf> {
        read_link(format!("/proc/{}/{name}", self.0)).ok()
    }

    /// Its own program.
    pub fn program(self) -> Option<PathBuf> {
        self.link("exe")
    }

    /// Whether its process IDs are ours.
    pub fn has_our_numbers(self) -> bool {
        let own = read_link("/proc/self/ns/pid").ok();
        own.is_some() && self.link("ns/pid") == own
    }

    /// The file at an absolute path, as the process sees it.
    fn sees(self, path: &Path) -> Option<Metadata> {
        let below = path.strip_prefix("/").ok()?;
        metadata(Path::new(&format!("/proc/{}/root", self.0)).join(below)).ok()
    }

    /// Whether it sees the same file at a path as we do.
    pub fn shares(self, path: &Path) -> bool {
        match (self.sees(path), metadata(path)) {
            (Some(theirs), Ok(ours)) => (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()),
            _ => false,
        }
    }

    /// Whether it may execute what lies at a path.
    fn may_execute(self, path: &Path) -> bool {
        self.sees(path).is_some_and(|file| file.is_file() && file.mode() & 0o111 != 0)
    }

    /// The absolute path of what a request is about; none if there is no such file.
    pub fn file(self, request: &Request, path: &[u8], search: &[u8]) -> Option<PathBuf> {
        let base = match request.folder {
            WORKING_DIRECTORY => self.link("cwd")?,
            folder => self.link(&format!("fd/{folder}"))?,
        };
        let found = if path.is_empty() {
            base
        } else if request.way.searches() && !path.contains(&b'/') {
            let folders =
                search.split(|byte| *byte == b':').map(|folder| base.join(OsStr::from_bytes(folder)));
            folders.map(|folder| folder.join(OsStr::from_bytes(path))).find(|path| self.may_execute(path))?
        } else {
            base.join(OsStr::from_bytes(path))
        };
        // Without any `.` in it.
        let found: PathBuf = self.own(found).components().collect();
        self.may_execute(&found).then_some(found)
    }

    /// What is about the process that looks, as it is for this one.
    fn own(self, path: PathBuf) -> PathBuf {
        let Ok(name) = path.strip_prefix("/proc/self").or_else(|_| path.strip_prefix("/proc/thread-self"))
        else {
            return path;
        };
        let Some(name) = name.to_str() else { return path };
        // The program that it runs now; it will be another one.
        self.link(name).unwrap_or_else(|| PathBuf::from(format!("/proc/{}", self.0)).join(name))
    }
}

/// Whether every user may read a file and search the folders that it is in.
pub fn is_public(path: &Path) -> bool {
    let readable = metadata(path).is_ok_and(|file| file.mode() & 0o004 != 0);
    readable && path.ancestors().skip(1).all(|folder| metadata(folder).is_ok_and(|it| it.mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::follow::{TOKEN, Way};

    const SELF: fn() -> Process = || Process(std::process::id());

    fn found(way: Way, folder: i32, path: &str, search: &str) -> Option<PathBuf> {
        let request = Request { token: [0; TOKEN], way, folder, path: 0, preload: 0, search: 0 };
        SELF().file(&request, path.as_bytes(), search.as_bytes())
    }

    #[test]
    fn files_are_found_as_the_kernel_and_the_c_library_would() {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(
            found(Way::Executes, WORKING_DIRECTORY, file.to_str().unwrap(), ""),
            None,
            "not executable"
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(Way::Executes, WORKING_DIRECTORY, file.to_str().unwrap(), ""), Some(file.clone()));
        let path = format!("/no/such:{}", folder.path().display());
        assert_eq!(found(Way::Searches, WORKING_DIRECTORY, "tool", &path), Some(file.clone()));
        assert_eq!(
            found(Way::Executes, WORKING_DIRECTORY, "tool", &path),
            None,
            "is in the working directory"
        );
        let (opened, open) =
            (std::fs::File::open(folder.path()).unwrap(), std::fs::File::open(&file).unwrap());
        assert_eq!(found(Way::Executes, opened.as_raw_fd(), "tool", ""), Some(file.clone()));
        assert_eq!(found(Way::Executes, open.as_raw_fd(), "", ""), Some(file.clone()));
        assert_eq!(found(Way::Executes, WORKING_DIRECTORY, "/", ""), None, "a folder");
        assert_eq!(
            found(Way::Executes, WORKING_DIRECTORY, "/proc/self/exe", ""),
            std::env::current_exe().ok()
        );
        assert!(SELF().shares(&file) && SELF().has_our_numbers());
        assert!(!SELF().shares(&folder.path().join("missing")));
        assert_eq!(SELF().program(), std::env::current_exe().ok());
    }

    #[test]
    fn what_all_users_may_read() {
        use std::os::unix::fs::PermissionsExt as _;
        assert!(is_public(Path::new("/proc/self/status")));
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_public(&file), "its folder is its owner's");
    }
}
