//! `whatif db gc`: what is old is removed or thinned out.

use super::cli;
use super::trial::{Trial, remove_abandoned};
use crate::show;
use anyhow::{Context as _, Result, bail, ensure};
use archive::{Removed, Retention, Store, UnixSeconds};
use cycles::time;
use jiff::Timestamp;
use profile::Nanos;

/// `whatif db gc`.
pub fn gc(args: &cli::Gc) -> Result<()> {
    let retention = retention(args)?;
    ensure!(
        retention != Retention::default(),
        "nothing says what is old: give --keep 30d, --coarse-after 7d or --most 2G, or several of them"
    );
    // Whether there is one at all; what is removed does not depend on what is read.
    let (folder, _) = cycles::open(args.folder.db.as_deref())?;
    let now = UnixSeconds(Timestamp::now().as_second());
    if args.dry_run {
        // The same, done to a second set of names for the same segments: so it is what would be done.
        let trial = Trial::new(&folder)?;
        let mut store = Store::open(trial.folder())?;
        let removed = store.collect_garbage(&retention, now, &mut || ())?;
        return show::print(&said("would remove", &removed, store.bytes()?));
    }
    let mut store = Store::open(&folder).with_context(|| {
        format!(
            "{} cannot be written; while the collector runs it removes what is old by itself: give it the same options (whatif \
             collect --keep, --coarse-after, --max-disk)",
            folder.display()
        )
    })?;
    remove_abandoned(&folder);
    let removed = store.collect_garbage(&retention, now, &mut || ())?;
    show::print(&said("removed", &removed, store.bytes()?))
}

fn said(what: &str, removed: &Removed, left: u64) -> String {
    let Removed { segments, samples, bytes } = removed;
    format!(
        "{what} {segments} segments with {samples} samples: {} less, {} left\n",
        megabytes(*bytes),
        megabytes(left)
    )
}

fn retention(args: &cli::Gc) -> Result<Retention> {
    let age = |text: &Option<String>, option: &str| -> Result<Option<Nanos>> {
        let Some(text) = text else { return Ok(None) };
        match time::age(text).filter(|age| *age > Nanos::ZERO) {
            Some(age) => Ok(Some(age)),
            None => {
                bail!("'{text}' is no age; give a number and a unit, as in {option} 30d, 12h, 90min or 2w")
            }
        }
    };
    let most_bytes = match &args.most {
        None => None,
        Some(text) => match bytes(text) {
            Some(bytes) => Some(bytes),
            None => bail!("'{text}' is no size; give a number and a unit, as in --most 2G or 500M"),
        },
    };
    Ok(Retention {
        keep: age(&args.keep, "--keep")?,
        coarse_after: age(&args.coarse_after, "--coarse-after")?,
        most_coarsened: None,
        most_bytes,
    })
}

/// A number and a unit: k, M, G, T; decimal, as disks are sold.
pub fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim().trim_end_matches('B') {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * unit) as u64)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("2G", Some(2_000_000_000)),
            ("500MB", Some(500_000_000)),
            ("1.5k", Some(1500)),
            ("7", Some(7)),
            ("2X", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
