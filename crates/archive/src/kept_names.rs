//! The folder of name tables, `symbols/` in the folder of the database: the functions of images that were sampled, read while the files
//! could be had.
//!
//! A table is for one build of a file (its build ID, or what stands for one), and for those who have the file from whom it was read: what
//! is in a file that only root can have written is good for all images of that build; what is in another one is good for the images of the
//! same path only, and for none if two owners say different things. Anyone can make a file with any build ID.
//!
//! **Does not:** read the files of images, or know which were sampled.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use super::name_table::{self, HEADER, NameTableWriter};
use super::{CodeImage, Offset};

/// Name of the folder.
pub(super) const FOLDER: &str = "symbols";
/// Names of tables end with this.
const KIND: &str = ".names";
/// Whose table is good for all images of a build.
const ROOT: &str = "root";
/// Digits of a build ID: linkers write 16 to 64.
const MOST_DIGITS: usize = 128;
/// What a file takes on disk at least.
const BLOCK: u64 = 4096;
/// Tables of what was sampled within this time are not removed to make room for others.
pub const LATELY: Duration = Duration::from_secs(3600);
/// So much of what there is room for is left when room is made.
const LEFT: (u64, u64) = (9, 10);
/// No table is larger.
const LARGEST: u64 = 1 << 30;

/// Whose names are good for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOwner {
    /// Only root can have written the file.
    Root,
    /// This user may have.
    User(u32),
}

/// See the module.
#[derive(Debug)]
pub struct KeptNames {
    folder: PathBuf,
    /// Bytes that all tables may take.
    most: u64,
    /// What they take, since that was added up.
    taken: Mutex<Option<u64>>,
    /// Tables of users, by build and path.
    listed: OnceLock<HashMap<String, Vec<PathBuf>>>,
}

/// What became of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is there now, with so many bytes.
    Added(u64),
    /// There is no room: all others have been sampled lately.
    NoRoom,
}

/// How many tables there are, and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptSize {
    /// Tables.
    pub tables: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

struct Listed {
    name: String,
    bytes: u64,
    sampled: SystemTime,
}

impl KeptNames {
    /// Those of the database in `folder`, which may take `most` bytes. Touches no file.
    #[must_use]
    pub fn of(folder: &Path, most: u64) -> KeptNames {
        KeptNames { folder: folder.join(FOLDER), most, taken: Mutex::new(None), listed: OnceLock::new() }
    }

    /// The name of the table of an image; nothing of one without a build.
    #[must_use]
    pub fn name(image: &CodeImage, owner: TableOwner) -> Option<String> {
        let build = Self::build(image)?;
        Some(match owner {
            TableOwner::Root => format!("{build}.{ROOT}{KIND}"),
            TableOwner::User(user) => format!("{build}.{}.{user}{KIND}", hash(&image.path)),
        })
    }

    fn build(image: &CodeImage) -> Option<&str> {
        let build = image.build_id.as_str();
        let is_one = (1..=MOST_DIGITS).contains(&build.len()) && build.bytes().all(|b| b.is_ascii_hexdigit());
        is_one.then_some(build)
    }

