//! Source: the recording, read again and estimated again whenever there is something new in it.

use crate::show;
use anyhow::Result;
use profile::coz;
use profile::{Error, EstimateOptions, Nanos, Profile, Recording, Rows};
use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Time between two looks at the file.
const LOOK: Duration = Duration::from_secs(1);
/// How many seconds the file is left alone for each second that an estimate took: that used a CPU which the program may want.
const SHARE: u32 = 25;
/// Intervals that are about to shrink need not be as smooth as those that are kept.
const RESAMPLES: usize = 200;

/// What is new.
pub enum News {
    /// There is nothing to show: why not, and what begins it.
    Nothing(String),
    /// The file was written, but has not been read again.
    Written(SystemTime),
    Snapshot(Box<Snapshot>),
    /// What is shown may be old, and why.
    Trouble(String),
}

/// What is known at one moment.
pub struct Snapshot {
    pub path: PathBuf,
    pub profile: Profile,
    /// How many experiments there are, in all runs.
    pub experiments: usize,
    /// Up to when the last run was measured.
    pub seen: Nanos,
    /// When the file was written.
    pub written: SystemTime,
}

impl Snapshot {
    pub fn new(path: PathBuf, rows: Rows, written: SystemTime) -> Snapshot {
        let last = rows.sessions.last().map(|session| session.id);
        let blocks: HashSet<_> = rows.windows.iter().map(|window| (window.session, window.block)).collect();
        let of_last = rows.windows.iter().filter(|window| Some(window.session) == last);
        let seen = of_last.map(|window| window.end()).max().unwrap_or(Nanos::ZERO);
        let ended = rows.sessions.iter().all(|session| session.end.is_some());
        let options = match ended {
            true => EstimateOptions::default(), // as the report has it
            false => EstimateOptions { resamples: RESAMPLES, ..EstimateOptions::default() },
        };
        let profile = Profile::new(rows, &options).read_from(&path);
        Snapshot { path, profile, experiments: blocks.len(), seen, written }
    }
}

/// Whether the file at `path` can ever be watched: one that is not there, or empty, may become a recording.
pub fn check(path: &Path) -> Result<()> {
    if coz::is_profile_of_coz(path) {
        return Ok(());
    }
    match Recording::open(path) {
        Ok(_) | Err(Error::NotFound { .. } | Error::Empty { .. } | Error::Locked { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reports news, in a thread of its own, until `tell` returns false. `named`: the file; else the newest here, once there is one.
pub fn start(named: Option<PathBuf>, tell: impl Fn(News) -> bool + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name("recording".into()).spawn(move || {
        let mut source = Source { named, seen: None, read: None, rest_until: Instant::now() };
        loop {
            let news = source.refresh();
            if news.is_some_and(|news| !tell(news)) {
                break;
            }
            std::thread::sleep(LOOK);
        }
    })?;
    Ok(())
}

struct Source {
    named: Option<PathBuf>,
    /// What the file looked like at the last look.
    seen: Option<Stamp>,
    /// What the file looked like when it was last read.
    read: Option<Stamp>,
    rest_until: Instant,
}

impl Source {
    fn refresh(&mut self) -> Option<News> {
        let path =
            match self.named.as_deref().map_or_else(|| show::recording(None), |path| Ok(path.to_owned())) {
                Ok(path) => path,
                Err(error) => return Some(News::Nothing(format!("{error:#}"))),
            };
        let stamp = Stamp::of(&path);
        let Some(now) = stamp else {
            let shown = path.display();
            return Some(match self.read {
                Some(_) => News::Trouble(format!("{shown} is gone")),
                None => News::Nothing(format!(
                    "{shown} is not there yet: whatif run -o {shown} -- PROGRAM, in another terminal, begins it"
                )),
            });
        };
        let changed = self.seen.replace(now) != stamp;
        if self.read == stamp {
            return None;
        }
        let begin = Instant::now();
        if begin < self.rest_until {
            return changed.then_some(News::Written(now.written));
        }
        let news = match coz::rows_of_either(&path) {
            Ok(rows) => {
                // Whatever comes is in the file that was named, or found first.
                self.named = Some(path.clone());
                self.read = stamp;
                News::Snapshot(Box::new(Snapshot::new(path, rows, now.written)))
            }
            Err(coz::Unreadable::Recording(Error::Empty { .. } | Error::NotFound { .. }))
                if self.read.is_none() =>
            {
                News::Nothing(format!("{} is empty so far: its run has just begun", path.display()))
            }
            Err(error) => News::Trouble(error.to_string()),
        };
        self.rest_until = Instant::now() + begin.elapsed() * SHARE;
        Some(news)
    }
}

/// What a file and its log look like from outside: another stamp, another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64, i64, i64),
    log: Option<(u64, u64, i64, i64)>,
    written: SystemTime,
}

impl Stamp {
    /// `None` without a file.
    fn of(path: &Path) -> Option<Stamp> {
        let log = storage::beside(path, storage::LOG);
        let (file, log) = (std::fs::metadata(path).ok()?, std::fs::metadata(log).ok());
        let part = |meta: &Metadata| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        let time = |meta: &Metadata| meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let written = log.as_ref().map_or(time(&file), |log| time(log).max(time(&file)));
        Some(Stamp { file: part(&file), log: log.as_ref().map(part), written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &Path) -> Source {
        Source { named: Some(path.to_owned()), seen: None, read: None, rest_until: Instant::now() }
    }

    fn nothing(news: Option<News>) -> String {
        match news {
            Some(News::Nothing(why)) => why,
            _ => panic!("there is something"),
        }
    }

    #[test]
    fn a_recording_is_read_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut source = source(&path);
        assert!(nothing(source.refresh()).contains("whatif run -o"));
        std::fs::write(&path, "").unwrap();
        assert!(nothing(source.refresh()).contains("empty so far"));
        let mut recorder = Recording::create(&path).unwrap();
        let mut sessions = Vec::new();
        for _ in 0..2 {
            recorder.begin_session(&profile::SessionStart::default()).unwrap();
            // However long the last one took.
            source.rest_until = Instant::now();
            match source.refresh() {
                Some(News::Snapshot(snapshot)) => sessions.push(snapshot.profile.rows.sessions.len()),
                _ => panic!("it was not read"),
            }
            assert!(source.refresh().is_none(), "nothing is new");
        }
        assert_eq!(sessions, [1, 2]);
        // What comes while it is left alone is read later.
        recorder.begin_session(&profile::SessionStart::default()).unwrap();
        source.rest_until = Instant::now() + Duration::from_secs(1000);
        assert!(matches!(source.refresh(), Some(News::Written(_))));
        assert!(source.refresh().is_none());
        drop(recorder);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(source.refresh(), Some(News::Trouble(why)) if why.ends_with("is gone")));
    }

    #[test]
    fn what_can_never_be_watched_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        assert!(check(&folder.path().join("later.db")).is_ok());
        assert!(check(&path("empty.db", "")).is_ok());
        assert!(
            check(&path(
                "a.coz",
                "startup\ttime=1\nexperiment\tselected=a.c:1\tspeedup=0.1\tduration=1\tselected-samples=1\n"
            ))
            .is_ok()
        );
        assert!(check(&path("letter.txt", "Dear reader, this is not a recording at all.")).is_err());
        assert!(check(folder.path()).is_err());
    }
}
