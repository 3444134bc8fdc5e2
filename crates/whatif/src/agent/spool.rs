//! Spool: recordings of sessions, in the folder `agent` of the database as long as they are written, and then in `recordings`; bounded, the oldest removed first, and counted: those that a
//! server has, and those that none has. What is being written takes room, and is never removed; what others have put there is not the agent's to remove.

use anyhow::{Context as _, Result};
use archive::OF_AGENT;
use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use storage::{BESIDE, INDEX, LOG, beside};

/// Where they are written.
const UNFINISHED: &str = "agent";
/// As many characters of a service's name are kept.
const LONGEST: usize = 80;

/// See the module.
#[derive(Debug)]
pub struct Spool {
    unfinished: PathBuf,
    finished: PathBuf,
    most_bytes: u64,
    /// What sessions that are under way write.
    begun: BTreeSet<PathBuf>,
    pub gone: Gone,
}

/// What was removed to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Recordings that a server has.
    pub sent: Size,
    /// Those that none has.
    pub unsent: Size,
}

/// Where finished recordings are, by the folder of the database.
pub fn finished(folder: &Path) -> PathBuf {
    folder.join("recordings")
}

/// What is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub files: u64,
    pub bytes: u64,
}

impl Spool {
    /// In the folder of a database. What an agent that was killed has not finished counts as far as it was written.
    ///
    /// # Errors
    /// The folders cannot be made.
    pub fn open(folder: &Path, most_bytes: u64, gone: Gone) -> Result<Self> {
        let (unfinished, finished) = (folder.join(UNFINISHED), finished(folder));
        for folder in [&unfinished, &finished] {
            let made = DirBuilder::new().recursive(true).mode(0o750).create(folder);
            made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let mut spool = Self { unfinished, finished, most_bytes, begun: BTreeSet::new(), gone };
        for path in recordings(&spool.unfinished) {
            spool.finish(&path);
        }
        Ok(spool)
    }

    /// Where a session of a service is to be written.
    pub fn begin(&mut self, service: &str, random: &mut fastrand::Rng) -> PathBuf {
        let name: String = service
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._@-".contains(c) { c } else { '_' })
            .take(LONGEST)
            .collect();
        let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
        // Of the system's randomness: two agents with one seed have different names all the same.
        let id = fastrand::u64(..) ^ random.u64(..);
        let path = self.unfinished.join(format!("{OF_AGENT}{name}-{time}-{id:016x}.db"));
        self.begun.insert(path.clone());
        path
    }

    /// A session has ended: its recording is kept unless it certainly holds nothing. Where it is.
    pub fn finish(&mut self, path: &Path) -> Option<PathBuf> {
        self.begun.remove(path);
        let rows = profile::Recording::open(path).and_then(|recording| recording.rows());
        if rows.is_ok_and(|rows| rows.sessions.is_empty()) || !path.exists() {
            for end in [""].into_iter().chain(BESIDE) {
                let _ = std::fs::remove_file(beside(path, end));
            }
            return None;
        }
        let to = self.finished.join(path.file_name()?);
        // What a session that was killed has written last is in the log: it goes first, so that no recording is without it.
        let log = beside(path, LOG);
        if log.exists() && std::fs::rename(&log, beside(&to, LOG)).is_err() {
            return None;
        }
        let _ = std::fs::remove_file(beside(path, INDEX));
        if std::fs::rename(path, &to).is_err() {
            return None;
        }
        for end in ["", LOG] {
            let _ = std::fs::set_permissions(beside(&to, end), std::fs::Permissions::from_mode(0o640));
        }
        self.bound();
        Some(to)
    }

    /// Removes the oldest recordings that are not being written if there are too many.
    pub fn bound(&mut self) {
        self.bound_by(fleet::is_sent);
    }

    /// The same, where `is_sent` knows which of them a server has.
    fn bound_by(&mut self, is_sent: impl Fn(&Path) -> bool) {
        let mut all: Vec<(SystemTime, PathBuf, u64)> = self
            .recordings()
            .filter(|path| !self.begun.contains(path))
            .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, bytes_of(&path), path)))
            .map(|(time, bytes, path)| (time, path, bytes))
            .collect();
        all.sort();
        let mut bytes = self.size().bytes;
        for (_, path, size) in all {
            if bytes <= self.most_bytes {
                break;
            }
            let sum = if is_sent(&path) { &mut self.gone.sent } else { &mut self.gone.unsent };
            if std::fs::remove_file(&path).is_ok() {
                for end in BESIDE {
                    let _ = std::fs::remove_file(beside(&path, end));
                }
                bytes = bytes.saturating_sub(size);
                *sum = Size { files: sum.files + 1, bytes: sum.bytes + size };
            }
        }
    }

    /// What is in it now.
    pub fn size(&self) -> Size {
        let sizes = self.recordings().map(|path| bytes_of(&path));
        sizes.fold(Size::default(), |sum, bytes| Size { files: sum.files + 1, bytes: sum.bytes + bytes })
    }

    fn recordings(&self) -> impl Iterator<Item = PathBuf> + use<> {
        recordings(&self.finished).into_iter().chain(recordings(&self.unfinished))
    }

    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }
}

