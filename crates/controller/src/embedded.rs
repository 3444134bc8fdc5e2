//! The runtime library, carried inside this executable and unpacked where the loader finds it.
//!
//! It goes to a per-user cache, under a name that contains a hash of its content, so that several versions
//! of the command live side by side and a file that a running program has mapped is never replaced. What
//! lies there is code that runs in the user's programs, and the loader opens it by its name, after the bytes have been compared. So
//! no other user may be able to change what the name leads to: every folder from `/` on belongs to the user or to root and is
//! not writable by others (or is sticky, as `/tmp` is, where only their owners rename folders). Links are followed first, and it
//! is the path without links that is looked at and given to the loader. A folder that will not do is passed over for the next one.
//!
//! A sealed file in memory, given to the loader as `/proc/self/fd/N`, could not be exchanged at all. It is not used because the
//! program would see it: the loader keeps that name for as long as the program lives, and debuggers, profilers and handlers of
//! crashes that open what the loader lists would open whatever the program has under that number by then, which may be a pipe
//! that never answers. Systems that refuse to run code from memory (`vm.memfd_noexec`) would refuse it, too.
//!
//! It does not protect from programs of the same user, nor from root.

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, StatVfsMountFlags, fchmod, fstat, fstatvfs, mkdirat, open, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// Whether a file of this name is the runtime library, which is no code of the program.
#[must_use]
pub fn is_runtime(name: &str) -> bool {
    name.strip_prefix("memfd:").unwrap_or(name).starts_with(STEM)
}

/// The same of a file, by its path.
#[must_use]
pub fn is_runtime_at(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_runtime(&name.to_string_lossy()))
}

/// The bytes of `libwhatif_rt.so`.
pub const RUNTIME: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libwhatif_rt.so"));
/// Its build ID, and ours.
pub const BUILD_ID: u64 = wire::build_id(Some(env!("WHATIF_BUILD_ID")));
/// What its file names begin with, in all versions.
const STEM: &str = "libwhatif_rt";
pub(crate) const FILE_NAME: &str = concat!("libwhatif_rt-", env!("WHATIF_RUNTIME_HASH"), ".so");

/// Where the runtime is, and which better folders were passed over for it.
#[derive(Debug)]
pub struct Unpacked {
    /// Its absolute path, which `LD_PRELOAD` can carry.
    pub path: PathBuf,
    /// Folders, and why they will not do.
    pub passed_over: Vec<(PathBuf, String)>,
}

/// Unpacks the runtime, unless it has been already.
///
/// # Errors
/// When none of the folders that come into question will do; the message lists them with the reasons.
pub fn unpack() -> Result<Unpacked, UnpackError> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    unpack_into_first(places(variable("XDG_CACHE_HOME"), variable("HOME")))
}

/// The folder that the runtime is in, which is the user's own: for what is worth keeping. None where the folders are a container's.
pub fn folder() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    if kernel::name_spaces::is_inside() {
        return None;
    }
    FOLDER.get_or_init(|| Some(unpack().ok()?.path.parent()?.to_owned())).clone()
}

/// Whether programs can run from the file system that a file is on.
pub fn may_run_from(path: &Path) -> bool {
    File::open(path)
        .and_then(|file| Ok(fstatvfs(file)?))
        .is_ok_and(|about| !about.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// No folder would do.
#[derive(Debug)]
pub struct UnpackError {
    tried: Vec<(PathBuf, Refusal)>,
}

impl std::error::Error for UnpackError {}

impl fmt::Display for UnpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whatif has to put its runtime library into a folder, and none will do:\n")?;
        for (folder, refusal) in &self.tried {
            writeln!(f, "  {}: {refusal}", folder.display())?;
        }
        f.write_str(
            "Name one of your own, on a file system that allows programs to run, for instance:\n  \
             export XDG_CACHE_HOME=/var/tmp/$USER-cache",
        )
    }
}

