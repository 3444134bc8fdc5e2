//! Names that were chosen to break reports.

use crate::synthetic::{Truth, rows};
use profile::*;
use report::{coz, csv, firefox, folded, json, markdown, pprof, terminal};

const HOSTILE: &str = "a\tb\nc\"d'e\\f\r\u{1b}[2J\u{7f}\u{9b}31m\u{202e}g\0h\u{2028}=x</script>,大き";

fn profile() -> Profile {
    named(HOSTILE)
}

/// A recording in which everything has this name.
fn named(name: &str) -> Profile {
    let mut rows = rows(&[Truth { name: "hash.c:88", slope: 0.5, noise: 0.02, blocks: 20 }]);
    let start = &mut rows.sessions[0].start;
    for text in [&mut start.program, &mut start.host, &mut start.sampler, &mut start.arguments[0]] {
        *text = name.into();
    }
    start.options = name.into();
    let not_followed =
        Program { path: name.into(), obstacle: Some(name.into()), ..rows.sessions[0].programs[0].clone() };
    rows.sessions[0].programs.push(not_followed);
    let thread =
        Thread { tid: 8, name: name.into(), function: name.into(), ..rows.sessions[0].threads[0].clone() };
    rows.sessions[0].threads.push(thread);
    let region = rows.regions.get_mut(&RegionId::new(1)).unwrap();
    region.kind = RegionKind::Function;
    (region.name, region.file, region.function) = (name.into(), Some(name.into()), Some(name.into()));
    rows.points.get_mut(&PointId::new(1)).unwrap().name = name.into();
    let warning = Warning { code: name.into(), message: name.into(), advice: name.into() };
    rows.warnings.push((SessionId::new(1), warning));
    rows.snippets.insert(RegionId::new(1), Snippet { first_line: 1, text: name.into() });
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
            "runtime" => 1,
            "experiment" => 4,
            "startup" | "throughput-point" | "samples" => 2,
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

/// More names that mean something to some format.
const NAMES: [&str; 18] = [
    HOSTILE,
    "a;b c 7",
    "=cmd|' /C calc'!A0",
    "@octocat #1 GH-1 a@b.example",
    "+1",
    " -1",
    "＝1+1",
    "a|b\\|c",
    "ends with \\",
    "`",
    "``a`",
    " `a` ",
    "[a](https://evil.example) ![a](b) <b>www.evil.example</b> <!-- ",
    "</code><img src=x onerror=alert(1)>|",
    "a, \"b\"\r\nc",
    "**a** _b_ ~~c~~ :tada: &lt;&#60;",
    "",
    "大き\u{202e}|",
];

#[test]
fn folded_lines_have_their_frames_and_a_number() {
    for name in NAMES {
        let text = folded::render(&named(name));
        assert_harmless(&text);
        let lines: Vec<(&str, &str)> = text.lines().map(|line| line.rsplit_once(' ').unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        for (stack, count) in lines {
            assert!(count.parse::<u64>().is_ok(), "{text}");
            assert_eq!(stack.split(';').count(), 2, "{text}");
            assert!(stack.split(';').all(|frame| !frame.is_empty()), "{text}");
        }
    }
}

#[test]
fn csv_cells_stay_cells_and_are_no_formulas() {
    let columns = 26;
    for name in NAMES {
        let text = csv::render(&named(name));
        assert_harmless(&text.replace("\r\n", "\n"));
        for row in text.strip_suffix("\r\n").unwrap().split("\r\n").skip(1) {
            let cells = cells(row);
            assert_eq!(cells.len(), columns, "{row}");
            for cell in &cells {
                let formula =
                    cell.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t']);
                assert!(
                    !formula || cell.parse::<f64>().is_ok() && !name.contains(&**cell),
                    "{cell} in {row}"
                );
            }
            let plain = printable(name);
            assert!(cells[0] == plain || cells[0] == format!("'{plain}"), "{row}");
        }
    }
}

/// The cells of a row, by RFC 4180.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cells.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    assert!(!quoted, "{row}");
    cells
}

#[test]
fn markdown_has_names_in_code_only() {
    for name in NAMES {
        let text = markdown::render(&named(name));
        assert_harmless(&text);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        // A region, then two programs and two threads, each below a head and a line.
        let expected = [[5; 7].as_slice(), &[6; 4]].concat();
        assert_eq!(rows.iter().map(|row| delimiters(row)).collect::<Vec<_>>(), expected, "{text}");
        for line in text.lines() {
            let outside = outside_of_code(line);
            for markup in ["](", "<b", "<img", "_b_", "~~", "onerror=", "</code><"] {
                assert!(!outside.contains(markup), "{markup} outside of code in {line}");
            }
            // GitHub looks for these when the page is made: in the text, but not in code.
            let text = characters(&outside);
            for link in ["@o", "#1", "://", "www.", "GH-1"] {
                assert!(!text.contains(link), "{link} outside of code in {line}");
            }
        }
    }
}

/// What a browser makes of `text`: numbers are characters again, and what is in `<code>` is left out.
fn characters(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let number = rest.strip_prefix("&#").and_then(|after| after.split_once(';'));
        if let Some((_, after)) = rest.strip_prefix("<code>").and_then(|code| code.split_once("</code>")) {
            rest = after;
        } else if let Some((number, after)) = number {
            out.extend(number.parse().ok().and_then(char::from_u32));
            rest = after;
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// How many `|` of a row end a cell: all but those behind a backslash, whether in code or not.
fn delimiters(row: &str) -> usize {
    let mut chars = row.chars();
    let mut count = 0;
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '|' => count += 1,
            _ => {}
        }
    }
    count
}

/// A line without its code spans: a run of backticks ends at the next run that is as long.
fn outside_of_code(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        out.push_str(&rest[..at]);
        let fence: String = rest[at..].chars().take_while(|c| *c == '`').collect();
        let inside = &rest[at + fence.len()..];
        let mut from = 0;
        let end = loop {
            let Some(next) = inside[from..].find('`').map(|next| from + next) else { break None };
            let run = inside[next..].chars().take_while(|c| *c == '`').count();
            if run == fence.len() {
                break Some(next);
            }
            from = next + run;
        };
        match end {
            Some(end) => rest = &inside[end + fence.len()..],
            None => {
                out.push_str(&fence);
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

#[test]
fn firefox_and_pprof_keep_what_they_are_given() {
    use prost::Message as _;
    for name in NAMES {
        let profile = named(name);
        let text = firefox::render(&profile);
        assert_harmless(&text);
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        let strings =
            parsed["shared"]["stringArray"].as_array().or(parsed["threads"][0]["stringArray"].as_array());
        let strings: Vec<&str> = strings.unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        assert!(strings.contains(&&*printable(name)), "{strings:?}");

        let bytes = pprof::render(&profile);
        assert_eq!(bytes, pprof::render(&profile), "the same profile, the same bytes");
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*bytes), &mut plain).unwrap();
        let decoded = pprof::message::Profile::decode(&*plain).unwrap();
        decoded.string_table.iter().for_each(|text| assert_harmless(text));
        assert!(decoded.string_table.iter().any(|text| *text == printable(name)));
    }
}
