//! `whatif db epochs`: the spans of time with one configuration.

use super::{arguments, query, time};
use crate::{EpochRow, Epochs};
use anyhow::{Context as _, Result, bail, ensure};
use archive::{Books, EpochId, Selection};
use std::collections::BTreeMap;

/// `whatif db epochs --name`: gives the newest epoch a name.
///
/// # Errors
/// Where there is none, where the name cannot be one, and where the database cannot be written.
pub fn name_newest(args: &arguments::Epochs, name: &str) -> Result<EpochId> {
    let (folder, db) = query::open(args.folder.db.as_deref())?;
    let Some(newest) = db.epochs()?.pop() else {
        bail!("there is no epoch to name: the collector has not run yet; start it with: whatif collect");
    };
    check_name(name)?;
    let failed = || format!("cannot write to {}; run this as the user of the collector", folder.display());
    db.name_epoch(newest.id, name).with_context(failed)?;
    Ok(newest.id)
}

/// `whatif db epochs`.
pub fn epochs(args: &arguments::Epochs) -> Result<Epochs> {
    let (folder, db) = query::open(args.folder.db.as_deref())?;
    let epochs = db.epochs()?;
    let machines = db.machines()?;
    let mut books: BTreeMap<EpochId, Vec<Books>> = BTreeMap::new();
    for event in db.events()?.into_keys() {
        for (epoch, of) in db.books(&Selection { event: Some(event), ..Selection::default() })? {
            books.entry(epoch).or_default().push(of);
        }
    }
    let mut rows = Vec::new();
    for epoch in epochs {
        let books = books.remove(&epoch.id).unwrap_or_default();
        let last = books.iter().map(Books::end).max().unwrap_or(epoch.started).max(epoch.started);
        // Of the first event that has any: the others are of the same time.
        let by_event = books.chunk_by(|a, b| a.event == b.event);
        let mut covered = by_event.map(|of| of.iter().map(|of| of.covered.get()).sum());
        let covered_ns = covered.find(|covered| *covered > 0).unwrap_or(0);
        let setting = epoch.setting;
        rows.push(EpochRow {
            epoch: epoch.id.get(),
            name: epoch.name,
            machine: machines.get(&epoch.machine).map(|machine| machine.host.clone()).unwrap_or_default(),
            started: epoch.started.0,
            ended: epoch.ended.map(|ended| ended.0),
            time: time::span(epoch.started, epoch.ended.unwrap_or(last)),
            events: setting.events,
            sampler: setting.sampler,
            rate_hz: setting.rate_hz,
            mode: setting.mode,
            scope: setting.scope,
            samples: books.iter().map(|of| of.stored + of.unknown).sum(),
            lost: books.iter().map(|of| of.lost).sum(),
            covered_ns,
        });
    }
    Ok(Epochs { database: folder.to_string_lossy().into_owned(), epochs: rows })
}

/// Refuses a name that an epoch cannot have: an option that takes an epoch would read it as something else.
pub fn check_name(name: &str) -> Result<()> {
    ensure!(
        !name.is_empty()
            && name.parse::<i64>().is_err()
            && !name.contains(['/', '\n'])
            && !name.contains(".."),
        "'{}' cannot be the name of an epoch: give one that is no number, folder or span of time",
        profile::printable(name)
    );
    Ok(())
}
