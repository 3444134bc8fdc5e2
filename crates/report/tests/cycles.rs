//! What answers about continuous profiles look like.

use cycles::*;
use profile::{Mark, Verdict};
use report::cycles::*;
use report::terminal::Style;

/// Compares with the file; `UPDATE_GOLDEN=1 cargo test -p whatif-report` writes it anew.
fn golden(file: &str, text: &str) {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "{file} differs; if it should: UPDATE_GOLDEN=1 cargo test -p whatif-report\n{text}"
    );
}

fn heading() -> Heading {
    Heading {
        database: "/var/lib/whatif".to_owned(),
        event: "cpu-clock".to_owned(),
        machines: vec!["build-7".to_owned()],
        cpus: 2,
        since: Some(1_790_000_000),
        until: Some(1_790_014_400),
        time: "2026-09-21 14:13 to 18:13".to_owned(),
        selection: vec!["process \u{1b}[2Jnginx*".to_owned()],
        books: Books {
            expected: 2_793_600,
            stored: 2_700_000,
            unknown: 600,
            lost: 93_000,
            idle: 1_350_000,
            covered_ns: 28_800_000_000_000,
            ..Books::default()
        },
        rate: 93.8,
        asked_rate: 97.0,
        samples: 1_000_000,
        nanos_per_sample: Some(1e7),
        samples_at_a_time: 1.0,
        with_idle: false,
        warnings: vec![Note {
            code: "lost".to_owned(),
            message: "3.3 % of the samples were lost, perhaps most of them in the same code".to_owned(),
            advice: "see when and why: whatif status".to_owned(),
        }],
    }
}

fn row(name: &str, samples: u64, total: u64, worth: Option<Worth>, mark: Option<Mark>) -> Row {
    let value = samples as f64 / 1e6;
    Row {
        name: name.to_owned(),
        image: "/usr/sbin/nginx".to_owned(),
        samples,
        share: Share { value, lo: value - 0.001, hi: value + 0.001 },
        cpu_ns: Some(samples * 10_000_000),
        total: Some(total),
        total_share: Some(total as f64 / 1e6),
        worth,
        mark,
        ..Row::default()
    }
}

fn top() -> Top {
    let worth = |slope: f64, verdict: Verdict, line: Option<&str>| {
        Some(Worth {
            slope,
            lo: Some(slope - 0.05),
            hi: Some(slope + 0.05),
            verdict,
            point: "requests".to_owned(),
            line: line.map(str::to_owned),
            recording: "run.db".to_owned(),
            other_build: line.is_some(),
        })
    };
    Top {
        heading: heading(),
        by: "function".to_owned(),
        by_total: false,
        rows: vec![
            row(
                "inflate_block",
                420_000,
                430_000,
                worth(0.0, Verdict::NoEffect, None),
                Some(Mark::HotButDoesNotMatter),
            ),
            row("parse_header", 120_000, 500_000, worth(0.45, Verdict::Helps, None), None),
            row("evil\u{202e}\nname", 50_000, 50_000, worth(-0.2, Verdict::Hurts, Some("a.c:7")), None),
            row("memcpy", 400, 400, None, None),
        ],
        more: 96,
        not_hot: vec![row(
            "lock_log",
            10,
            900,
            worth(0.3, Verdict::Helps, None),
            Some(Mark::MattersButIsNotHot),
        )],
        recordings: vec!["run.db".to_owned()],
    }
}

#[test]
fn time_off_the_cpu_is_waiting_and_no_cpu_time() {
    let mut top = top();
    (top.heading.event, top.by_total) = ("off-cpu".to_owned(), true);
    let text = top.draw(Style { width: 160, top: 0, ..Style::default() });
    assert!(text.contains("samples, each of 10 ms of waiting; "), "{text}");
    assert!(text.contains("waiting") && !text.contains("CPU time"), "{text}");
    // With all it calls: 500,000 samples.
    let row = text.lines().find(|line| line.contains("parse_header")).unwrap();
    assert!(row.contains("1 h 23 min"), "{row}");
}

#[test]
fn top_in_a_terminal() {
    let text = top().draw(Style::default());
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    golden("cycles-top-80.txt", &text);
    let style = Style { color: true, width: 120, top: 0, ..Style::default() };
    golden("cycles-top-120.txt", &top().draw(style));
}

#[test]
fn top_for_programs() {
    let text = top().json();
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["version"], &json["kind"]), (&1.into(), &"top".into()));
    assert_eq!(json["rows"][0]["mark"], "hot-but-does-not-matter");
    assert_eq!(json["rows"][2]["name"], "evil\u{202e}\nname");
}

/// What a recording says of something that matters.
fn helps() -> Worth {
    Worth {
        slope: 0.45,
        lo: Some(0.4),
        hi: Some(0.5),
        verdict: Verdict::Helps,
        point: "requests".to_owned(),
        line: Some("a.c:11".to_owned()),
        recording: "load.db".to_owned(),
        other_build: true,
    }
}

#[test]
fn differences_in_a_terminal() {
    let share = |value: f64, half: f64| Share { value, lo: value - half, hi: value + half };
    let change = |name: &str, a: f64, b: f64, half: f64, certain: f64| Change {
        name: name.to_owned(),
        image: "/usr/sbin/nginx".to_owned(),
        a: share(a, half),
        b: share(b, half),
        difference: share(b - a, half),
        certain,
        verdict: DifferenceVerdict::of(&share(b - a, half)),
        worth: (name == "work").then(helps),
    };
    let side = |asked: &str, spans| Side { asked: asked.to_owned(), heading: heading(), spans, span_s: 300 };
    let diff = Difference {
        a: side("2d..1d", 48),
        b: side("1d..now", 0),
        by: "function".to_owned(),
        per: "share".to_owned(),
        changes: vec![change("work", 0.1, 0.2, 0.02, 0.08), change("rest", 0.5, 0.49, 0.03, 0.0)],
        more: 0,
        conditions: None,
    };
    golden("cycles-diff-80.txt", &diff.draw(Style::default()));
}

#[test]
fn instructions_without_samples_are_left_out_where_there_are_many() {
    let instruction = |nth: u64| Instruction {
        address: 0x1000 + 4 * nth,
        samples: if nth == 5 { 90 } else { 0 },
        text: "nop".to_owned(),
        file: Some("/src/a.c".to_owned()),
        line: Some(if nth < 4 { 10 } else { 11 }),
        ..Instruction::default()
    };
    let code = Code {
        image: "/usr/sbin/nginx".to_owned(),
        name: "work(int)".to_owned(),
        own: 70,
        samples: 90,
        worth: Some(helps()),
        instructions: (0..40).map(instruction).collect(),
        ..Code::default()
    };
    let annotation =
        Annotation { heading: heading(), function: "work".to_owned(), code: vec![code], all: false };
    let text = annotation.draw(Style::default());
    assert!(text.contains("instructions without samples (--all)"), "{text}");
    golden("cycles-annotate-80.txt", &text);
    assert!(!Annotation { all: true, ..annotation }.draw(Style::default()).contains("--all"));
}
