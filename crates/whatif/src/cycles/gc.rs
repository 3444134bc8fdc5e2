//! `whatif gc`: what is old is removed or thinned out.

use super::{cli, query, time};
use crate::show;
use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use profile::Nanos;
use profile::continuous::{Database, Retention, Selection, Store, UnixSeconds};
use std::path::Path;

/// `whatif gc`.
pub fn gc(args: &cli::Gc) -> Result<()> {
    let retention = retention(args)?;
    ensure!(
        retention != Retention::default(),
        "nothing says what is old: give --keep 30d, --coarse-after 7d or --most 2G, or several of them"
    );
    let (folder, db) = query::open(args.folder.db.as_deref())?;
    let now = UnixSeconds(Timestamp::now().as_second());
    if args.dry_run {
        return show::print(&would(&db, &folder, &retention, now)?);
    }
    drop(db);
    let mut store = Store::open(&folder).with_context(|| {
        format!(
            "{} cannot be written; while the collector runs it removes what is old by itself: give it the same options (whatif \
             collect --keep, --coarse-after, --max-disk)",
            folder.display()
        )
    })?;
    let removed = store.collect_garbage(&retention, now)?;
    show::print(&format!(
        "removed {} segments with {} samples: {} less, {} left\n",
        removed.segments,
        removed.samples,
        megabytes(removed.bytes),
        megabytes(store.bytes()?)
    ))
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

/// What would be done, as far as the books tell.
fn would(db: &Database, folder: &Path, retention: &Retention, now: UnixSeconds) -> Result<String> {
    let mut text = String::new();
    let before = |age: Nanos| UnixSeconds(now.0 - (age.get() / 1_000_000_000) as i64);
    let samples = |until: UnixSeconds| -> Result<u64> {
        let mut samples = 0;
        for event in db.events()?.keys() {
            let time = Some(UnixSeconds(i64::MIN)..until);
            let selection = Selection { time, event: Some(*event), ..Selection::default() };
            samples +=
                db.books(&selection)?.iter().map(|(_, books)| books.stored + books.unknown).sum::<u64>();
        }
        Ok(samples)
    };
    if let Some(age) = retention.keep {
        let until = before(age);
        text +=
            &format!("would remove segments before {}: {} samples\n", time::local(until), samples(until)?);
    }
    if let Some(age) = retention.coarse_after {
        let until = before(age);
        text += &format!(
            "would keep apart only hours before {}: {} samples\n",
            time::local(until),
            samples(until)?
        );
    }
    if let Some(most) = retention.most_bytes {
        let have = size(folder);
        text += &match have.saturating_sub(most) {
            0 => format!("{} are used, no more than {}\n", megabytes(have), megabytes(most)),
            more => format!("{} are used: would remove the oldest {}\n", megabytes(have), megabytes(more)),
        };
    }
    Ok(text)
}

/// Bytes of all files in a folder and those below it.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size(&entry.path()),
        _ => entry.metadata().map_or(0, |data| data.len()),
    };
    entries.flatten().map(of).sum()
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
