//! What the screen looks like, for a recording whose truth is known.

#[path = "../../../../profile/tests/synthetic/mod.rs"]
mod synthetic;

use super::super::key::Action;
use super::super::view::{Choice, View};
use super::*;
use crate::watch::listed;
use profile::{EstimateOptions, RegionId, Rows, SessionId, Warning};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use synthetic::{Truth, rows, with_latency};

fn recording() -> Rows {
    let truth = |name, slope, blocks| Truth { name, slope, noise: 0.02, blocks };
    rows(&[truth("hash.c:88", 0.6, 30), truth("hash.c:12", 0.0, 30), truth("list.c:7", -0.4, 30)])
}

fn profile(rows: Rows) -> Profile {
    Profile::new(rows, &EstimateOptions::default())
}

/// What is drawn on a terminal of that size.
fn drawn(profile: Option<&Profile>, view: &View, color: bool, (width, height): (u16, u16)) -> Buffer {
    let (points, rows) = listed(profile, view);
    let scene = Scene {
        name: "whatif-server.db",
        standing: "running, 12 s, 90 experiments",
        trouble: None,
        nothing: "no recording yet",
        profile,
        target: view.point(&points),
        several_points: points.len() > 1,
        rows: &rows,
        view,
        color,
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        draw(&scene, frame.area(), frame.buffer_mut());
    };
    terminal.draw(draw).unwrap();
    terminal.backend().buffer().clone()
}

/// The screen as lines, without spaces at their ends.
fn screen(profile: Option<&Profile>, view: &View, size: (u16, u16)) -> Vec<String> {
    let buffer = drawn(profile, view, true, size);
    let line = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..size.1).map(line).collect()
}

/// The view after these keys.
fn after(profile: &Profile, actions: &[Action]) -> View {
    let mut view = View::default();
    for action in actions {
        let (points, rows) = listed(Some(profile), &view);
        let regions: Vec<RegionId> = rows.iter().map(|(region, _)| region.region).collect();
        view.apply(*action, Choice { regions: &regions, points: &points, page: 5, scroll: 5 });
    }
    view
}

#[test]
fn a_small_terminal_has_what_tells_most() {
    assert_eq!(
        screen(Some(&profile(recording())), &View::default(), (40, 10)),
        [
            "what…r.db  running, 12 s, 90 experiments",
            "20 % less time in `hash.c:88` makes",
            "`requests` 12.0 % ± 0.6 % shorter; …",
            "What makes `requests` faster",
            "region             slope (se)  verdict",
            "hash.c:88         0.60 (0.00)  helps",
            "hash.c:12         0.00 (0.00)  no effect",
            "list.c:7         −0.40 (0.00)  hurts",
            "",
            "q quit  ? help  ⏎ curve  / filter  s by",
        ]
    );
}

#[test]
fn a_usual_terminal_has_a_curve_too() {
    let shown = screen(Some(&profile(recording())), &View::default(), (80, 24));
    let table = [
        "whatif-server.db                                   running, 12 s, 90 experiments",
        "20 % less time in `hash.c:88` makes `requests` 12.0 % ± 0.6 % shorter; nothing",
        "else you could change is worth more.",
        "What makes `requests` faster",
        "region                   slope (se)  interval      verdict    share  experiments",
        "hash.c:88               0.60 (0.00)      │      ━  helps       11 %           30",
        "hash.c:12               0.00 (0.00)      ━         no effect   11 %           30",
        "list.c:7               −0.40 (0.00)  ━   │         hurts       11 %           30",
        "",
        "hash.c:88",
        "slope 0.60 (0.00) [0.59 … 0.60], 30 experiments: helps",
    ];
    assert_eq!(shown[..table.len()], table);
    assert!(shown[11].starts_with("    60 % │ ") && shown[11].ends_with("⡤⠴⠒⠋"), "{shown:#?}");
    assert!(shown[20].starts_with("     0 % │⡠⠤"), "{shown:#?}");
    assert_eq!(shown[21].trim_start(), format!("└{}", "─".repeat(70)));
    assert_eq!(shown[23], "q quit  ? help  ⏎ curve  / filter  s by worth");
}

