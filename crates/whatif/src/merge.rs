//! `whatif db merge`: recordings of the same build add up. (Databases are added to another: `continuous::merge`.)
//!
//! sample → delay → experiment → **record** → profile → report

use crate::{cli, continuous};
use anyhow::{Context as _, Result, bail, ensure};
use profile::{Builds, Recorder, Rows, counted};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// `whatif db merge`: with a file to write, of recordings.
pub fn merge(args: &cli::MergeEither) -> Result<()> {
    let (first, others) = args.paths.split_first().expect("two or more are required");
    if let Some(output) = &args.output {
        return recordings(&args.paths, output);
    }
    if let Some(file) = args.paths.iter().find(|path| path.is_file()) {
        bail!(
            "{} is a file, not the folder of a database; to add recordings up, say where to: whatif db merge -o FILE …",
            file.display()
        );
    }
    continuous::merge(first, others)
}

/// Writes a new recording with the runs of all `files`.
fn recordings(files: &[PathBuf], output: &Path) -> Result<()> {
    ensure!(
        !output.exists(),
        "{} exists already; give the name of a new file with -o FILE",
        output.display()
    );
    let mut all: Vec<Rows> = Vec::new();
    let mut builds = Builds::default();
    let mut runs = HashSet::new();
    let mut first_program: Option<String> = None;
    for path in files {
        let rows = profile::coz::rows_of_either(path)?;
        if let Some(other) = builds.add(rows.sessions.iter().flat_map(|session| &session.images)) {
            bail!(
                "{} is of another build of {} ({}; {} before it): results of different builds do not add up\n  \
                 see what is different with: whatif compare {} {}",
                path.display(),
                other.path,
                other.new,
                other.known,
                files[0].display(),
                path.display()
            );
        }
        for session in &rows.sessions {
            let start = &session.start;
            let program = start.program_name();
            let first = first_program.get_or_insert_with(|| program.to_owned());
            ensure!(
                first == program,
                "{} is of another program ({program}, not {first}): results of different programs do not add up",
                path.display()
            );
            let (started, host, seed) = start.run();
            ensure!(
                runs.insert((started, host.to_owned(), seed)),
                "{} has a run that is in another of the files too: it would count twice; leave one of them out",
                path.display()
            );
        }
        all.push(rows);
    }
    write(output, &all).with_context(|| format!("cannot write {}", output.display()))?;
    let sessions: usize = all.iter().map(|rows| rows.sessions.len()).sum();
    let windows: usize = all.iter().map(|rows| rows.windows.len()).sum();
    let (sessions, windows) = (counted(sessions as u64, "run"), counted(windows as u64, "window"));
    println!("{sessions} with {windows}, in {}", output.display());
    Ok(())
}

/// All of it, or nothing: the file gets its name when it is complete.
pub fn write(output: &Path, all: &[Rows]) -> Result<()> {
    let folder = match output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let unfinished = tempfile::Builder::new().prefix(".whatif-").tempdir_in(folder)?;
    let path = unfinished.path().join("merged.db");
    let mut to = Recorder::create(&path)?;
    all.iter().try_for_each(|rows| to.add(rows))?;
    to.close()?;
    std::fs::rename(&path, output)?;
    // What was said to be there is there after a power failure.
    if let Ok(folder) = std::fs::File::open(folder) {
        folder.sync_all()?;
    }
    Ok(())
}
