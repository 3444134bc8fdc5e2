//! Files that processes have mapped: their build IDs, where the kernel does not say them.

use crate::errands::Errands;
use crate::images::{ImageIndex, Images};
use crate::origin::Origin;
use crate::vdso;
use archive::ImageKind;
use kernel::Mapping;
use kernel::maps::FileId;
use kernel::untrusted::has_trusted_files;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use symbols::hex;

/// Files whose build IDs are remembered.
const MOST: usize = 8192;
/// Bytes of a build ID; linkers write 8 to 32.
const LONGEST: usize = 64;

/// Build IDs of files, as long as they are the same ones.
#[derive(Debug)]
pub struct Files {
    origin: Origin,
    /// With the hash of the path: inodes are not unique where a file system has several trees. A path alone may be another file in
    /// a container. Programs cannot choose the hash: it begins with a secret.
    known: HashMap<FileId, (u64, Vec<u8>)>,
    state: RandomState,
    contents: Arc<Contents>,
    errands: Errands,
}

/// What stands for the build IDs of files that have none, as long as they are the same files: in the place of a program that is compiled again there may
/// be one with the same inode.
#[derive(Debug, Default)]
struct Contents(Mutex<HashMap<Content, Vec<u8>>>);

/// A file as it was at a moment: device, inode, length, and when it was changed last.
type Content = (u64, u64, u64, (i64, i64));

impl Contents {
    fn identity(&self, path: &Path) -> Option<Vec<u8>> {
        let list = symbols::FunctionList::open(path).ok()?;
        if list.has_build_id() {
            return bytes(&list.identity()?);
        }
        let about = list.file().metadata().ok()?;
        let content = (about.dev(), about.ino(), about.len(), (about.ctime(), about.ctime_nsec()));
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = known().get(&content) {
            return Some(identity.clone());
        }
        let identity = bytes(&list.identity()?)?;
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(content, identity.clone());
        Some(identity)
    }
}

impl Files {
    /// No file is known. Those that processes of a recording had mapped are not looked at: others may lie in their places.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            known: HashMap::new(),
            state: RandomState::new(),
            contents: Arc::default(),
            errands: Errands::frugal(),
        }
    }

    /// The image of what a user's process has mapped already.
    pub fn image_of(
        &mut self,
        (pid, user): (u32, u32),
        mapping: &Mapping,
        images: &mut Images,
    ) -> ImageIndex {
        use std::os::unix::ffi::OsStrExt as _;
        let path = mapping.path.as_deref().map_or(&b"//anon"[..], |path| path.as_os_str().as_bytes());
        if !mapping.is_file() || is_memory(path) {
            return no_file(vdso::name_at(path, mapping.start), images);
        }
        let (file, is_deleted, owned) = (mapping.file, mapping.deleted, path.to_owned());
        let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start.0, mapping.end.0);
        let contents = Arc::clone(&self.contents);
        let build_id = self.build_id(user, path, file, move || {
            // Takes `CAP_CHECKPOINT_RESTORE`. Without, what was deleted or replaced cannot be had any more.
            let seen = || as_seen_by(pid, &owned, file).filter(|_| !is_deleted);
            contents.identity(Path::new(&mapped)).or_else(|| contents.identity(&seen()?))
        });
        if mapping.deleted && build_id.is_empty() {
            // As the kernel writes it: names must not be looked for in what lies at the path now.
            return images.intern(ImageKind::File, &[path, b" (deleted)"].concat(), &[]);
        }
        images.intern(ImageKind::File, path, &build_id)
    }

    /// The image of what a user's process maps, with the build ID that the kernel says.
    pub fn image(
        &mut self,
        (pid, user): (u32, u32),
        path: &[u8],
        build_id: &[u8],
        file: FileId,
        images: &mut Images,
    ) -> ImageIndex {
        match path.first() {
            Some(b'/') if !is_memory(path) && build_id.is_empty() && self.origin.is_here() => {
                let (owned, contents) = (path.to_owned(), Arc::clone(&self.contents));
                let read = move || contents.identity(&as_seen_by(pid, &owned, file)?);
                images.intern(ImageKind::File, path, &self.build_id(user, path, file, read))
            }
            Some(b'/') if !is_memory(path) => images.intern(ImageKind::File, path, build_id),
            _ => no_file(path, images),
        }
    }

    fn build_id(
        &mut self,
        user: u32,
        path: &[u8],
        file: FileId,
        read: impl FnOnce() -> Option<Vec<u8>> + Send + 'static,
    ) -> Vec<u8> {
        let hash = self.state.hash_one(path);
        if let Some((known_as, build_id)) = self.known.get(&file)
            && *known_as == hash
        {
            return build_id.clone();
        }
        // Not known a moment later, if the process has gone: another one may still tell.
        let found = self.errands.run(user, read).flatten().unwrap_or_default();
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let is_build_id = !found.is_empty() && !symbols::is_content_identity(&hex(&found));
        if is_build_id && file.inode != 0 {
            self.known.insert(file, (hash, found.clone()));
        }
        found
    }

    /// No file of this user is read for a while.
    #[cfg(test)]
    pub fn exhaust(&mut self, user: u32) {
        self.errands.charge(user, wire::Nanos(1_000_000_000));
    }

    /// One may have been replaced.
    pub fn forget(&mut self) {
        self.known = HashMap::new();
    }
}

