//! Readers and the writer do not keep one another from anything, however many there are.

use crate::expected::{batch, setting};
use archive::{Database, MachineInfo, Offset, Selection, Store, Symbol, UnixSeconds};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use storage::Error;

const READERS: usize = 20;
const FLUSHES: i64 = 60;
const START: i64 = 20_000 * 86_400;

#[test]
fn twenty_readers_in_a_loop_do_not_lock_the_writer_out() {
    let folder = tempfile::tempdir().unwrap();
    let random = &mut fastrand::Rng::with_seed(1);
    let mut store = Store::open(folder.path()).unwrap();
    let machine = store.machine(&MachineInfo { key: "a".into(), ..MachineInfo::default() }).unwrap();
    let epoch = store.begin_epoch(machine, &setting(), None, UnixSeconds(START)).unwrap();
    let first = batch(&mut store, UnixSeconds(START), random);
    store.flush(epoch, &first).unwrap();
    let (stop, read, wrong) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for nth in 0..READERS {
            let (folder, stop, read, wrong) = (folder.path(), &stop, &read, &wrong);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match answer(folder, nth) {
                        Ok(()) => drop(read.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => {
                            wrong.lock().unwrap().push(error);
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        // Until all of it is written while they read, and they have read as much.
        let mut minute = 0;
        while !stop.load(Ordering::Relaxed)
            && (minute < FLUSHES || read.load(Ordering::Relaxed) < 2 * READERS)
        {
            minute += 1;
            let next = batch(&mut store, UnixSeconds(START + 60 * minute), random);
            let written = store.flush(epoch, &next).map(drop);
            let written =
                written.and_then(|()| store.compact(UnixSeconds(START + 60 * minute), &mut || ()).map(drop));
            if let Err(error) = written {
                wrong.lock().unwrap().push(error);
                stop.store(true, Ordering::Relaxed);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(wrong.lock().unwrap().is_empty(), "{:?}", wrong.lock().unwrap());
    // The log has become part of the catalogue, although there was always a reader.
    let next = batch(&mut store, UnixSeconds(START + 864_000), random);
    store.flush(epoch, &next).unwrap();
    let log = std::fs::metadata(folder.path().join("catalogue.db-wal")).map_or(0, |log| log.len());
    assert!(log < 8 << 20, "{log} bytes");
}

/// What a tool does: opens, reads samples, books and names. Every third keeps names as well, which is the one thing that readers write.
fn answer(folder: &Path, nth: usize) -> Result<(), Error> {
    let database = Database::open(folder)?;
    let leaves = database.leaves(&Selection::default())?;
    assert!(!leaves.is_empty());
    database.books(&Selection::default())?;
    database.symbols(&[leaves[0].image])?;
    if nth.is_multiple_of(3) {
        let symbol = Symbol { function: format!("function {nth}").into(), ..Symbol::default() };
        database.remember_symbols(leaves[0].image, &[(Offset(nth as u64), vec![symbol])], 1);
    }
    Ok(())
}
