//! Sender of runs: what recordings hold and the server has not, run by run.
//!
//! What is sent counts once, whenever the sender or the server is killed:
//!
//! * A batch is a run that is over. All of its windows are one block in one partition on one shard, which a server takes whole or not at all.
//! * The row of the run itself comes last, so a run that is there has all of its windows. It replaces itself (`ReplacingMergeTree`), and so do regions.
//! * Before a run is sent that is not noted as sent, the server is asked whether it has it; and before its windows are, whether it is still at work on a request for them, and then whether
//!   it has some.
//! * If windows come twice all the same, each is there twice with one place in its run, and counts once: see `run_rows::read_run`.

use crate::error::Error;
use crate::evidence;
use crate::recordings::{File, Stamp, files};
use crate::row_binary::RowBinary;
use crate::run::{Held, Named, Run};
use crate::run_rows;
use crate::sender::Pushed;
use crate::sent::Sent;
use crate::store::Store;
use crate::tables::{REGIONS, RUNS, WINDOWS};
use archive::UnixSeconds;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Sends recordings to one fleet.
pub struct RunSender {
    paths: Vec<PathBuf>,
    named: Named,
    /// The note in each folder; one of them may be that of a database there.
    notes: HashMap<PathBuf, Rc<Sent>>,
    /// Files of which the server has everything, and what they were like then.
    done: HashMap<PathBuf, Stamp>,
    /// Files of which something was said.
    told: BTreeSet<PathBuf>,
}

impl RunSender {
    /// Of these files and folders. `note`: the note in the folder of a database, and that folder.
    pub fn new(paths: &[PathBuf], named: &Named, note: Option<(&Path, &Rc<Sent>)>) -> RunSender {
        let note = note.and_then(|(folder, sent)| Some((folder.canonicalize().ok()?, Rc::clone(sent))));
        RunSender {
            paths: paths.to_owned(),
            named: named.clone(),
            notes: note.into_iter().collect(),
            done: HashMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// Sends all runs that are over and not noted; `after` is called after each recording, `say` gets what is wrong with a file in a folder, once. What was sent before an error stays sent.
    pub fn once(
        &mut self,
        store: &Store,
        after: &mut dyn FnMut(Pushed),
        say: &mut dyn FnMut(&str),
    ) -> Result<Pushed, Error> {
        let mut all = Pushed::default();
        for file in files(&self.paths)? {
            let stamp = file.stamp();
            if self.done.get(&file.path) == Some(&stamp) {
                continue;
            }
            match self.file(store, &file) {
                Ok(pushed) => {
                    if pushed.waiting == 0 {
                        self.done.insert(file.path.clone(), stamp);
                    }
                    all.add(pushed);
                    after(pushed);
                }
                // A damaged file keeps no other from being sent.
                Err(error @ Error::Database(_)) if !file.is_named => {
                    if self.told.insert(file.path.clone()) {
                        say(&format!("{error}"));
                    }
                    all.refused += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    fn file(&mut self, store: &Store, file: &File) -> Result<Pushed, Error> {
        let mut pushed = Pushed::default();
        // What is no recording needs no note beside it.
        if !file.is_recording()? {
            return Ok(pushed);
        }
        let note = self.note(&file.folder())?;
        let known = note.runs(&store.fleet)?;
        let Held { runs, unfinished, foreign } = file.read(&self.named, &known)?;
        (pushed.waiting, pushed.refused) = (unfinished as u64, foreign as u64);
        let uids: Vec<&str> = runs.iter().map(|run| run.uid.as_str()).collect();
        let there = store.runs_there(&uids)?;
        for run in &runs {
            if there.contains(&run.uid) || !send(store, run)? {
                pushed.runs_found += 1;
            } else {
                pushed.runs += 1;
                pushed.windows += run.rows.windows.len() as u64;
            }
            note.note_run(&store.fleet, &run.uid, run.rows.windows.len() as u64)?;
        }
        Ok(pushed)
    }

    fn note(&mut self, folder: &Path) -> Result<Rc<Sent>, Error> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if let Some(known) = self.notes.get(&folder) {
            return Ok(Rc::clone(known));
        }
        let note = Rc::new(Sent::open(&folder)?);
        self.notes.insert(folder, Rc::clone(&note));
        Ok(note)
    }
}

/// Sends a run, unless the server has its windows already; whether it had not.
fn send(store: &Store, run: &Run) -> Result<bool, Error> {
    let name = |table: &str| format!("{}-{table}", evidence::prefix(&run.uid));
    let insert = |table: &str, rows: RowBinary| store.server.insert(table, &name(table), &rows);
    // First this: what ends in between is found by the second question.
    evidence::is_idle(store, &run.uid)?;
    let is_new = !store.windows_there(&run.uid)?;
    insert(REGIONS, run_rows::regions(run))?;
    if is_new {
        insert(WINDOWS, run_rows::windows(run))?;
    }
    let now = UnixSeconds(jiff::Timestamp::now().as_second());
    insert(RUNS, run_rows::run(run, now))?;
    Ok(is_new)
}