#[test]
fn a_large_terminal_has_everything() {
    let mut rows = with_latency(recording());
    let advice = "end other programs, or wait until they have ended ".repeat(9);
    for (code, message, advice) in
        [("busy", "the machine was busy", advice.as_str()), ("more", "and more", "see there")]
    {
        let warning = Warning { code: code.into(), message: message.into(), advice: advice.into() };
        rows.warnings.push((SessionId::new(1), warning));
    }
    let profile = profile(rows);
    let shown = screen(Some(&profile), &View::default(), (160, 50));
    let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let in_words: Vec<String> = shown.iter().map(words).collect();
    for line in [
        "! the machine was busy",
        "! and more",
        "see there",
        "What makes `requests` faster",
        "region slope (se) 95 % interval verdict share experiments",
        "hash.c:88 0.60 (0.00) │ ━ 0.59 … 0.60 helps 11 % 30",
        "hash.c:12 0.00 (0.00) ━ −0.01 … 0.01 no effect 11 % 30",
    ] {
        assert!(in_words.iter().any(|shown| shown == line), "{line:?} {shown:#?}");
    }
    let both = shown.iter().find(|line| line.starts_with("hash.c:88  ") && line.contains("over time"));
    assert!(both.is_some_and(|line| line.contains("`requests` without speedups, over time")), "{shown:#?}");
    assert!(shown.iter().any(|line| line.contains("10220/s │")), "{shown:#?}");
    assert_eq!(shown[49], "q quit  ? help  ⏎ curve  / filter  s by worth  p point");

    // Fewer lines: the rest of the warnings is elsewhere.
    let shown = screen(Some(&profile), &View::default(), (100, 20));
    assert!(shown.contains(&"  … w: all warnings".to_owned()), "{shown:#?}");
    let all = screen(Some(&profile), &after(&profile, &[Action::Warnings]), (100, 20));
    assert!(
        all.contains(&"  ! and more".to_owned()) && all.contains(&"    see there".to_owned()),
        "{all:#?}"
    );
}

#[test]
fn the_share_in_production_stands_beside_the_share_here() {
    let mut rows = recording();
    rows.production = [(1, 0.31), (2, 0.002)]
        .map(|(region, share)| profile::Production {
            session: SessionId::new(1),
            region: RegionId::new(region),
            share,
            samples: 1000,
            since: archive::UnixSeconds(0),
            until: archive::UnixSeconds(86_400),
            hosts: 3,
        })
        .to_vec();
    let shown = screen(Some(&profile(rows)), &View::default(), (80, 24));
    assert_eq!(
        shown[4..8],
        [
            "region                         slope (se)  interval      verdict    share  prod.",
            "hash.c:88                     0.60 (0.00)      │      ━  helps       11 %   31 %",
            "hash.c:12                     0.00 (0.00)      ━         no effect   11 %   <1 %",
            "list.c:7                     −0.40 (0.00)  ━   │         hurts       11 %      –",
        ]
    );
}

