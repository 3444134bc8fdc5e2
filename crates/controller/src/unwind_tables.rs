//! What there is to know of mapped code and takes its time, so that samples are not kept waiting: a thread of its own makes
//! unwind tables, which say where the caller of code is, for the images that samples fall into (code without frame pointers, which is most code of
//! distributions and of Rust), and looks for futex calls that no function announces.

use crate::futex_code;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use symbols::Image;
use wire::unwind::{Caller, Row, UnwindRule};
use wire::{Address, SharedMemory};

/// The code of an image in the process.
#[derive(Clone, Debug)]
pub struct Code {
    pub path: PathBuf,
    /// Where its mapping starts.
    pub start: u64,
    pub end: u64,
    /// How many bytes from the beginning of the file the mapping starts.
    pub offset: u64,
    /// The file itself, whatever is called like it later.
    pub file: kernel::maps::FileId,
    /// Whether what is called like it by now is another file.
    pub deleted: bool,
}

/// What the thread has to do.
enum Job {
    LookInto(Code),
    Learn(Code),
    /// The code at this address has been unmapped.
    Forget(u64),
}

/// Makes tables, one after the other.
#[derive(Debug)]
pub struct UnwindTables {
    jobs: Sender<Job>,
}

impl UnwindTables {
    pub fn new(memory: &'static SharedMemory) -> Self {
        let (jobs, work) = channel();
        // It ends with the sender.
        let started = std::thread::Builder::new().name("tables".into()).spawn(move || {
            // The thread that handles samples goes first.
            let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
            work_off(memory, &work);
        });
        if let Err(error) = started {
            kernel::say!(
                "whatif: no thread could be had to prepare unwinding ({error}), so callers may be missing; raise the limit on \
                 processes (ulimit -u), or compile with -fno-omit-frame-pointer"
            );
        }
        Self { jobs }
    }

    /// Whether this code calls the futex by itself will be known soon.
    pub fn look_into(&self, code: Code) {
        let _ = self.jobs.send(Job::LookInto(code));
    }

    /// The callers of this code will be known soon.
    pub fn learn(&self, code: Code) {
        let _ = self.jobs.send(Job::Learn(code));
    }

    /// The code at `start` has been unmapped.
    pub fn forget(&self, start: u64) {
        let _ = self.jobs.send(Job::Forget(start));
    }
}

fn work_off(memory: &SharedMemory, work: &Receiver<Job>) {
    while let Ok(job) = work.recv() {
        match job {
            Job::Forget(start) => memory.unwind.retire(Address(start)),
            Job::LookInto(code) => {
                let known = &memory.header.inline_futex;
                if known.load(Relaxed) == 0
                    && futex_code::is_in(&code.path, code.offset, code.end - code.start)
                {
                    known.store(1, Relaxed);
                }
            }
            Job::Learn(code) => learn(memory, &code),
        }
    }
}

fn learn(memory: &SharedMemory, code: &Code) {
    let Some((image, rows)) = table(code) else { return };
    let Some(bias) = image.bias(code.start, symbols::FileOffset(code.offset)) else { return };
    // Where nothing is known, frame pointers do as they would without a table.
    if rows.iter().any(|row| !row.is_unknown()) {
        memory.unwind.add((Address(code.start), Address(code.end)), Address(bias), &rows);
    }
}

type Table = (Arc<Image>, Arc<Vec<Row>>);

/// The file of code; what was read of it for a table is read once.
pub fn image(code: &Code) -> Option<Arc<Image>> {
    table(code).map(|(image, _)| image)
}

/// The rows of a file; what one run has made, the next ones find.
fn table(code: &Code) -> Option<Table> {
    static MADE: Mutex<Option<HashMap<kernel::maps::FileId, Option<Table>>>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    if let Some(table) = made.get(&code.file) {
        return table.clone();
    }
    let table = Image::open(&code.path).ok().map(|image| {
        let rows = rows(&image);
        (Arc::new(image), Arc::new(rows))
    });
    made.insert(code.file, table.clone());
    table
}

/// In the file's own addresses, as far as 32 bits go.
fn rows(image: &Image) -> Vec<Row> {
    let rule = |rule: symbols::UnwindRule| UnwindRule {
        from_frame_pointer: rule.from_frame_pointer,
        offset: rule.offset.into(),
        saved: rule.saved.map(u64::from),
    };
    let caller = |caller: symbols::Caller| match caller {
        symbols::Caller::Nobody => Caller::Nobody,
        symbols::Caller::By(by) => Caller::By(rule(by)),
        _ => Caller::Unknown,
    };
    image.unwind_rules().into_iter().map(|(at, of)| Row::new(at, caller(of))).collect()
}