/// Why a folder will not do.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("its name contains a space, a colon or a dollar sign, which LD_PRELOAD cannot carry")]
    Name,
    #[error("it is a symbolic link; whatif follows none here, because it could lead to another user's files")]
    Link,
    #[error("it belongs to user {0}, who could change what you run")]
    Owner(u32),
    #[error("it is in {}, which belongs to user {owner}, who could exchange what you run", folder.display())]
    OwnerAbove { folder: PathBuf, owner: u32 },
    #[error("it is in {}, where other users may write (mode {mode:o}) and could exchange what you run", folder.display())]
    Writable { folder: PathBuf, mode: u32 },
    #[error("programs cannot run from its file system (mounted noexec)")]
    NoExec,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// The folders that come into question, best first.
fn places(cache: Option<PathBuf>, home: Option<PathBuf>) -> Vec<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    // Under `sudo` the home may be another user's, where root's files would only be in the way.
    let ours = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|home| home.uid() == geteuid().as_raw());
    let mut places = Vec::new();
    places.extend(cache.filter(absolute).map(|cache| cache.join("whatif")));
    places.extend(home.filter(absolute).filter(ours).map(|home| home.join(".cache/whatif")));
    for temporary in ["/tmp", "/var/tmp"] {
        places.push(Path::new(temporary).join(format!("whatif-{}", geteuid().as_raw())));
    }
    places
}

fn unpack_into_first(places: Vec<PathBuf>) -> Result<Unpacked, UnpackError> {
    let mut tried = Vec::new();
    for folder in places {
        match unpack_into(&folder) {
            Ok(path) => {
                let passed_over =
                    tried.into_iter().map(|(folder, refusal): (_, Refusal)| (folder, refusal.to_string()));
                return Ok(Unpacked { path, passed_over: passed_over.collect() });
            }
            Err(refusal) => tried.push((folder, refusal)),
        }
    }
    Err(UnpackError { tried })
}

fn unpack_into(path: &Path) -> Result<PathBuf, Refusal> {
    let (folder, path) = open_folder(path)?;
    if path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte)) {
        return Err(Refusal::Name);
    }
    if !is_unpacked(&folder)? {
        write(&folder)?;
        if !is_unpacked(&folder)? {
            return Err(io::Error::other("what was written there reads differently").into());
        }
    }
    Ok(path.join(FILE_NAME))
}

/// Creates the folder if need be and makes sure that it is ours alone, and that no other user can put another one in its place.
/// Returns its path without links; what is in the folder is handled by the descriptor.
fn open_folder(path: &Path) -> Result<(OwnedFd, PathBuf), Refusal> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = open("/", flags, Mode::empty())?;
    // The owner of the root folder can exchange everything: in a container without a root of its own that is no user we know.
    let trusted = [0, geteuid().as_raw(), fstat(&root)?.st_uid];
    let (mut folder, mut so_far) = (root, PathBuf::from("/"));
    let path = without_links(path)?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        can_only_be_changed_by(&trusted, &folder, &so_far)?;
        so_far.push(name);
        folder = match openat(&folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&folder, name, Mode::RWXU) {
                    // Another command was faster.
                    Err(Errno::EXIST) => {}
                    other => other?,
                }
                openat(&folder, name, flags, Mode::empty())?
            }
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                let entry = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                let is_link = FileType::from_raw_mode(entry.st_mode).is_symlink();
                return Err(if is_link { Refusal::Link } else { error.into() });
            }
            other => other?,
        };
    }
    let stat = fstat(&folder)?;
    if stat.st_uid != geteuid().as_raw() {
        return Err(Refusal::Owner(stat.st_uid));
    }
    if stat.st_mode & 0o777 != 0o700 {
        fchmod(&folder, Mode::RWXU)?;
    }
    if fstatvfs(&folder)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(Refusal::NoExec);
    }
    Ok((folder, so_far))
}