#[test]
fn keys_change_the_screen() {
    use Action::{Down, Filter, Help, Letter, NextOrder, NextPoint, Open};
    let profile = profile(with_latency(recording()));
    let size = (100, 40);
    let shown = |actions: &[Action]| screen(Some(&profile), &after(&profile, actions), size);
    let first_row = |actions: &[Action]| {
        let lines = shown(actions);
        let head = lines.iter().position(|line| line.starts_with("region ")).unwrap();
        lines[head + 1].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(first_row(&[]), "hash.c:88");
    // Share and experiments are the same; by name it is another.
    assert_eq!(first_row(&[NextOrder, NextOrder, NextOrder]), "hash.c:12");
    assert_eq!(first_row(&[Filter, Letter('L'), Letter('i')]), "list.c:7");
    let filtered = shown(&[Filter, Letter('L'), Letter('i')]);
    assert_eq!(filtered[39], "/Li▏");
    assert!(filtered.contains(&"What makes `requests` faster (2 filtered out)".to_owned()), "{filtered:#?}");
    assert!(shown(&[Filter, Letter('ß')]).contains(&"no name contains that; Esc shows all".to_owned()));
    assert!(shown(&[NextPoint]).contains(&"What makes the latency of `lookup` shorter".to_owned()));
    let large = shown(&[Down, Open]);
    assert!(
        large.contains(&"hash.c:12".to_owned()) && !large.iter().any(|line| line.contains("hash.c:88")),
        "{large:#?}"
    );
    assert!(large.iter().any(|line| line == "`requests` without speedups, over time"), "{large:#?}");
    assert!(
        shown(&[Help]).iter().any(|line| line.starts_with("q, Ctrl-C      quit")),
        "{:#?}",
        shown(&[Help])
    );
    assert!(screen(None, &View::default(), size).contains(&"no recording yet".to_owned()));
}

#[test]
fn the_selected_row_is_reversed_and_colours_are_left_out_where_nobody_wants_them() {
    let profile = profile(recording());
    let view = after(&profile, &[Action::Down]);
    for color in [true, false] {
        let buffer = drawn(Some(&profile), &view, color, (80, 24));
        let reversed = |y: u16| (0..80).all(|x| buffer[(x, y)].modifier.contains(Modifier::REVERSED));
        assert_eq!((5..8).map(reversed).collect::<Vec<_>>(), [false, true, false]);
        let colours = buffer.content.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(colours.count() > 0, color);
    }
}

/// Nothing is too small, too large or too strange to be drawn.
#[test]
fn every_size_is_drawn() {
    let mut hostile = with_latency(recording());
    let name = "a\tb\nc\r\u{1b}[2J\u{7f}\u{202e}g\0h\u{2028}大きe\u{301}".repeat(3);
    for region in hostile.regions.values_mut() {
        region.name = name.clone();
    }
    for point in hostile.points.values_mut() {
        point.name = name.clone();
    }
    let warning = Warning { code: name.clone(), message: name.clone(), advice: name };
    hostile.warnings.push((SessionId::new(1), warning));
    let idle = {
        let mut rows = recording();
        rows.windows.iter_mut().for_each(|window| window.visits.clear());
        rows
    };
    use Action::{Down, Filter, Help, Letter, Open, Warnings};
    for profile in [profile(hostile), profile(idle), profile(Rows::default())] {
        for actions in [&[][..], &[Down, Open], &[Warnings], &[Help], &[Filter, Letter('\u{202e}')]] {
            let view = View { scroll: 3, ..after(&profile, actions) };
            for width in (0..30).chain([39, 59, 80, 99, 100, 200]) {
                for height in (0..14).chain([17, 24, 60]) {
                    let buffer = drawn(Some(&profile), &view, true, (width, height));
                    let harmless = |cell: &ratatui::buffer::Cell| {
                        cell.symbol()
                            .chars()
                            .all(|c| matches!(printable(&c.to_string()), std::borrow::Cow::Borrowed(_)))
                    };
                    assert!(buffer.content.iter().all(harmless), "{width}×{height}");
                }
            }
        }
    }
}

#[test]
fn room_is_shared() {
    for (lines, sentence, warnings, rows, expected) in [
        (1, 3, 9, 9, (1, 0, 0)),
        (4, 3, 9, 9, (1, 0, 0)),
        (8, 3, 9, 9, (2, 1, 0)),
        (22, 2, 0, 3, (2, 0, 15)),
        (22, 2, 0, 900, (2, 0, 10)),
        (48, 2, 4, 900, (2, 4, 21)),
        (90, 1, 0, 1, (1, 0, 30)),
    ] {
        let (sentence, warnings, pictures) = {
            let share = share(lines, sentence, warnings, rows);
            (share.sentence, share.warnings, share.pictures)
        };
        assert_eq!((sentence, warnings, pictures), expected, "{lines}");
    }
}
