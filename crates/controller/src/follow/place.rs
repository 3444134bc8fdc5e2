//! Place: the file that a process is about to execute, as it would find it, and whether it is the same file for us.

use std::ffi::OsStr;
use std::fs::{Metadata, metadata, read_link};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use wire::follow::{Request, WORKING_DIRECTORY};

/// A process that is about to execute a program.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    id: u32,
    /// Whether a path leads it to the same file as us: it has our mounts and our root folder.
    has_our_files: bool,
}

/// The name spaces of process IDs and of mounts that this process is in, which do not change.
static OWN: LazyLock<[Option<PathBuf>; 2]> =
    LazyLock::new(|| ["pid", "mnt"].map(|kind| read_link(format!("/proc/self/ns/{kind}")).ok()));

impl Process {
    pub fn of(id: u32) -> Self {
        let process = Self { id, has_our_files: false };
        let [_, mounts] = &*OWN;
        let has_our_mounts = mounts.is_some() && process.link("ns/mnt") == *mounts;
        let has_our_files = has_our_mounts && process.link("root").is_some_and(|root| root == Path::new("/"));
        Self { has_our_files, ..process }
    }

    pub fn id(self) -> u32 {
        self.id
    }

    fn link(self, name: &str) -> Option<PathBuf> {
        read_link(format!("/proc/{}/{name}", self.id)).ok()
    }

    /// Its own program.
    pub fn program(self) -> Option<PathBuf> {
        self.link("exe")
    }

    /// Whether its process IDs are ours.
    pub fn has_our_numbers(self) -> bool {
        let [numbers, _] = &*OWN;
        numbers.is_some() && self.link("ns/pid") == *numbers
    }

    /// The file at an absolute path, as the process sees it.
    fn sees(self, path: &Path) -> Option<Metadata> {
        if self.has_our_files {
            return metadata(path).ok();
        }
        let below = path.strip_prefix("/").ok()?;
        metadata(Path::new(&format!("/proc/{}/root", self.id)).join(below)).ok()
    }

    /// Whether it sees the same file at a path as we do.
    pub fn shares(self, path: &Path) -> bool {
        match (self.sees(path), metadata(path)) {
            (Some(theirs), Ok(ours)) => (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()),
            _ => false,
        }
    }

    /// The same for a path that is known to lead us to a file.
    pub fn shares_existing(self, path: &Path) -> bool {
        self.has_our_files || self.shares(path)
    }

    /// Whether it may execute what lies at a path.
    fn may_execute(self, path: &Path) -> bool {
        self.sees(path).is_some_and(|file| file.is_file() && file.mode() & 0o111 != 0)
    }

    /// The absolute path of what a request is about; none if there is no such file.
    pub fn file(self, request: &Request, path: &[u8], search: &[u8]) -> Option<PathBuf> {
        let folder = || match request.folder {
            WORKING_DIRECTORY => self.link("cwd"),
            folder => self.link(&format!("fd/{folder}")),
        };
        let absolute = |path: &[u8]| match Path::new(OsStr::from_bytes(path)) {
            path if path.is_absolute() => Some(path.to_owned()),
            path => Some(folder()?.join(path)),
        };
        let found = if path.is_empty() {
            folder()?
        } else if request.way.searches() && !path.contains(&b'/') {
            let folders = search.split(|byte| *byte == b':').filter_map(absolute);
            folders.map(|folder| folder.join(OsStr::from_bytes(path))).find(|path| self.may_execute(path))?
        } else {
            absolute(path)?
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
        self.link(name).unwrap_or_else(|| PathBuf::from(format!("/proc/{}", self.id)).join(name))
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

    const SELF: fn() -> Process = || Process::of(std::process::id());

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
        assert!(SELF().has_our_files && SELF().shares(&file) && SELF().has_our_numbers());
        let elsewhere = Process { has_our_files: false, ..SELF() };
        assert!(elsewhere.shares(&file) && elsewhere.may_execute(&file));
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
