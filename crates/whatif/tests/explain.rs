//! `whatif report --explain`, on a recording whose truth is known.

use crate::support::{Ended, Sandbox, run};
use crate::synthetic::{Truth, record, rows};

fn explain(sandbox: &Sandbox, arguments: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.arg("report").arg(sandbox.recording()).args(arguments);
    run(command)
}

#[test]
fn a_region_is_explained() {
    let sandbox = Sandbox::new();
    let truth = |name, slope| Truth { name, slope, noise: 0.02, blocks: 20 };
    record(&sandbox.recording(), &rows(&[truth("hash.c:88", 0.5), truth("hash.c:90", 0.0)]));

    let shown = explain(&sandbox, &["--explain", "c:88"]).assert_code(0);
    assert!(shown.stdout.starts_with("What is known about hash.c:88\n"), "{}", shown.stdout);
    for part in ["requests (throughput)\n", "slope = Σ s·(v − u) / Σ s²·v = ", "\nBooks", "\nMeasured by\n"]
    {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }

    let shown = explain(&sandbox, &["--explain", "hash.c:88", "--json"]).assert_code(0);
    let report: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let explained = &report["explained"][0];
    assert_eq!(explained["blocks"].as_array().unwrap().len(), 20);
    let part = |name| explained["working"][name].as_f64().unwrap();
    let slope = report["estimate"]["points"][0]["slope"].as_f64().unwrap();
    assert!((part("slope_over") / part("slope_under") - slope).abs() < 1e-9, "{report:#}");

    let several = explain(&sandbox, &["--explain", "hash"]).assert_code(2);
    assert!(several.stderr.contains("2 regions have `hash`"), "{}", several.stderr);
    assert!(several.stderr.contains("\n  hash.c:88\n  hash.c:90\n"), "{}", several.stderr);
    let none = explain(&sandbox, &["--explain", "parse"]).assert_code(2);
    assert!(none.stderr.contains("no region that was tried has `parse`"), "{}", none.stderr);
    assert!(none.stdout.is_empty(), "{}", none.stdout);
}