fn no_file(path: &[u8], images: &mut Images) -> ImageIndex {
    if vdso::is_one(path) || path == b"[vsyscall]" {
        return images.intern(ImageKind::Memory, path, &[]);
    }
    Images::MEMORY
}

/// Whether a path, as the kernel says it of a mapping, is that of memory which a program may fill with code that it generates.
fn is_memory(path: &[u8]) -> bool {
    [&b"//anon"[..], b"/memfd:", b"/dev/zero", b"/SYSV", b"/anon_hugepage"]
        .iter()
        .any(|start| path.starts_with(start))
}

/// A file, in the mount namespace of a process that still runs; not another one that was put in its place. Devices are not
/// compared: btrfs and overlayfs have other numbers for the process that asks for the file than for the one that has mapped it.
pub fn as_seen_by(pid: u32, path: &[u8], file: FileId) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    if !has_trusted_files(pid) {
        return None;
    }
    let inside = Path::new("/proc").join(pid.to_string()).join("root");
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let seen = inside.join(path.strip_prefix("/").unwrap_or(path));
    let inode = std::fs::metadata(&seen).ok()?.ino();
    // Zero: the kernel has not reported which one it is.
    (file.inode == inode || file.inode == 0).then_some(seen)
}

/// The build ID of a file, or what stands for one where it has none.
#[cfg(test)]
pub fn read_identity(path: &Path) -> Option<Vec<u8>> {
    Contents::default().identity(path)
}

