//! Experiments with other rules. They print tables, and are run by hand.

use crate::program::*;
use crate::rules::*;
use crate::{SPEEDUPS, error, gain, random};

/// Mean absolute error over all speedups, and the errors at 50 and at 100 %.
fn cell(program: &Program, rules: &Rules) -> String {
    let errors = SPEEDUPS.map(|percent| error(program, rules, percent));
    let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
    format!("{mean:6.1} {:+6.1} {:+6.1}", errors[1], errors[3])
}

fn row(name: &str, cells: impl Iterator<Item = String>) {
    println!("{name:28} |{}", cells.map(|cell| format!(" {cell:20} |")).collect::<String>());
}

/// Rules 7 and 8: what a wait for a CPU is worth, and whether a pause keeps the CPU.
#[test]
#[ignore = "prints a table"]
fn waiting_for_a_cpu() {
    let stages =
        |cpus, selected| Program { variation: 0.3, ..pipeline(cpus, [3 * MS, 4 * MS, 3 * MS], selected) };
    let programs = [
        ("pool of 2", pool(2)),
        ("pool of 4", pool(4)),
        ("pool of 8", pool(8)),
        ("saturated A", stages(2, 0)),
        ("saturated B", stages(2, 1)),
        ("saturated C", stages(2, 2)),
        ("unsaturated A", stages(4, 0)),
        ("unsaturated B", stages(4, 1)),
    ];
    for (period, woken_first) in [(20 * US, false), (MS, false), (MS, true)] {
        println!("\nsamples every {} us, woken first: {woken_first}", period / US);
        let programs = programs.clone().map(|(name, program)| (name, Program { woken_first, ..program }));
        row("", programs.iter().map(|(name, _)| name.to_string()));
        let truth = |program: &Program| SPEEDUPS.map(|s| gain(program, None, s).unwrap().round());
        row("truth", programs.iter().map(|(_, program)| format!("{:?}", truth(program))));
        for (queue, carry) in [
            (Queue::Nothing, true),
            (Queue::Nothing, false),
            (Queue::Growth, false),
            (Queue::Level, false),
            (Queue::Holder, false),
        ] {
            for pause in [Pause::Asleep, Pause::OnCpu, Pause::IfWanted] {
                let rules = Rules { period, queue, carry, pause, ..Rules::RUNTIME };
                let name = format!("{queue:?}{}, {pause:?}", if carry { " (carry)" } else { "" });
                row(&name, programs.iter().map(|(_, program)| cell(program, &rules)));
            }
        }
    }
}

/// What the time between samples costs, and what would help.
#[test]
#[ignore = "prints a table"]
fn granularity() {
    let variants = [
        ("growth", Woken::Growth, Boundary::Ignored),
        ("waker", Woken::Waker, Boundary::Ignored),
        ("growth, learned", Woken::Growth, Boundary::Learned),
        ("waker, learned", Woken::Waker, Boundary::Learned),
        ("growth, known", Woken::Growth, Boundary::Known),
        ("waker, known", Woken::Waker, Boundary::Known),
    ];
    row("samples every 1000 us", variants.iter().map(|(name, _, _)| name.to_string()));
    for phase in [100 * US, 300 * US, MS, 3 * MS, 30 * MS] {
        let two_thirds = phase * 2 / 3;
        let mixed = vec![Lock(0), region(phase / 2), other(phase / 2), Unlock(0), other(two_thirds), Visit];
        for (name, program) in [
            ("mutex, inside", mutex(region(phase), other(two_thirds))),
            ("mutex, outside", mutex(other(phase), region(two_thirds))),
            ("mutex, half of the inside", Program::new(2, vec![mixed.clone(), mixed])),
            ("barrier, longer", fork_join(phase, two_thirds)),
            ("barrier, shorter", fork_join(two_thirds, phase)),
            ("pipeline, bottleneck", pipeline(4, [phase, phase * 4 / 3, phase], 1)),
        ] {
            let cells = variants.iter().map(|(_, woken, boundary)| {
                let rules = Rules { woken: *woken, boundary: *boundary, ..Rules::RUNTIME };
                cell(&program, &rules)
            });
            row(&format!("{name}, {} us", phase / US), cells);
        }
    }
}

/// How all that does on random programs.
#[test]
#[ignore = "prints a table"]
fn random_programs() {
    let real = Rules { virtual_slices: false, ..Rules::THEORY };
    let slow = Rules { period: MS, ..real };
    let runtime = Rules::RUNTIME;
    let before = Rules { queue: Queue::Nothing, pause: Pause::Asleep, ..runtime };
    for (name, rules) in [
        ("theory", Rules::THEORY),
        ("with real time slices", real),
        ("and samples every ms", slow),
        ("and learned credit", Rules { boundary: Boundary::Learned, ..slow }),
        ("and known credit", Rules { boundary: Boundary::Known, ..slow }),
        ("runtime", runtime),
        ("with samples every 20 us", Rules { period: 20 * US, ..runtime }),
        ("always keeping the CPU", Rules { pause: Pause::OnCpu, ..runtime }),
        ("and not more than waited", Rules { pause: Pause::OnCpu, woken: Woken::Waker, ..runtime }),
        (
            "and learned credit",
            Rules { pause: Pause::OnCpu, woken: Woken::Waker, boundary: Boundary::Learned, ..runtime },
        ),
        ("paying the world on a CPU", Rules { world: World::AtOnce, ..runtime }),
        ("neither rule 7 nor 8", before),
        ("the same without carrying", Rules { carry: false, ..before }),
    ] {
        let (errors, bias) = random::errors(160, &rules);
        let quantile = |part: f64| errors[(errors.len() as f64 * part) as usize];
        println!(
            "{name:28} bias {bias:+6.2}  median {:5.2}  75 % {:5.2}  90 % {:5.2}  95 % {:6.2}",
            quantile(0.5),
            quantile(0.75),
            quantile(0.9),
            quantile(0.95)
        );
    }
}
