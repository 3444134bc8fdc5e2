//! Recordings, and databases of continuous profiles.

use archive::{By, Database, Selection};
use profile::{EstimateOptions, Profile, Recording};
use std::path::Path;
use tempfile::TempDir;

/// The catalogue and the one segment that the corpus has: one of them is as it should be while the other is read.
const CATALOGUE: &[u8] = include_bytes!("../corpus/catalogue/whole");
const SEGMENT: &[u8] = include_bytes!("../corpus/segment/whole");

/// A fuzzer tries other rows rather than the same ones so often.
const RESAMPLES: usize = if cfg!(feature = "guided") { 20 } else { 1000 };

/// A recording, and all that is made of it.
pub fn recording(bytes: &[u8]) {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("recording.db");
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let Ok(rows) = Recording::open(&path).and_then(|recording| recording.rows()) else { return };
    let profile = Profile::new(rows, &EstimateOptions { resamples: RESAMPLES, ..EstimateOptions::default() });
    report::json::render(&profile);
    report::markdown::render(&profile);
    report::csv::render(&profile);
    report::pprof::render(&profile);
    report::firefox::render(&profile);
    report::folded::render(&profile);
    report::coz::render_jsonl(&profile);
}

/// A catalogue, beside a segment that is as it should be.
pub fn catalogue(bytes: &[u8]) {
    database(bytes, SEGMENT);
}

/// A segment, below a catalogue that is as it should be.
pub fn segment(bytes: &[u8]) {
    database(CATALOGUE, bytes);
}

fn database(catalogue: &[u8], segment: &[u8]) {
    let Some(folder) = folder() else { return };
    // The length of the one file, then both.
    let Some((length, files)) = segment.split_first_chunk() else { return };
    let (stacks, samples) = files.split_at(files.len().min(u32::from_le_bytes(*length) as usize));
    if write(folder.path(), [catalogue, stacks, samples]).is_ok() {
        query(folder.path());
    }
}

/// The names of segments have no checksums, so that those need not be guessed.
fn write(folder: &Path, [catalogue, stacks, samples]: [&[u8]; 3]) -> std::io::Result<()> {
    let segments = folder.join("segments");
    std::fs::create_dir(&segments)?;
    std::fs::write(folder.join("catalogue.db"), catalogue)?;
    std::fs::write(segments.join("a.stacks.parquet"), stacks)?;
    std::fs::write(segments.join("a.samples.parquet"), samples)
}

fn query(folder: &Path) {
    let Ok(db) = Database::open(folder) else { return };
    let all = Selection::default();
    let _ = (db.machines(), db.epochs(), db.labels(), db.events(), db.span());
    let _ = (db.books(&all), db.resolution(&all), db.leaves(&all), db.tree(&all), db.by_label(&all));
    for by in [By::Epoch, By::Machine, By::Label, By::Time(60)] {
        let _ = db.parts(&all, by);
    }
    let images: Vec<_> = db.images().unwrap_or_default().into_keys().collect();
    let _ = db.symbols(&images);
}

fn folder() -> Option<TempDir> {
    tempfile::tempdir_in(crate::memory()).ok()
}