    /// Whether there is a table of this name, whole. If so, what it is of has just been sampled.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let path = self.folder.join(name);
        if !is_whole(&path) {
            return false;
        }
        let now = SystemTime::now();
        let is_old = |at: SystemTime| now.duration_since(at).is_ok_and(|ago| ago > LATELY / 3) || at > now;
        if fs::metadata(&path).and_then(|about| about.modified()).is_ok_and(is_old) {
            // Without, it is only removed earlier.
            let file = storage::open_regular(&path, File::options().append(true));
            let _ = file.and_then(|file| file.set_modified(now));
        }
        true
    }

    /// Begins a table, which is nowhere to be found before it is [kept](Self::keep).
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(&self, name: &str, most: u64) -> io::Result<NameTableWriter<File>> {
        NameTableWriter::new(self.draft(name)?, most)
    }

    /// Keeps a table, if there is room.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, name: &str, table: NameTableWriter<File>) -> io::Result<Kept> {
        let write = || {
            let (file, header) = table.finish()?;
            file.write_all_at(&header, 0)?;
            Ok(file.metadata()?.len())
        };
        let kept = write().and_then(|bytes| self.place(name, bytes));
        if !matches!(kept, Ok(Kept::Added(_))) {
            self.give_up(name);
        }
        kept
    }

    /// Removes a table that was begun.
    pub fn give_up(&self, name: &str) {
        // What is left behind is removed with the next garbage.
        let _ = fs::remove_file(self.draft_path(name));
    }

    fn draft_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.new"))
    }

    fn draft(&self, name: &str) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o750).create(&self.folder)?;
        let path = self.draft_path(name);
        // One that was never finished, or a link that another user has put there.
        let _ = fs::remove_file(&path);
        storage::open_regular(&path, OpenOptions::new().write(true).create_new(true).mode(0o640))
    }

    /// Puts a table where it is found.
    fn place(&self, name: &str, bytes: u64) -> io::Result<Kept> {
        let new = room(bytes);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_none_or(|taken| taken + new > self.most) {
            *taken = Some(self.make_room(new, SystemTime::now()));
        }
        let before = taken.unwrap_or(0);
        if before + new > self.most {
            return Ok(Kept::NoRoom);
        }
        fs::rename(self.draft_path(name), self.folder.join(name))?;
        *taken = Some(before + new);
        Ok(Kept::Added(bytes))
    }

    /// Keeps a table of another folder.
    fn copy(&self, name: &str, table: &[u8]) -> io::Result<()> {
        let write = || {
            self.draft(name)?.write_all(table)?;
            self.place(name, table.len() as u64)
        };
        let kept = write();
        if !matches!(kept, Ok(Kept::Added(_))) {
            self.give_up(name);
        }
        kept.map(drop)
    }

    /// Removes what has not been sampled for longest until there is room for `new` bytes, if it can be had; returns what the others take.
    fn make_room(&self, new: u64, now: SystemTime) -> u64 {
        let mut listed = self.list();
        let mut taken = listed.iter().map(|table| room(table.bytes)).sum::<u64>();
        if taken + new <= self.most {
            return taken;
        }
        let enough = self.most / LEFT.1 * LEFT.0;
        listed.sort_by_key(|table| table.sampled);
        for Listed { name, bytes, sampled } in listed {
            let is_recent = now.duration_since(sampled).is_ok_and(|ago| ago < LATELY);
            if taken + new <= enough || is_recent {
                break;
            }
            if fs::remove_file(self.folder.join(name)).is_ok() {
                taken -= room(bytes);
            }
        }
        taken
    }

    /// How many tables there are.
    #[must_use]
    pub fn size(&self) -> KeptSize {
        let listed = self.list();
        KeptSize { tables: listed.len() as u64, bytes: listed.iter().map(|table| table.bytes).sum() }
    }

    /// Removes the tables that are of none of these images; those that were written or sampled `LATELY` stay: their samples may not have been
    /// written. Then those that have not been sampled for longest, until all take `most` bytes.
    pub(super) fn collect_garbage<'i>(
        &self,
        images: impl Iterator<Item = &'i CodeImage>,
        most: Option<u64>,
        now: SystemTime,
    ) {
        let needed: HashSet<String> = images
            .filter_map(|image| Some((Self::build(image)?, hash(&image.path))))
            .flat_map(|(build, path)| [build.to_owned(), format!("{build}.{path}")])
            .collect();
        let mut left = Vec::new();
        for table in self.list() {
            let of = table.name.strip_suffix(KIND).and_then(|name| name.rsplit_once('.'));
            let is_needed = of.is_some_and(|(image, _)| needed.contains(image));
            let is_recent = now.duration_since(table.sampled).is_ok_and(|ago| ago < LATELY);
            if !is_needed && !is_recent {
                let _ = fs::remove_file(self.folder.join(table.name));
            } else {
                left.push(table);
            }
        }
        left.sort_by_key(|table| table.sampled);
        let mut bytes: u64 = left.iter().map(|table| table.bytes).sum();
        for table in left {
            if most.is_none_or(|most| bytes <= most) {
                break;
            }
            bytes -= table.bytes;
            let _ = fs::remove_file(self.folder.join(table.name));
        }
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Adds the tables of another folder that are of these images. Those that are there already stay.
    pub(super) fn merge<'i>(
        &self,
        other: &KeptNames,
        images: impl Iterator<Item = &'i CodeImage>,
    ) -> io::Result<()> {
        for image in images {
            for path in other.tables_of(image) {
                let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
                if is_whole(&self.folder.join(name)) {
                    continue;
                }
                if let Some(table) = read(&path) {
                    self.copy(name, &table)?;
                }
            }
        }
        Ok(())
    }

    /// The linker names of the functions at positions of an image, as far as they are kept.
    #[must_use]
    pub fn look_up(&self, image: &CodeImage, wanted: &[Offset]) -> BTreeMap<Offset, String> {
        let mut tables = self.tables_of(image).into_iter();
        let Some(table) = tables.next().and_then(|path| read(&path)) else { return BTreeMap::new() };
        // Two users say different things of one file: one of them is not to be believed.
        if tables.any(|other| read(&other).is_none_or(|other| other != table)) {
            return BTreeMap::new();
        }
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        name_table::look_up(&table, &wanted)
    }

    /// The tables that name an image: one, or those of several users.
    fn tables_of(&self, image: &CodeImage) -> Vec<PathBuf> {
        let Some(build) = Self::build(image) else { return Vec::new() };
        let of_root = self.folder.join(format!("{build}.{ROOT}{KIND}"));
        if is_whole(&of_root) {
            return vec![of_root];
        }
        let listed = self.listed.get_or_init(|| {
            let mut listed: HashMap<String, Vec<PathBuf>> = HashMap::new();
            for Listed { name, .. } in self.list() {
                let of = name.strip_suffix(KIND).and_then(|name| name.rsplit_once('.'));
                if let Some((image, _)) = of {
                    listed.entry(image.to_owned()).or_default().push(self.folder.join(&name));
                }
            }
            listed.values_mut().for_each(|paths| paths.sort());
            listed
        });
        listed.get(&format!("{build}.{}", hash(&image.path))).cloned().unwrap_or_default()
    }

    fn list(&self) -> Vec<Listed> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let listed = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            if name.starts_with('.') {
                // One that was never finished.
                if is_old(&about) {
                    let _ = fs::remove_file(entry.path());
                }
                return None;
            }
            let sampled = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            name.ends_with(KIND).then_some(Listed { name, bytes: about.size(), sampled })
        });
        listed.collect()
    }
}