/// What hexadecimal digits stand for; nothing of more than build IDs have.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    if digits.len() > 2 * LONGEST {
        return None;
    }
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Address;

    /// Files that this process has mapped as code.
    fn mapped() -> Vec<Mapping> {
        let maps = kernel::maps(std::process::id()).unwrap();
        maps.into_iter().filter(|mapping| mapping.executable && mapping.is_file()).collect()
    }

    #[test]
    fn another_file_may_have_the_same_inode_in_another_tree() {
        let (mut files, mut images) = (Files::new(Origin::Here), Images::new(&[]));
        let mut maps = mapped();
        let file = maps[0].file;
        maps.iter_mut().for_each(|mapping| mapping.file = file);
        let mut build_id = |mapping: &Mapping| {
            // However long the last one took.
            files.errands = Errands::default();
            let image = files.image_of((std::process::id(), 0), mapping, &mut images);
            images.get(image).build_id.clone()
        };
        let first = build_id(&maps[0]);
        assert!(first.len() > 8, "{first}");
        for other in maps.iter().filter(|mapping| mapping.path != maps[0].path) {
            assert_ne!(build_id(other), first, "{other:?}");
            assert_eq!(build_id(&maps[0]), first);
        }
    }

    #[test]
    fn the_same_path_is_another_file_in_a_container() {
        use std::os::unix::ffi::OsStrExt as _;
        let (mut files, mut images) = (Files::new(Origin::Here), Images::new(&[]));
        let program = std::env::current_exe().unwrap();
        let path = program.as_os_str().as_bytes();
        let mut build_id = |pid, inode| {
            files.errands = Errands::default();
            let file = FileId { device: (8, 1), inode };
            let image = files.image((pid, 0), path, &[], file, &mut images);
            images.get(image).build_id.clone()
        };
        // A number that no process has: it has gone.
        let (we, gone) = (std::process::id(), 1 << 29);
        let inode = std::fs::metadata(&program).unwrap().ino();
        let ours = build_id(we, inode);
        assert!(ours.len() > 8, "{ours}");
        assert_eq!(build_id(gone, inode), ours, "known from before");
        assert_eq!(build_id(gone, inode + 1), "", "it is unknown which one that was");
        assert_eq!(build_id(we, inode + 1), "", "it was replaced since");
        assert_eq!(build_id(we, 0), ours);
        assert_eq!(build_id(gone, 0), "", "which file it is was not said");
    }

    #[test]
    fn what_replaced_a_running_file_is_not_taken_for_it() {
        let ours = mapped().remove(0);
        let path = ours.path.clone().unwrap().into_os_string().into_string().unwrap();
        let image_of = |mapping: Mapping| {
            let (mut files, mut images) = (Files::new(Origin::Here), Images::new(&[]));
            let image = files.image_of((std::process::id(), 0), &mapping, &mut images);
            (images.get(image).path.clone(), images.get(image).build_id.clone())
        };
        // Nothing is mapped there: as where `map_files` may not be read.
        let hidden = Mapping { start: Address(0x1000), end: Address(0x2000), ..ours.clone() };
        let right = image_of(ours);
        assert!(right.0 == path && right.1.len() > 8, "{right:?}");
        assert_eq!(image_of(hidden.clone()), right);
        let deleted = Mapping { deleted: true, ..hidden.clone() };
        assert_eq!(image_of(deleted), (format!("{path} (deleted)"), String::new()));
        let file = FileId { inode: hidden.file.inode + 1, ..hidden.file };
        assert_eq!(image_of(Mapping { file, ..hidden }), (path, String::new()));
    }

    #[test]
    fn a_program_that_is_compiled_again_is_another_one() {
        use std::io::{Seek as _, Write as _};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        // Without sections there is no build ID.
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut header = program[..1 << 16].to_vec();
        header[0x28..0x30].fill(0);
        header[0x3c..0x40].fill(0);
        let segments = usize::from(u16::from_le_bytes([header[0x38], header[0x39]]));
        for segment in 0..segments {
            // Nor are there notes (4).
            let at = 0x40 + 56 * segment;
            if header[at] == 4 {
                header[at] = 0;
            }
        }
        std::fs::write(&path, &header).unwrap();
        let contents = Contents::default();
        let first = contents.identity(&path).unwrap();
        assert!(symbols::is_content_identity(&hex(&first)), "{}", hex(&first));
        assert_eq!(contents.identity(&path).as_ref(), Some(&first));
        assert_eq!(contents.0.lock().unwrap().len(), 1);
        // The same file with another content of the same length.
        let mut file = std::fs::File::options().write(true).open(&path).unwrap();
        file.seek(std::io::SeekFrom::Start(0x8000)).unwrap();
        file.write_all(&[0xff; 64]).unwrap();
        // The clock of the file system need not have gone on.
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let later = contents.identity(&path).unwrap();
        let is_told = file.metadata().unwrap().ctime_nsec() != 0 && contents.0.lock().unwrap().len() == 2;
        assert!(later != first || !is_told);
    }

    #[test]
    fn memory_that_has_a_path_is_no_file() {
        for (path, kind) in [
            ("/usr/bin/cat", ImageKind::File),
            ("/dev/shm/code.so", ImageKind::File),
            ("//anon", ImageKind::Memory),
            ("/memfd:doublemapper (deleted)", ImageKind::Memory),
            ("/dev/zero (deleted)", ImageKind::Memory),
            ("/SYSV00000000 (deleted)", ImageKind::Memory),
            ("/anon_hugepage (deleted)", ImageKind::Memory),
            ("[vdso]", ImageKind::Memory),
        ] {
            let origin = Origin::Recorded { same_machine: true };
            let (mut files, mut images) = (Files::new(origin), Images::new(&[]));
            let image =
                files.image((std::process::id(), 0), path.as_bytes(), &[], FileId::default(), &mut images);
            assert_eq!((images.get(image).kind, images.get(image).build_id.as_str()), (kind, ""), "{path}");
        }
    }
}