/// The path with the links in it followed, as far as it exists; but not at its end, where we make a folder ourselves.
fn without_links(path: &Path) -> Result<PathBuf, Refusal> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(path.to_owned());
    };
    for existing in parent.ancestors() {
        match existing.canonicalize() {
            Ok(real) => {
                let missing = parent.strip_prefix(existing).unwrap_or(Path::new(""));
                if missing.components().any(|part| !matches!(part, Component::Normal(_))) {
                    return Err(io::Error::from(io::ErrorKind::NotFound).into());
                }
                return Ok(real.join(missing).join(name));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::from(io::ErrorKind::NotFound).into())
}

/// Whether only these users can exchange what is in a folder. In a sticky one, others may add but not exchange: the owners of what is
/// in it are looked at in turn.
fn can_only_be_changed_by(users: &[u32], folder: &OwnedFd, path: &Path) -> Result<(), Refusal> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let stat = fstat(folder)?;
    if !users.contains(&stat.st_uid) {
        return Err(Refusal::OwnerAbove { folder: path.to_owned(), owner: stat.st_uid });
    }
    if stat.st_mode & OTHERS_WRITE != 0 && stat.st_mode & STICKY == 0 {
        return Err(Refusal::Writable { folder: path.to_owned(), mode: stat.st_mode & 0o7777 });
    }
    Ok(())
}

/// Whether the file is there, ours, closed to others, and exactly what it should be.
fn is_unpacked(folder: &OwnedFd) -> Result<bool, Refusal> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(folder, FILE_NAME, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if !is_trustworthy(&fstat(&file)?) {
        return Ok(false);
    }
    let mut bytes = Vec::with_capacity(RUNTIME.len());
    // One more than there should be, so that a longer file is seen to be longer.
    File::from(file).take(RUNTIME.len() as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes == RUNTIME)
}

fn is_trustworthy(stat: &Stat) -> bool {
    let regular = stat.st_mode & 0o170_000 == 0o100_000;
    regular && stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o022 == 0
}

