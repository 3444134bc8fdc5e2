//! How long answers take, by the number of samples of a thousand machines.

use std::time::Instant;

use anyhow::Result;

use super::databases::{BEGIN, SAMPLES};
use super::{DATABASE, Fleet, Options};
use crate::interval::Interval;

/// Machines.
const MACHINES: u64 = 1000;
/// Rows of a machine and a minute, of which the k-th has a share of 1 / k of the samples.
const ROWS: u64 = 1400;
/// Functions that all machines have together.
const FUNCTIONS: u64 = 5000;

/// What is asked.
const QUESTIONS: [&[&str]; 4] =
    [&["top", "--by", "function"], &["top", "--by", "service,function"], &["diff", "1.0", "1.1"], &["hosts"]];

pub fn run(fleet: &Fleet, options: &Options) -> Result<()> {
    for wanted in &options.samples {
        let minutes = (wanted / (MACHINES * u64::from(SAMPLES))).max(1);
        fleet.init()?;
        make(fleet, minutes);
        let sums = fleet.sql(&format!("SELECT count(), sum(count) FROM {DATABASE}.samples"))?;
        println!(
            "{MACHINES} machines: {:.2e} samples in {:.2e} rows, {:.2} bytes a sample",
            sums[1],
            sums[0],
            fleet.bytes()? / sums[1]
        );
        for words in QUESTIONS {
            let mut times = Vec::new();
            for _ in 0..options.rounds {
                let begin = Instant::now();
                fleet.ask(words)?;
                times.push(begin.elapsed().as_secs_f64());
            }
            let Interval { estimate, low, high } = Interval::of_median(&times);
            println!("  {:<28} {estimate:.2} s [{low:.2}, {high:.2}]", words.join(" "));
        }
    }
    Ok(())
}

/// Makes samples, books and names on the server.
fn make(fleet: &Fleet, minutes: u64) {
    // The sum of 1 / k over all rows is 7.8.
    let first = u64::from(SAMPLES) * 10 / 78;
    let each = MACHINES * ROWS;
    for minute in 0..minutes {
        let time = BEGIN as u64 + 60 * minute;
        fleet.node.ask(&format!(
            "INSERT INTO {DATABASE}.samples SELECT toDateTime({time}), concat('machine-', toString(m)), concat('web-', toString(m)), \
             concat('epoch-', toString(m)), concat('service-', toString(f % 20)), if(m % 2 = 0, '1.0', '1.1'), \
             concat('service-', toString(f % 20)), '{{}}', 'cpu-clock', hex(sipHash64(f % 20)), 64 * f, sipHash128(toString(f)), \
             greatest(1, intDiv({first}, k + 1) + rand() % 3) \
             FROM (SELECT number % {MACHINES} AS m, intDiv(number, {MACHINES}) AS k, (k * 7919 + m * 13) % {FUNCTIONS} AS f \
             FROM numbers({each}))"
        ));
        fleet.node.ask(&format!(
            "INSERT INTO {DATABASE}.books SELECT minute, machine, host, epoch, event, 60000000000, sum(count), sum(count), 0, 0, 0, \
             120000000000, 3000000, 1000000, sum(count) FROM {DATABASE}.samples WHERE minute = toDateTime({time}) \
             GROUP BY minute, machine, host, epoch, event"
        ));
    }
    let same = "machine, host, epoch, service, version, process, labels, event, build, build_offset";
    fleet.node.ask(&format!(
        "INSERT INTO {DATABASE}.hours SELECT toDateTime(intDiv(toUInt32(minute), 3600) * 3600) AS start, {same}, sum(count) \
         FROM {DATABASE}.samples GROUP BY start, {same}"
    ));
    fleet.node.ask(&format!(
        "INSERT INTO {DATABASE}.epochs SELECT concat('epoch-', toString(number)), concat('machine-', toString(number)), \
         concat('web-', toString(number)), '6.1', 2, 'machine', 'stacks', 'simulation', 97, 60000000000, '0.1.0', '{{}}', \
         toDateTime({BEGIN}), now() FROM numbers({MACHINES})"
    ));
    fleet.node.ask(&format!(
        "INSERT INTO {DATABASE}.images SELECT hex(sipHash64(number)), concat('/srv/service-', toString(number)), 'file' FROM numbers(20)"
    ));
    fleet.node.ask(&format!(
        "INSERT INTO {DATABASE}.symbols SELECT hex(sipHash64(number % 20)), 64 * number, \
         concat('[[\"service::function_', toString(intDiv(number, 10)), '\",\"service.rs\",', toString(number % 1000), ']]') FROM numbers({FUNCTIONS})"
    ));
}
