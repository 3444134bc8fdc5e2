use super::*;
use std::time::{Duration, Instant};
use wire::Nanos;

const SETUP: Setup = Setup { stacks: true, kernel: true, ring_bytes: 1 << 18 };

fn opened(scope: &Scope) -> Option<Vec<Cpu>> {
    let open = |number| {
        let mut cpu = Cpu::open(number, scope, SETUP)?;
        cpu.add(Source::named("cpu-clock").unwrap(), 1_000_000, scope)?;
        io::Result::Ok(cpu)
    };
    match crate::cpu::numbers().into_iter().map(open).collect() {
        Ok(cpus) => Some(cpus),
        Err(error) => {
            eprintln!("skipped: CPUs cannot be sampled here: {error}");
            None
        }
    }
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::black_box(0);
    }
}

/// All samples of `pid`, and all records that are not samples.
fn drain(cpus: &mut [Cpu], pid: u32) -> (usize, Vec<String>) {
    let (mut samples, mut others) = (0, Vec::new());
    for cpu in cpus {
        let ids: Vec<u64> = cpu.ids(0).collect();
        let ring = cpu.ring();
        ring.look();
        let mut last = Nanos::ZERO;
        while let Some(record) = ring.record() {
            match record {
                Record::Sample(sample) => {
                    assert!(ids.contains(&sample.id));
                    assert!(!sample.callchain.is_empty());
                    samples += usize::from(sample.pid == pid);
                }
                Record::Map { path, .. } => others.push(format!("map {}", String::from_utf8_lossy(path))),
                Record::Name { executes, name, .. } => {
                    others.push(format!("name {} {executes}", String::from_utf8_lossy(name)));
                }
                record => others.push(format!("{record:?}")),
            }
            let time = ring.time().unwrap();
            // A millisecond: an interrupt within a record.
            assert!(time + Nanos(1_000_000) >= last, "{time:?} after {last:?}");
            last = time;
            ring.next();
        }
        ring.release();
    }
    (samples, others)
}

#[test]
fn a_machine_is_sampled_with_what_its_processes_do() {
    let Some(mut cpus) = opened(&Scope::Machine) else { return };
    let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
    let pid = std::process::id();
    child.wait().unwrap();
    burn(Duration::from_millis(300));
    let before = cpus.iter().map(|cpu| cpu.reading(0).count).sum::<u64>();
    assert!(before >= 250_000_000, "{before} ns");
    let (samples, others) = drain(&mut cpus, pid);
    assert!(samples > 50, "{samples} samples of ourselves");
    assert!(others.iter().any(|other| other == "name true true"), "{others:?}");
    assert!(others.iter().any(|other| other.starts_with("map /") && other.ends_with("/true")), "{others:?}");
    wait(&cpus, Duration::from_millis(1));
}

#[test]
fn own_threads_are_sampled_with_what_they_start() {
    let scope = Scope::Threads(vec![own_thread()]);
    let Some(mut cpus) = opened(&scope) else { return };
    std::thread::spawn(|| burn(Duration::from_millis(300))).join().unwrap();
    let (samples, others) = drain(&mut cpus, std::process::id());
    assert!(samples > 50, "{samples} samples of ourselves");
    assert!(others.iter().any(|other| other.starts_with("Fork")), "{others:?}");
}

#[test]
fn a_ring_goes_round_and_round_and_says_what_it_lost() {
    let setup = Setup { ring_bytes: 1 << 13, ..SETUP };
    let number = crate::cpu::numbers()[0];
    let mut cpu = match Cpu::open(number, &Scope::Machine, setup) {
        Ok(cpu) => cpu,
        Err(error) => return eprintln!("skipped: CPUs cannot be sampled here: {error}"),
    };
    cpu.add(Source::named("cpu-clock").unwrap(), 200_000, &Scope::Machine).unwrap();
    let mut seen = 0;
    for _ in 0..20 {
        burn(Duration::from_millis(20));
        let ring = cpu.ring();
        ring.look();
        while ring.record().is_some() {
            seen += 1;
            ring.next();
        }
        ring.release();
    }
    let reading = cpu.reading(0);
    assert!(seen > 100, "{seen} records");
    // Forced: nobody reads.
    burn(Duration::from_millis(400));
    assert!(cpu.reading(0).lost > reading.lost, "{reading:?}");
}
