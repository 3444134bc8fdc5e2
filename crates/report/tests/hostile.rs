//! Names that were chosen to break reports.

#[path = "../../profile/tests/synthetic/mod.rs"]
mod synthetic;

use profile::*;
use report::{coz, json, terminal};
use synthetic::{Truth, rows};

const HOSTILE: &str = "a\tb\nc\"d'e\\f\r\u{1b}[2J\u{7f}\u{9b}31m\u{202e}g\0h\u{2028}=x</script>,大き";

fn profile() -> Profile {
    let mut rows = rows(&[Truth { name: "hash.c:88", slope: 0.5, noise: 0.02, blocks: 20 }]);
    let start = &mut rows.sessions[0].start;
    for text in [&mut start.program, &mut start.host, &mut start.sampler, &mut start.arguments[0]] {
        *text = HOSTILE.into();
    }
    start.options = HOSTILE.into();
    let region = rows.regions.get_mut(&RegionId::new(1)).unwrap();
    region.kind = RegionKind::Function;
    (region.name, region.file, region.function) =
        (HOSTILE.into(), Some(HOSTILE.into()), Some(HOSTILE.into()));
    rows.points.get_mut(&PointId::new(1)).unwrap().name = HOSTILE.into();
    let warning = Warning { code: HOSTILE.into(), message: HOSTILE.into(), advice: HOSTILE.into() };
    rows.warnings.push((SessionId::new(1), warning));
    rows.snippets.insert(RegionId::new(1), Snippet { first_line: 1, text: HOSTILE.into() });
    Profile::new(rows, &EstimateOptions::default())
}

fn assert_harmless(text: &str) {
    for c in text.chars().filter(|c| !matches!(c, '\n' | '\t')) {
        assert!(matches!(printable(&c.to_string()), std::borrow::Cow::Borrowed(_)), "{c:?} in {text}");
    }
}

#[test]
fn the_terminal_is_not_moved() {
    for width in [1, 60, 80, 200] {
        let text = terminal::render(&profile(), terminal::Style { width, ..Default::default() });
        assert_harmless(&text);
        assert!(!text.contains('\t'));
        let profile = profile();
        let explanation = profile.explain("大き").unwrap();
        let text =
            terminal::render_explanation(&explanation, terminal::Style { width, ..Default::default() });
        assert_harmless(&text);
        assert!(!text.contains('\t'));
    }
}

#[test]
fn json_keeps_the_names_and_parses() {
    let text = json::render(&profile());
    assert_harmless(&text);
    let explained = json::render_explanation(&profile().explain(HOSTILE).unwrap());
    assert_harmless(&explained);
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    assert_eq!((&explained["name"], &explained["explained"][0]["point"]), (&HOSTILE.into(), &HOSTILE.into()));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    for name in [
        &report["regions"][0]["name"],
        &report["points"][0]["name"],
        &report["sessions"][0]["options"],
        &report["warnings"][0]["message"],
        &report["regions"][0]["snippet"]["text"],
    ] {
        assert_eq!(name, HOSTILE);
    }
}

#[test]
fn comparisons_are_as_harmless() {
    let (before, after) = (profile(), profile());
    let comparison = Comparison::new(&before, &after, &EstimateOptions::default());
    for width in [1, 60, 80, 200] {
        let style = terminal::Style { width, ..Default::default() };
        assert_harmless(&terminal::render_comparison(&comparison, style));
    }
    let text = json::render_comparison(&comparison);
    assert_harmless(&text);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&report["points"][0]["name"], &report["regions"][0]["after"]["name"]),
        (&HOSTILE.into(), &HOSTILE.into())
    );
}

#[test]
fn coz_lines_stay_lines() {
    let legacy = coz::render_legacy(&profile());
    assert_harmless(&legacy);
    for line in legacy.lines() {
        let mut fields = line.split('\t');
        let fields_of = match fields.next().unwrap() {
            "startup" | "runtime" => 1,
            "experiment" => 4,
            "throughput-point" | "samples" => 2,
            other => panic!("{other}"),
        };
        assert!(fields.all(|field| field.contains('=')), "{line}");
        assert_eq!(line.split('\t').count(), fields_of + 1);
    }
    let jsonl = coz::render_jsonl(&profile());
    assert_harmless(&jsonl);
    assert_eq!(jsonl.lines().count(), legacy.lines().count());
    for line in jsonl.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].is_string());
    }
}
