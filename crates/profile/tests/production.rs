//! Costs in production: kept, added up and shown next to what regions are worth.

use crate::synthetic::{Truth, rows};
use profile::UnixSeconds;
use profile::*;
use rusqlite::Connection;

fn row(region: i64, share: f64) -> Production {
    Production {
        session: SessionId::new(1),
        region: RegionId::new(region),
        share,
        samples: (1000.0 * share) as u64,
        since: UnixSeconds(1_790_000_000),
        until: UnixSeconds(1_790_600_000),
        hosts: 3,
    }
}

/// A region that is worth something, and two that are not; all have 1 % of the time in the run.
fn recorded() -> Rows {
    let truth = |name, slope| Truth { name, slope, noise: 0.02, blocks: 40 };
    let mut rows = rows(&[truth("hash.c:1", 0.5), truth("hash.c:2", 0.0), truth("hash.c:3", 0.0)]);
    for samples in &mut rows.samples {
        samples.weight = Nanos::from_millis(90);
    }
    for window in &mut rows.windows {
        window.region_weight = Nanos::from_millis(1);
    }
    rows.production = vec![row(1, 0.001), row(2, 0.31), row(3, 0.001)];
    rows
}

#[test]
fn production_comes_back_and_is_merged() {
    let folder = tempfile::tempdir().unwrap();
    let (one, both) = (folder.path().join("one.db"), folder.path().join("both.db"));
    let rows = recorded();
    let mut to = Recorder::create(&one).unwrap();
    to.add(&rows).unwrap();
    // Again: the new share replaces what is there.
    to.set_production(&[row(3, 0.4)]).unwrap();
    to.set_production(&rows.production[2..]).unwrap();
    to.close().unwrap();
    let read = Recording::open(&one).unwrap().rows().unwrap();
    assert_eq!(read.production, rows.production);

    let mut to = Recorder::create(&both).unwrap();
    to.add(&read).unwrap();
    to.add(&read).unwrap();
    to.close().unwrap();
    let read = Recording::open(&both).unwrap().rows().unwrap();
    let sessions: Vec<i64> = read.production.iter().map(|row| row.session.get()).collect();
    assert_eq!(sessions, [1, 1, 1, 2, 2, 2]);
    assert!(read.production.iter().all(|row| (row.hosts, row.since.0) == (3, 1_790_000_000)));

    // An older layout has no such table.
    let older = "DROP TABLE production; DROP TABLE arrivals; PRAGMA user_version = 2;";
    Connection::open(&one).unwrap().execute_batch(older).unwrap();
    assert_eq!(Recording::open(&one).unwrap().rows().unwrap().production, []);
}

#[test]
fn regions_are_marked_by_cost_and_worth() {
    let marks = |rows: Rows| -> Vec<(String, Option<f64>, Option<Mark>)> {
        let profile = Profile::new(rows, &EstimateOptions::default());
        let mut marks: Vec<_> = profile
            .regions
            .iter()
            .map(|region| (profile.region(region).name.clone(), region.production, region.mark()))
            .collect();
        marks.sort_by(|a, b| a.0.cmp(&b.0));
        marks
    };
    let of = |name: &str, production, mark| (name.to_owned(), production, mark);
    assert_eq!(
        marks(recorded()),
        [
            of("hash.c:1", Some(0.001), Some(Mark::MattersButIsNotHot)),
            of("hash.c:2", Some(0.31), Some(Mark::HotButDoesNotMatter)),
            of("hash.c:3", Some(0.001), None),
        ]
    );
    // Without production the run's own shares count.
    let mut rows = recorded();
    rows.production.clear();
    rows.samples[2].weight = Nanos::from_millis(900);
    for window in rows.windows.iter_mut().filter(|window| window.region == RegionId::new(3)) {
        window.region_weight = Nanos::from_millis(10);
    }
    assert_eq!(
        marks(rows),
        [
            of("hash.c:1", None, Some(Mark::MattersButIsNotHot)),
            of("hash.c:2", None, None),
            of("hash.c:3", None, Some(Mark::HotButDoesNotMatter)),
        ]
    );
}
