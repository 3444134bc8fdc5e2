//! Files that running processes have, though no path here leads to them: of other mount namespaces, deleted, or replaced.

use archive::CodeImage;
use kernel::{Mapping, maps};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use symbols::Image;

/// What runs now. It is looked at when something is looked for, once.
#[derive(Debug, Default)]
pub struct Running {
    seen: OnceLock<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The root folders that are not ours, each by one process that has it.
    roots: Vec<PathBuf>,
    /// What leads to code whose name is gone, by that name.
    gone: HashMap<PathBuf, Vec<PathBuf>>,
}

impl Running {
    /// The file of an image, and where it was found: the very build, so nothing for an image without a build ID.
    pub fn find(&self, image: &CodeImage) -> Option<(Image, PathBuf)> {
        if image.build_id.is_empty() || !image.path.starts_with('/') {
            return None;
        }
        let seen = self.seen.get_or_init(Seen::now);
        let path = Path::new(image.path.strip_suffix(" (deleted)").unwrap_or(&image.path));
        let is_right = |(found, _): &(Image, PathBuf)| found.identity().as_deref() == Some(&image.build_id);
        let links = seen.gone.get(path).into_iter().flatten();
        let of_code = links.filter_map(|link| Some((Image::open(link).ok()?, link.clone())));
        let below = path.strip_prefix("/").unwrap_or(path);
        let of_roots = seen.roots.iter().filter_map(|root| Some((open_in(root, path)?, root.join(below))));
        of_code.chain(of_roots).find(is_right)
    }
}

impl Seen {
    fn now() -> Seen {
        let mut seen = Seen::default();
        let ours = root_of(Path::new("/proc/self"));
        let mut roots = BTreeMap::new();
        let mut files: BTreeSet<(u64, (u32, u32))> = BTreeSet::new();
        // The lowest numbers first, which are those of the oldest: the likeliest to stay.
        for pid in BTreeSet::from_iter(maps::pids()) {
            let process = PathBuf::from(format!("/proc/{pid}"));
            // What may not be looked into, or has ended meanwhile, has nothing to tell.
            if is_trusted(&process)
                && let Some(root) = root_of(&process)
                && Some(&root) != ours.as_ref()
            {
                roots.entry(root).or_insert_with(|| process.join("root"));
            }
            let program = fs::read_link(process.join("exe")).unwrap_or_default();
            for map in maps(pid).unwrap_or_default() {
                let Some(path) = map.path.as_ref().filter(|_| map.executable && map.deleted) else {
                    continue;
                };
                if files.insert((map.file.inode, map.file.device)) {
                    let link = if is_of(&program, path) { process.join("exe") } else { link(&process, &map) };
                    seen.gone.entry(path.clone()).or_default().push(link);
                }
            }
        }
        seen.roots = roots.into_values().collect();
        seen
    }
}

/// Whether the files that a process sees may be looked at. Any user can make user and mount namespaces, and a file system in
/// them that never answers. The owner of its folder in /proc does not tell: it is root where a process cannot be dumped.
fn is_trusted(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    runs_as(&status, [0, kernel::stream::own_user()])
}

/// Whether a process with this status (proc_pid_status(5)) has no other users than these.
fn runs_as(status: &str, users: [u32; 2]) -> bool {
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("Uid:")) else { return false };
    let is_one = |user: &str| user.parse().is_ok_and(|user| users.contains(&user));
    line.split_whitespace().count() == 4 && line.split_whitespace().all(is_one)
}

/// Which files a process sees: its mount namespace, and its root folder there.
fn root_of(process: &Path) -> Option<(PathBuf, PathBuf)> {
    Some((fs::read_link(process.join("ns/mnt")).ok()?, fs::read_link(process.join("root")).ok()?))
}

/// Whether `program`, as `/proc/PID/exe` has it, is the deleted file at `path`. That link needs fewer rights than those of
/// mappings.
fn is_of(program: &Path, path: &Path) -> bool {
    program.as_os_str().as_bytes().strip_suffix(b" (deleted)") == Some(path.as_os_str().as_bytes())
}

/// What leads to the file of a mapping (proc_pid_map_files(5)).
fn link(process: &Path, map: &Mapping) -> PathBuf {
    process.join(format!("map_files/{:x}-{:x}", map.start.0, map.end.0))
}

/// The file at a path as a process has it whose root folder this is: links lead to its files, never to ours.
fn open_in(root: &Path, path: &Path) -> Option<Image> {
    let root = File::open(root).ok()?;
    let below = OsStr::from_bytes(path.as_os_str().as_bytes().strip_prefix(b"/")?);
    // Without opening it yet: a pipe would never end.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat2(&root, below, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    let kind = FileType::from_raw_mode(fstat(&found).ok()?.st_mode);
    if kind != FileType::RegularFile {
        return None;
    }
    Image::open(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd()))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_deleted_paths() {
        for (program, path, expected) in
            [("/bin/a (deleted)", "/bin/a", true), ("/bin/a", "/bin/a", false), ("", "/bin/a", false)]
        {
            assert_eq!(is_of(Path::new(program), Path::new(path)), expected, "{program}");
        }
    }

    #[test]
    fn processes_are_of_users() {
        let status = |users: &str| format!("Name:\tUid: 0\nUid:\t{users}\nGid:\t0\t0\t0\t0\n");
        for (users, expected) in [
            ("0\t0\t0\t0", true),
            ("1000\t1000\t1000\t1000", true),
            ("1000\t0\t0\t0", true),
            ("1001\t1001\t1001\t1001", false),
            ("1001\t0\t0\t0", false),
            ("0\t0", false),
            ("", false),
        ] {
            assert_eq!(runs_as(&status(users), [0, 1000]), expected, "{users}");
        }
        assert!(!runs_as("", [0, 1000]));
        assert!(is_trusted(Path::new("/proc/self")));
    }

    #[test]
    fn links_do_not_lead_out_of_a_root() {
        let folder = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        std::os::unix::fs::symlink(&program, folder.path().join("out")).unwrap();
        fs::copy(&program, folder.path().join("own")).unwrap();
        std::os::unix::fs::symlink("/own", folder.path().join("in")).unwrap();
        assert!(open_in(folder.path(), Path::new("/own")).is_some());
        assert!(open_in(folder.path(), Path::new("/in")).is_some());
        assert!(open_in(folder.path(), Path::new("/out")).is_none());
        assert!(open_in(folder.path(), Path::new("/")).is_none());
    }

    #[test]
    fn nothing_is_guessed_without_a_build() {
        let path = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let kind = archive::ImageKind::File;
        let running = Running::default();
        assert!(running.find(&CodeImage { path, build_id: String::new(), kind }).is_none());
        assert!(running.seen.get().is_none());
    }
}
