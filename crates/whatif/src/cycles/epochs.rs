//! `whatif epochs`: the spans of time with one configuration.

use super::{answer, cli, query, time};
use anyhow::{Context as _, Result, bail, ensure};
use profile::continuous::{Selection, UnixSeconds};
use report::cycles::{EpochRow, Epochs};

/// `whatif epochs`.
pub fn epochs(args: &cli::Epochs) -> Result<()> {
    let (folder, db) = query::open(args.folder.db.as_deref())?;
    let epochs = db.epochs()?;
    if let Some(name) = &args.name {
        let Some(newest) = epochs.last() else {
            bail!("there is no epoch to name: the collector has not run yet; start it with: whatif collect");
        };
        check_name(name)?;
        db.name_epoch(newest.id, name).with_context(|| {
            format!("cannot write to {}; run this as the user of the collector", folder.display())
        })?;
        return crate::show::print(&format!(
            "epoch {} is now called {}\n",
            newest.id.get(),
            profile::printable(name)
        ));
    }
    let machines = db.machines()?;
    let events = db.events()?;
    let mut rows = Vec::new();
    for epoch in epochs {
        let (mut samples, mut lost, mut covered_ns) = (0, 0, 0);
        let mut last = epoch.started;
        for (nth, event) in events.keys().enumerate() {
            let selection =
                Selection { epochs: Some(vec![epoch.id]), event: Some(*event), ..Selection::default() };
            let mut of_event = 0;
            for (_, books) in db.books(&selection)? {
                samples += books.stored + books.unknown;
                lost += books.lost;
                of_event += books.covered.get();
                last = last.max(UnixSeconds(books.start.0 + (books.length.get() / 1_000_000_000) as i64));
            }
            if nth == 0 || covered_ns == 0 {
                covered_ns = of_event;
            }
        }
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
            samples,
            lost,
            covered_ns,
        });

/// Says why an epoch cannot have this name: what asks for one could also mean something else.
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
    }
    answer(&Epochs { database: folder.to_string_lossy().into_owned(), epochs: rows }, args.json)
}