fn is_old(about: &fs::Metadata) -> bool {
    about.modified().is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago > LATELY))
}

fn room(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

/// The table at a path, if it has the length that it says: what a power failure has left need not.
fn is_whole(path: &Path) -> bool {
    let length = || -> Option<(u64, u64)> {
        let mut file = storage::open_regular(path, File::options().read(true)).ok()?;
        let mut header = [0; HEADER];
        file.read_exact(&mut header).ok()?;
        Some((file.metadata().ok()?.len(), name_table::length_of(&header)?))
    };
    length().is_some_and(|(has, should)| has == should)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    storage::read_regular(path, LARGEST).ok()
}

/// A path as part of a name: FNV-1a of 64 bits (draft-eastlake-fnv).
fn hash(path: &str) -> String {
    let (basis, prime) = (0xcbf2_9ce4_8422_2325_u64, 0x0100_0000_01b3);
    let hash = path.bytes().fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(prime));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageKind;

    fn image(path: &str, build_id: &str) -> CodeImage {
        CodeImage { path: path.to_owned(), build_id: build_id.to_owned(), kind: ImageKind::File }
    }

    fn add(kept: &KeptNames, name: &str, function: &str) -> Kept {
        let mut writer = kept.begin(name, 1 << 20).unwrap();
        writer.push(Offset(0x1000), 0x1000, function.as_bytes()).unwrap();
        kept.keep(name, writer).unwrap()
    }

    /// Adds a table that cannot be packed.
    fn add_large(kept: &KeptNames, name: &str) -> Kept {
        let mut random = fastrand::Rng::with_seed(1);
        let mut writer = kept.begin(name, 1 << 20).unwrap();
        for at in 0..30 {
            let function: Vec<u8> = (0..1000).map(|_| random.u8(1..)).collect();
            writer.push(Offset(at), 1, &function).unwrap();
        }
        kept.keep(name, writer).unwrap()
    }

    fn found(folder: &Path, image: &CodeImage) -> Option<String> {
        KeptNames::of(folder, 0).look_up(image, &[Offset(0x1800)]).remove(&Offset(0x1800))
    }

    fn sampled(kept: &KeptNames, name: &str, ago: Duration) {
        let file = File::options().append(true).open(kept.folder.join(name)).unwrap();
        file.set_modified(SystemTime::now() - ago).unwrap();
    }

    #[test]
    fn roots_names_are_good_for_all_and_those_of_a_user_for_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptNames::of(folder.path(), 1 << 20);
        let (libc, other) = (image("/lib/libc.so", "ab12"), image("/home/u/libc.so", "ab12"));
        let add = |image: &CodeImage, owner, function: &str| {
            add(&kept, &KeptNames::name(image, owner).unwrap(), function)
        };
        add(&other, TableOwner::User(1000), "forged");
        assert_eq!(found(folder.path(), &other).as_deref(), Some("forged"));
        assert_eq!(found(folder.path(), &libc), None, "a build ID is not enough");
        // In a file system of one's own a file may have any path.
        add(&libc, TableOwner::User(1000), "forged");
        assert_eq!(found(folder.path(), &libc).as_deref(), Some("forged"));
        add(&libc, TableOwner::User(1001), "memcpy");
        assert_eq!(found(folder.path(), &libc), None, "it cannot be told who is right");
        add(&libc, TableOwner::Root, "memcpy");
        for image in [&libc, &other] {
            assert_eq!(found(folder.path(), image).as_deref(), Some("memcpy"));
        }
        // Several users who say the same.
        let shared = image("/opt/app", "cd34");
        add(&shared, TableOwner::User(1000), "main");
        add(&shared, TableOwner::User(1001), "main");
        assert_eq!(found(folder.path(), &shared).as_deref(), Some("main"));
    }

    #[test]
    fn what_is_no_build_has_no_table() {
        for build_id in ["", "../../etc/passwd", "ab/cd", &"a".repeat(MOST_DIGITS + 1)] {
            assert_eq!(KeptNames::name(&image("/bin/a", build_id), TableOwner::Root), None, "{build_id}");
        }
    }

    #[test]
    fn there_is_room_for_what_is_sampled() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptNames::of(folder.path(), 100_000);
        let name =
            |nth: usize| KeptNames::name(&image("/bin/a", &format!("{nth:04x}")), TableOwner::Root).unwrap();
        for nth in 0..3 {
            assert!(matches!(add_large(&kept, &name(nth)), Kept::Added(_)));
        }
        assert_eq!(add_large(&kept, &name(3)), Kept::NoRoom, "all have been sampled lately");
        sampled(&kept, &name(1), 2 * LATELY);
        sampled(&kept, &name(2), 3 * LATELY);
        assert!(kept.has(&name(2)), "it is sampled again");
        assert!(matches!(add_large(&kept, &name(3)), Kept::Added(_)));
        let has = [0, 1, 2, 3].map(|nth| kept.has(&name(nth)));
        assert_eq!(has, [true, false, true, true]);
        let KeptSize { tables, bytes } = kept.size();
        assert!(tables == 3 && (90_000..100_000).contains(&bytes), "{bytes}");
        assert_eq!(fs::read_dir(&kept.folder).unwrap().count(), 3, "nothing is left of what was refused");
    }

    #[test]
    fn what_nothing_refers_to_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptNames::of(folder.path(), 1 << 20);
        let images = [image("/bin/a", "aa"), image("/bin/b", "bb"), image("/bin/c", "cc")];
        let names: Vec<String> = [TableOwner::Root, TableOwner::User(7), TableOwner::User(8)]
            .iter()
            .zip(&images)
            .map(|(owner, image)| KeptNames::name(image, *owner).unwrap())
            .collect();
        for name in &names {
            add(&kept, name, "f");
        }
        let there = |kept: &KeptNames| -> Vec<bool> {
            names.iter().map(|name| is_whole(&kept.folder.join(name))).collect()
        };
        kept.collect_garbage([].iter(), None, SystemTime::now());
        assert_eq!(there(&kept), [true; 3], "their samples may still be written");
        names.iter().for_each(|name| sampled(&kept, name, 2 * LATELY));
        kept.collect_garbage(
            [&images[0], &image("/bin/x", "bb"), &images[2]].into_iter(),
            None,
            SystemTime::now(),
        );
        assert_eq!(there(&kept), [true, false, true]);
        sampled(&kept, &names[0], 3 * LATELY);
        kept.collect_garbage(images.iter(), Some(60), SystemTime::now());
        assert_eq!(there(&kept), [false, false, true]);
    }

    #[test]
    fn tables_are_merged() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (theirs, ours) = (KeptNames::of(from.path(), 1 << 20), KeptNames::of(to.path(), 1 << 20));
        let (one, two, both) = (image("/bin/a", "aa"), image("/home/b", "bb"), image("/bin/c", "cc"));
        add(&theirs, &KeptNames::name(&one, TableOwner::Root).unwrap(), "one");
        add(&theirs, &KeptNames::name(&two, TableOwner::User(1000)).unwrap(), "two");
        add(&theirs, &KeptNames::name(&both, TableOwner::Root).unwrap(), "theirs");
        add(&ours, &KeptNames::name(&both, TableOwner::Root).unwrap(), "ours");
        ours.merge(&theirs, [&one, &two, &both].into_iter()).unwrap();
        for (image, expected) in [(&one, "one"), (&two, "two"), (&both, "ours")] {
            assert_eq!(found(to.path(), image).as_deref(), Some(expected));
        }
    }
}