/// The bytes of a recording, with what is beside it.
fn bytes_of(path: &Path) -> u64 {
    let ends = [""].into_iter().chain(BESIDE);
    ends.filter_map(|end| Some(beside(path, end).metadata().ok()?.len())).sum()
}

/// Recordings of agents in a folder.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(OF_AGENT) && name.ends_with(".db")
    };
    entries.map(|entry| entry.path()).filter(is_ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Nanos, Recording, SessionStart};

    /// A recording of one session without experiments.
    fn record(path: &Path) {
        let mut recorder = Recording::create(path).unwrap();
        let start = SessionStart {
            started: Nanos::from_millis(1),
            host: "web-1".into(),
            options: "{}".into(),
            ..SessionStart::default()
        };
        recorder.begin_session(&start).unwrap();
        recorder.close().unwrap();
    }

    #[test]
    fn the_oldest_go_first_and_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut spool = Spool::open(folder.path(), 1 << 40, Gone::default()).unwrap();
        let foreign = folder.path().join("recordings/by-hand.db");
        std::fs::write(&foreign, "someone's").unwrap();
        let mut kept = Vec::new();
        for nth in 0..4 {
            let path = spool.begin("shop/api @1", &mut random);
            record(&path);
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 + nth);
            std::fs::File::options().append(true).open(&path).unwrap().set_modified(at).unwrap();
            kept.push(spool.finish(&path).unwrap());
        }
        assert!(kept[0].file_name().unwrap().to_string_lossy().starts_with("agent-shop_api_@1-20"));
        let Size { files, bytes } = spool.size();
        assert_eq!(files, 4);
        let of_one = bytes / 4;
        // Opening may change when a file was changed: the order of names is that of time as well.
        spool.most_bytes = 2 * of_one + 1;
        spool.bound();
        let unsent = Size { files: 2, bytes: 2 * of_one };
        assert_eq!((spool.size().files, spool.gone), (2, Gone { unsent, ..Gone::default() }));
        assert!(spool.size().bytes <= spool.most_bytes());
        assert_eq!(kept.iter().map(|path| path.exists()).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(foreign.exists(), "what others have put there stays");
    }

    #[test]
    fn what_holds_nothing_is_not_kept_and_what_was_not_finished_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut spool = Spool::open(folder.path(), 1 << 40, Gone::default()).unwrap();
        let empty = spool.begin("shop", &mut random);
        drop(Recording::create(&empty).unwrap());
        assert_eq!((spool.finish(&empty), empty.exists()), (None, false));
        let never = spool.begin("shop", &mut random);
        assert_eq!(spool.finish(&never), None, "it has never begun");
        // An agent that was killed.
        let left = spool.begin("shop", &mut random);
        record(&left);
        let gone = Gone { sent: Size { files: 7, bytes: 70 }, ..Gone::default() };
        let spool = Spool::open(folder.path(), 1 << 40, gone).unwrap();
        assert_eq!((spool.size().files, spool.gone, left.exists()), (1, gone, false));
    }

    #[test]
    fn what_was_sent_is_counted_apart() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut spool = Spool::open(folder.path(), 1 << 40, Gone::default()).unwrap();
        for service in ["old", "new", "new"] {
            let path = spool.begin(service, &mut random);
            record(&path);
            spool.finish(&path).unwrap();
        }
        let of_one = spool.size().bytes / 3;
        spool.most_bytes = 0;
        spool.bound_by(|path| path.to_string_lossy().contains("agent-old"));
        let (sent, unsent) = (Size { files: 1, bytes: of_one }, Size { files: 2, bytes: 2 * of_one });
        assert_eq!((spool.size(), spool.gone), (Size::default(), Gone { sent, unsent }));
    }

    #[test]
    fn what_is_being_written_takes_room_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut spool = Spool::open(folder.path(), 1 << 40, Gone::default()).unwrap();
        let finished = spool.begin("shop", &mut random);
        record(&finished);
        let finished = spool.finish(&finished).unwrap();
        let of_one = spool.size().bytes;
        // What a killed session has left, which could not be finished, is older than what is written now.
        let left = folder.path().join("agent/agent-shop-20260101-000000-0.db");
        let now = spool.begin("shop", &mut random);
        for path in [&left, &now] {
            std::fs::write(path, vec![0; 10_000]).unwrap();
            std::fs::write(beside(path, LOG), vec![0; 90_000]).unwrap();
        }
        let begin = SystemTime::UNIX_EPOCH;
        for (path, age) in [(&left, 1), (&now, 2), (&finished, 3)] {
            let at = begin + std::time::Duration::from_secs(age);
            std::fs::File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
        }
        assert_eq!(spool.size(), Size { files: 3, bytes: of_one + 200_000 });
        let exist = || [&left, &now, &finished].map(|path| path.exists());
        spool.most_bytes = of_one + 100_000;
        spool.bound();
        assert_eq!((exist(), spool.size().bytes), ([false, true, true], of_one + 100_000));
        assert!(!beside(&left, LOG).exists());
        spool.most_bytes -= 1;
        spool.bound();
        assert_eq!((exist(), spool.size().bytes), ([false, true, false], 100_000));
        // It alone is too large: it stays until it is finished.
        spool.most_bytes = 1;
        spool.bound();
        assert_eq!((exist(), spool.gone.unsent.files), ([false, true, false], 2));
    }
}