/// Writes the file under another name and gives it its own when it is complete, so that several commands
/// may do so at once. No fsync: what a power cut tears is found by the comparison.
fn write(folder: &OwnedFd) -> Result<(), Refusal> {
    let mut unique = String::from(".");
    let _ = write!(unique, "{}-{}-{:?}", FILE_NAME, std::process::id(), std::thread::current().id());
    let name = OsStr::new(&unique);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    // Left behind by a process that had our number and was killed.
    let _ = unlinkat(folder, name, rustix::fs::AtFlags::empty());
    let file = openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    let written = fchmod(&file, Mode::RUSR | Mode::XUSR)
        .map_err(io::Error::from)
        .and_then(|()| File::from(file).write_all(RUNTIME))
        .and_then(|()| Ok(renameat(folder, name, folder, FILE_NAME)?));
    if written.is_err() {
        let _ = unlinkat(folder, name, rustix::fs::AtFlags::empty());
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn unpacks_once_and_repairs() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/whatif");
        let path = unpack_into(&folder).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), RUNTIME);
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o500));

        let inode = || std::fs::metadata(&path).unwrap().ino();
        let first = inode();
        unpack_into(&folder).unwrap();
        assert_eq!(inode(), first, "a good file is left alone");

        let damages: [&dyn Fn(); 4] = [
            &|| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o722)).unwrap(),
            &|| {
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, &RUNTIME[..RUNTIME.len() - 1]).unwrap();
            },
            &|| {
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, [RUNTIME, b"x"].concat()).unwrap();
            },
            &|| {
                let elsewhere = home.path().join("elsewhere");
                std::fs::write(&elsewhere, RUNTIME).unwrap();
                std::fs::remove_file(&path).unwrap();
                symlink(elsewhere, &path).unwrap();
            },
        ];
        for damage in damages {
            damage();
            unpack_into(&folder).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), RUNTIME);
            assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
            assert_eq!(mode(&path), 0o500);
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn opens_a_folder_to_nobody_else() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("whatif");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        unpack_into(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
    }

    #[test]
    fn goes_on_to_the_next_place() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("link");
        symlink(home.path(), &link).unwrap();
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        let places = [home.path().join("a b"), home.path().join("a:b"), link, file.join("whatif")];
        let message = unpack_into_first(places.to_vec()).unwrap_err().to_string();
        for reason in [
            "a b: its name",
            "a:b: its name",
            "link: it is a symbolic link",
            "Not a directory",
            "XDG_CACHE_HOME",
        ] {
            assert!(message.contains(reason), "{reason} in\n{message}");
        }
        let good = home.path().join("good");
        let unpacked = unpack_into_first(places.into_iter().chain([good.clone()]).collect()).unwrap();
        assert_eq!(unpacked.path.parent(), Some(good.canonicalize().unwrap().as_path()));
        assert_eq!(unpacked.passed_over.len(), 4);
    }

    #[test]
    fn somebody_elses_folder_is_refused() {
        // Only root can give a folder away; for all others the root folder is another user's.
        if geteuid().is_root() {
            let home = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(home.path(), Some(12_345), None).unwrap();
            assert!(matches!(unpack_into(home.path()), Err(Refusal::Owner(12_345))));
            std::os::unix::fs::chown(home.path(), Some(0), None).unwrap();
        } else {
            assert!(matches!(unpack_into(Path::new("/")), Err(Refusal::Owner(0))));
        }
    }

    #[test]
    fn a_folder_that_others_can_exchange_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let [open, good] = ["open", "good"].map(|name| home.path().join(name));
        std::fs::create_dir_all(open.join("cache")).unwrap();
        for (mode, refused) in [(0o777, true), (0o770, true), (0o1777, false), (0o755, false)] {
            std::fs::set_permissions(&open, std::fs::Permissions::from_mode(mode)).unwrap();
            // The parent, and the parent's parent.
            for folder in [open.join("whatif"), open.join("cache/whatif")] {
                let unpacked = unpack_into_first(vec![folder.clone(), good.clone()]).unwrap();
                let expected = if refused { &good } else { &folder };
                assert_eq!(
                    unpacked.path.parent(),
                    Some(expected.canonicalize().unwrap().as_path()),
                    "{mode:o}"
                );
                let said = unpacked
                    .passed_over
                    .first()
                    .is_some_and(|(_, why)| why.contains("other users may write"));
                assert_eq!(said, refused, "{mode:o} {:?}", unpacked.passed_over);
            }
        }
        if geteuid().is_root() {
            let theirs = home.path().join("theirs");
            std::fs::create_dir(&theirs).unwrap();
            std::os::unix::fs::chown(&theirs, Some(12_345), None).unwrap();
            for folder in ["whatif", "made/for/whatif"] {
                let refusal = unpack_into(&theirs.join(folder)).unwrap_err();
                assert!(matches!(refusal, Refusal::OwnerAbove { owner: 12_345, .. }), "{refusal}");
            }
            assert_eq!(
                std::fs::read_dir(&theirs).unwrap().count(),
                0,
                "nothing is made in another user's folder"
            );
        }
    }

    #[test]
    fn a_link_that_is_exchanged_meanwhile_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let [good, bad, link] = ["good", "bad", "link"].map(|name| home.path().join(name));
        for folder in [&good, &bad] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::set_permissions(&bad, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::create_dir(bad.join("whatif")).unwrap();
        std::fs::write(bad.join("whatif").join(FILE_NAME), "planted").unwrap();
        symlink(&good, &link).unwrap();
        let good = good.canonicalize().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let other = home.path().join("other");
                for nth in 0_u64.. {
                    if done.load(std::sync::atomic::Ordering::Relaxed) {
                        return;
                    }
                    symlink(if nth % 2 == 0 { &bad } else { &good }, &other).unwrap();
                    std::fs::rename(&other, &link).unwrap();
                }
            });
            for _ in 0..500 {
                match unpack_into(&link.join("whatif")) {
                    // What the loader is given does not lead over the link.
                    Ok(path) => {
                        assert!(path.starts_with(&good), "{}", path.display());
                        assert_eq!(std::fs::read(&path).unwrap(), RUNTIME);
                    }
                    Err(refusal) => assert!(matches!(refusal, Refusal::Writable { .. }), "{refusal}"),
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(std::fs::read(bad.join("whatif").join(FILE_NAME)).unwrap(), b"planted");
    }

    #[test]
    fn places_in_order() {
        let own = tempfile::tempdir().unwrap();
        let cache = places(Some("/c".into()), Some(own.path().into()));
        assert_eq!(cache[..2], [PathBuf::from("/c/whatif"), own.path().join(".cache/whatif")]);
        let none = places(Some("relative".into()), None);
        assert_eq!(none.len(), 2);
        assert!(none[0].starts_with("/tmp"));
    }

    #[test]
    fn many_at_once() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("whatif");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| unpack_into(&folder).unwrap());
            }
        });
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}
