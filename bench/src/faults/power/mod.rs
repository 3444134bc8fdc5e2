//! Power: it fails after each thing that a program does to its files. What may then be on the disk is rebuilt and opened: nothing is
//! corrupt, and nothing is lost that had been said to be kept.

mod catalogue;
mod disk;
mod image;
mod kept;
mod log;
mod recording;

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use self::disk::{Disk, State, Survival};
use self::kept::{Content, Kept};
use self::log::Event;
use super::harness::Harness;

/// Findings that are printed of each kind.
const MOST_PRINTED: usize = 5;

pub fn run(harness: &Harness, whatif: &Path, witness: &Path, seed: u64) -> Result<usize> {
    println!(
        "{:<34} {:>6} {:>6} {:>8} {:<16} {:>8}  findings",
        "the power fails in", "done", "synced", "promised", "survives", "states"
    );
    let mut findings = 0;
    let folder = tempfile::tempdir()?;
    for what in ["whatif run", "whatif run, a second time"] {
        let mut command = Command::new(whatif);
        command.env("XDG_CACHE_HOME", folder.path().join("cache"));
        command
            .arg("run")
            .arg("-o")
            .arg(folder.path().join("recording.db"))
            .arg("--")
            .arg(witness)
            .arg("2500");
        let kept = recording::Kept { whatif, witness, begun_with: RefCell::default() };
        findings += interrupt(what, harness, &command, folder.path(), &kept, seed)?;
    }
    let folder = tempfile::tempdir()?;
    // The second one merges what the first one has written.
    for what in ["whatif collect", "whatif collect, a second time"] {
        let mut command = Command::new(whatif);
        command.args(["collect", "--quiet", "--interval", "1", "--rate", "97", "--duration", "4", "--db"]);
        command.arg(folder.path().join("db"));
        findings += interrupt(what, harness, &command, folder.path(), &catalogue::Kept, seed)?;
    }
    Ok(findings + image::run(harness, whatif)?)
}

/// Runs a command, and looks at all that a power failure may leave of what it does in `folder`.
fn interrupt(
    what: &str,
    harness: &Harness,
    command: &Command,
    folder: &Path,
    kept: &dyn Kept,
    seed: u64,
) -> Result<usize> {
    let mut disk = Disk::of(folder)?;
    let report = tempfile::NamedTempFile::new()?;
    let ended = harness.log(folder, command, report.path())?;
    let events = log::read(&std::fs::read(report.path())?, folder)?;
    ensure!(!events.is_empty(), "{what} did nothing: {}", ended.stderr);
    let random = &mut fastrand::Rng::with_seed(seed);
    let mut opened = Opened { kept, known: HashMap::new() };
    let mut tally: Vec<(Survival, usize, Vec<String>)> =
        Survival::EACH.into_iter().map(|survival| (survival, 0, Vec::new())).collect();
    let mut promised = opened.content(&disk.state(Survival::All, random))?;
    let mut promises = 0;
    for (nth, event) in events.iter().enumerate() {
        disk.apply(event)?;
        let whole = opened.content(&disk.state(Survival::All, random));
        let whole = whole.with_context(|| format!("after {nth} events, nothing lost ({})", said(event)))?;
        if kept.promises(event) {
            promises += usize::from(promised != whole);
            promised.clone_from(&whole);
        }
        for (survival, states, found) in &mut tally {
            let tears = matches!(survival, Survival::Torn | Survival::TornBackwards);
            if tears && !disk.has_written_last() {
                continue;
            }
            let state = disk.state(*survival, random);
            let judged = opened.content(&state).and_then(|content| {
                let is_between =
                    promised.iter().zip(&content).zip(&whole).all(|((a, b), c)| a <= b && b <= c);
                ensure!(is_between, "there is {content:?}; kept should be {promised:?} of {whole:?}");
                Ok(())
            });
            *states += 1;
            if let Err(problem) = judged {
                found.push(format!("after {nth} events, {}: {problem:#}", said(event)));
            }
        }
    }
    let synced = events.iter().filter(|event| matches!(event, Event::Sync(_))).count();
    let mut findings = 0;
    for (nth, (survival, states, found)) in tally.iter().enumerate() {
        let head = format!("{what:<34} {:>6} {synced:>6} {promises:>8}", events.len());
        let head = if nth == 0 { head } else { " ".repeat(head.len()) };
        println!("{head} {:<16} {states:>8}  {}", survival.name(), found.len());
        found.iter().take(MOST_PRINTED).for_each(|found| println!("    {found}"));
        findings += found.len();
    }
    Ok(findings)
}

/// An event in few words.
fn said(event: &Event) -> String {
    match event {
        Event::Write { path, offset, bytes } => {
            format!("writing {} at {offset} of {}", bytes.len(), path.display())
        }
        event => format!("{event:?}"),
    }
}

/// What has been opened already, by the hash of its files.
struct Opened<'a> {
    kept: &'a dyn Kept,
    known: HashMap<u64, Result<Content, String>>,
}

impl Opened<'_> {
    fn content(&mut self, state: &State) -> Result<Content> {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        let open = || -> Result<Content> {
            let folder = tempfile::tempdir()?;
            disk::write(state, folder.path())?;
            self.kept.open(folder.path())
        };
        let known = self.known.entry(hasher.finish());
        known
            .or_insert_with(|| open().map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(anyhow::Error::msg)
    }
}
