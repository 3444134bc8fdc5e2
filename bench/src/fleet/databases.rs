//! Databases of simulated machines, as collectors write them.

use std::path::Path;

use anyhow::Result;
use archive::{
    Batch, Books, CodeImage, Count, ImageKind, Label, MachineInfo, Node, Offset, Setting, Store, UnixSeconds,
};
use fastrand::Rng;
use profile::Nanos;

/// The begin of all, at the begin of an hour.
pub const BEGIN: i64 = 1_767_225_600;
/// Samples of a minute: two CPUs, 97 times a second.
pub const SAMPLES: u32 = 2 * 97 * 60;
/// Stacks that a machine has.
pub const STACKS: u32 = 4000;
/// Frames of each.
const DEPTH: u64 = 16;
/// Services of a machine.
const SERVICES: u32 = 3;

/// Writes one with the epochs of so many machines.
pub fn write(folder: &Path, machines: u32, minutes: u32) -> Result<()> {
    let mut random = Rng::with_seed(5);
    let mut store = Store::open(folder)?;
    let setting = Setting {
        scope: "machine".into(),
        mode: "stacks".into(),
        events: vec!["cpu-clock".into()],
        sampler: "simulation".into(),
        rate_hz: 97.0,
        resolution: Nanos::new(60_000_000_000),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Setting::default()
    };
    for nth in 0..machines {
        let info = MachineInfo {
            key: format!("machine-{nth}"),
            host: format!("web-{nth}"),
            kernel: "6.1".into(),
            cpus: 2,
        };
        let machine = store.machine(&info)?;
        let epoch = store.begin_epoch(machine, &setting, None, UnixSeconds(BEGIN))?;
        for minute in 0..minutes {
            let time = UnixSeconds(BEGIN + 60 * i64::from(minute));
            let batch = one_minute(&mut store, time, &mut random)?;
            store.flush(epoch, &batch)?;
        }
        store.end_epoch(epoch, UnixSeconds(BEGIN + 60 * i64::from(minutes)))?;
    }
    Ok(())
}

/// Few stacks have most of the samples: the k-th has a share of 1 / k.
fn one_minute(store: &mut Store, time: UnixSeconds, random: &mut Rng) -> Result<Batch> {
    let event = store.event("cpu-clock")?;
    let mut counts = vec![0; STACKS as usize];
    for _ in 0..SAMPLES {
        let nth = f64::from(STACKS).powf(random.f64()) as usize;
        counts[nth.min(STACKS as usize) - 1] += 1;
    }
    let mut batch = Batch::default();
    for (nth, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let service = nth as u32 % SERVICES;
        let image = store.image(&CodeImage {
            path: format!("/srv/service-{service}"),
            build_id: format!("{service:040x}"),
            kind: ImageKind::File,
        })?;
        let label = store.label(&Label {
            process: format!("service-{service}"),
            cgroup: format!("/system.slice/service-{service}.service"),
            ..Label::default()
        })?;
        let mut parent = Node::NONE;
        for depth in 0..DEPTH {
            // Stacks have their outer frames in common.
            let of = nth as u64 >> (DEPTH - 1 - depth).min(12);
            let offset = Offset(0x1000 * (depth + 1) + 64 * of);
            batch.nodes.push(Node { parent, image, offset });
            parent = batch.nodes.len() as u32 - 1;
        }
        batch.counts.push(Count { time, label, event, node: parent, count });
    }
    batch.books.push(Books {
        event,
        start: time,
        length: Nanos::new(60_000_000_000),
        expected: SAMPLES.into(),
        stored: SAMPLES.into(),
        unknown: 0,
        lost: 0,
        idle: 0,
        covered: Nanos::new(120_000_000_000),
        own_cpu: Nanos::new(3_000_000),
        kernel_cpu: Nanos::new(1_000_000),
        resident: 1 << 20,
        squares: 0,
    });
    Ok(batch)
}
