//! Every target builds, runs, prints its rate, and refuses what it does not know.

use std::process::Command;

use targets::{TARGETS, build, path};

fn rate(output: &str, point: &str) -> Option<f64> {
    let rate = output.trim_end().strip_prefix("rate ")?.strip_prefix(point)?;
    rate.trim().parse().ok()
}

#[test]
fn every_target_prints_a_rate() {
    build().unwrap();
    for target in TARGETS {
        let shrunk = target.regions.iter().map(|region| format!("{region}=0.5"));
        for variant in shrunk.chain(["scale=0.5".to_owned()]) {
            let output = Command::new(path(target.name).unwrap())
                .args(target.arguments)
                .arg(variant)
                .arg("seconds=0.3")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{}: {output:?}", target.name);
            let rate = rate(&text, target.point);
            assert!(rate.is_some_and(|rate| rate > 0.0), "{}: {text}", target.name);
        }
        let unknown = Command::new(path(target.name).unwrap()).arg("Q=1").output().unwrap();
        assert_eq!(unknown.status.code(), Some(2), "{}", target.name);
    }
    assert!(Command::new(path("start_true").unwrap()).status().unwrap().success());
}

/// Compilers merge functions that do the same, and inline or clone others (in release builds).
#[test]
fn every_region_is_a_function_of_its_own() {
    build().unwrap();
    for target in TARGETS {
        let output = Command::new("nm").arg("-C").arg(path(target.name).unwrap()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for region in target.regions {
            let is_region = |line: &&str| {
                let name = line.split_whitespace().nth(2).unwrap_or_default();
                let name = name.trim_end_matches("()");
                name == *region || name == format!("{}::{region}", target.program)
            };
            let found = text.lines().filter(is_region).count();
            assert_eq!(found, 1, "{} {region}", target.name);
        }
    }
}
