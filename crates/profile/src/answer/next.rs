//! What to type next: open the report, ask deeper, compare after the fix.

use super::limit::Limit;
use super::{Decision, Needed, PointAnswer, Quality, to_try};
use crate::estimate::Verdict;
use crate::interpreter::Interpreter;
use crate::model::{ArrivalClock, ArrivalKind, Exit, Session, SessionStart, Warning};
use crate::ranking::Profile;
use crate::shell;
use std::collections::BTreeSet;

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// See all of it in a browser.
    Open,
    /// Find out more about the code that matters, or measure more.
    Deeper,
    /// Count a function as the unit of work, where none is known.
    Point,
    /// Record the changed program, and compare.
    Compare,
}

impl Step {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Open => "open",
            Step::Deeper => "deeper",
            Step::Point => "point",
            Step::Compare => "compare",
        }
    }
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// What it is for.
    pub step: Step,
    /// In words, such as "see all of it".
    pub why: String,
    /// As it can be typed in a POSIX shell, in the folder that the program was started in.
    pub command: String,
}

/// No command asks for more than so many times what was measured.
const MOST_AGAIN: f64 = 10.0;
/// A program that runs again and again has at least so many seconds for it.
const SHORTEST: f64 = 20.0;

/// What was typed, as far as another run needs it to measure the same.
#[derive(Default)]
struct Typed {
    words: Vec<String>,
    /// The command, where it has led to another program, which was profiled.
    command: Vec<String>,
    /// Redirections: " < FILE", and " > /dev/null" where the output went into a file.
    redirected: String,
    /// How long all runs together were to take.
    seconds: Option<f64>,
    /// Whether they are one measurement.
    end_to_end: bool,
    /// Whether there was to be more than one.
    repeated: bool,
}

impl Typed {
    /// How long another run is to take, if it is not the program that ends it. One that was cut short is to take as long as it was asked for.
    fn seconds(&self, stopped_after: Option<f64>) -> Option<f64> {
        let asked = self.seconds.filter(|_| self.end_to_end || stopped_after.is_some() && !self.repeated);
        asked.or(stopped_after.map(f64::round)).map(|seconds| seconds.max(1.0))
    }
}

fn typed(start: &SessionStart) -> Typed {
    let options: serde_json::Value = serde_json::from_str(&start.options).unwrap_or_default();
    let words = |of: &str| {
        let words = options[of].as_array().into_iter().flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let input = options["input"].as_str().map(|path| {
        let below = path.strip_prefix(&start.directory).and_then(|rest| rest.strip_prefix('/'));
        format!(" < {}", shell::command([below.unwrap_or(path)]))
    });
    let output = if options["writes_to_file"] == true { " > /dev/null" } else { "" };
    Typed {
        words: words("again"),
        command: words("command"),
        redirected: input.unwrap_or_default() + output,
        seconds: options["duration"].as_f64(),
        end_to_end: options["end_to_end"] == true,
        repeated: options["repeat"].is_u64() || options["until_sure"] == true,
    }
}

/// The options that name the files which were looked into, where whatif found them itself: a point or a region in a library is found
/// only where the library is named.
fn binaries(profile: &Profile, start: &SessionStart) -> Vec<String> {
    if profile.rows.warned(Warning::CHOSEN_FILES).next().is_none() {
        return Vec::new();
    }
    let images = profile.rows.regions.values().map(|region| region.image.path.as_str());
    let files = std::iter::once(start.program.as_str()).chain(images);
    // Code that was made at run time is in no file.
    let names = files.filter_map(|path| Some(path.rsplit_once('/')?.1)).filter(|name| !name.is_empty());
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().flat_map(|name| ["--binary".to_owned(), literal(name)]).collect()
}

/// A glob that matches nothing but this name.
fn literal(name: &str) -> String {
    let is_special = |c: char| "?*[]{}".contains(c);
    let escaped = |c: char| if is_special(c) { format!("[{c}]") } else { c.to_string() };
    name.chars().map(escaped).collect()
}

/// Whether there are clients of which the user can say how they ask: nothing is known of them.
fn may_be_said(session: &Session) -> bool {
    let is_of_clients =
        |kind| matches!(kind, ArrivalKind::Accepted | ArrivalKind::Datagrams | ArrivalKind::Listener);
    session.arrivals.iter().any(|one| is_of_clients(one.kind) && one.clock == ArrivalClock::Undecided)
}

/// A time in steps, each twice as long as the one before, so that a few more experiments do not change what is advised.
fn stepped(seconds: f64) -> f64 {
    SHORTEST * 2_f64.powf((seconds / SHORTEST).log2().ceil().max(-1.0))
}

/// Three commands, as far as they are known to be right.
pub(super) fn of(profile: &Profile, points: &[PointAnswer]) -> Vec<Next> {
    let Some(file) = profile.recording.as_ref().map(|path| path.to_string_lossy()) else { return Vec::new() };
    let Some(session) = profile.rows.sessions.last() else { return Vec::new() };
    let mut typed = typed(&session.start);
    let command = std::mem::take(&mut typed.command);
    let program = || {
        let itself = std::iter::once(session.start.program.as_str())
            .chain(session.start.arguments.iter().map(String::as_str));
        let itself = itself.take(if command.is_empty() { usize::MAX } else { 0 });
        command.iter().map(String::as_str).chain(itself)
    };
    if !typed.words.iter().any(|word| word == "--binary") {
        typed.words.extend(binaries(profile, &session.start));
    }
    let is_chosen = super::notes::is_point_chosen(profile);
    if is_chosen {
        let places = profile.points.iter().filter(|point| point.latency.is_none());
        typed.words.extend(places.flat_map(|point| ["-p".to_owned(), point.name.clone()]));
    }
    let stopped = session.end.as_ref().filter(|end| end.stopped);
    let seconds = typed.seconds(stopped.map(|end| end.duration.as_secs_f64()));
    let measured: f64 =
        profile.rows.sessions.iter().filter_map(|one| Some(one.end.as_ref()?.duration.as_secs_f64())).sum();
    let again_with = |options: &[&str], file: Option<&str>, seconds: Option<f64>| {
        let mut words: Vec<String> =
            ["whatif", "run"].iter().chain(options).map(ToString::to_string).collect();
        words.extend(
            seconds.into_iter().flat_map(|seconds| ["--duration".to_owned(), format!("{seconds:.0}s")]),
        );
        words.extend(typed.words.iter().cloned());
        words.extend(file.into_iter().flat_map(|file| ["-o".to_owned(), file.to_owned()]));
        words.push("--".to_owned());
        shell::command(words.iter().map(String::as_str).chain(program())) + &typed.redirected
    };
    let again_for = |file: Option<&str>, seconds: Option<f64>| again_with(&[], file, seconds);
    let again = |file: &str| again_for(Some(file), seconds);
    // What ends by itself is to run as often as it takes.
    let is_over = session.end.as_ref().is_some_and(|end| !end.stopped && end.exit == Exit::Code(0));
    let repeats = is_over && !typed.repeated && !typed.end_to_end;
    let longer = |times: f64| {
        let more = (times.min(MOST_AGAIN) * measured).ceil();
        match repeats {
            true => again_with(&["--until-sure"], Some(&file), Some(more.max(SHORTEST))),
            false => again_for(Some(&file), seconds.map(|seconds| more.max(seconds))),
        }
    };
    let once_more = || if repeats { longer(MOST_AGAIN) } else { again(&file) };
    // As much longer as the advice beside it says.
    let enough = |needed: Needed| longer(needed.again());
    let mut next = vec![Next {
        step: Step::Open,
        why: "see the curves, the source and the evidence".into(),
        command: shell::command(["whatif", "open", &file]),
    }];
    let is_known = session.start.program != crate::coz::UNKNOWN_PROGRAM;
    let find = Next {
        step: Step::Deeper,
        why: "find a place that counts the program's work".into(),
        command: shell::command(["whatif", "points", "--"].into_iter().chain(program())) + &typed.redirected,
    };
    if super::badge::changed(profile).is_some() {
        let why = "look for another place to count, and measure there, into a new recording".into();
        next.extend(is_known.then_some(Next { why, ..find }));
        return next;
    }
    if points.iter().all(|point| point.target.is_none()) && is_known {
        let program: Vec<String> = program().map(str::to_owned).collect();
        let interpreter = Interpreter::of(&session.start.program);
        let is_without = profile.failure().is_none_or(|failure| failure.code == Warning::NO_PROGRESS_POINT);
        if interpreter.is_none() && is_without && profile.points.is_empty() {
            let pieces = points.iter().flat_map(|point| &point.pieces).cloned().collect::<Vec<_>>();
            let places = to_try::places(profile, &session.start, &pieces);
            next.push(find);
            next.extend(places.into_iter().map(|place| Next {
                step: Step::Point,
                why: place.why,
                command: again_with(&["-p", &place.name], None, seconds),
            }));
            return next;
        }
        next.push(interpreter.map_or(find, |known| Next {
            step: Step::Deeper,
            why: known.purpose().into(),
            command: known.command(&program) + &typed.redirected,
        }));
        return next;
    }
    // Other programs need not be there the next time.
    let more = match (profile.quieter(), repeats) {
        (Some(quieter), _) => format!("{quieter}, and measure more, into the same recording"),
        (None, true) => {
            "measure more: run it again and again until that is sure, into the same recording".into()
        }
        (None, false) => "measure more, into the same recording".into(),
    };
    if is_chosen && is_known {
        next.push(Next {
            why: "find a place that counts the program's work, if this one does not".into(),
            ..find
        });
    }
    let best = points
        .iter()
        .filter_map(|point| point.pieces.first())
        .find(|piece| piece.verdict() == Some(Verdict::Helps));
    let best = best.and_then(|piece| profile.rows.regions.get(&piece.region));
    let is_likely = points.iter().any(|point| matches!(point.decision, Decision::Probably(_)));
    let is_noisy = points.iter().any(|point| point.badge.quality == Quality::Noisy);
    if best.is_some() && is_noisy && is_known {
        next.push(Next { step: Step::Deeper, why: more.clone(), command: once_more() });
    } else if let Some(best) = best.filter(|_| !is_chosen) {
        next.push(Next {
            step: Step::Deeper,
            why: "see the experiments and sums behind the number".into(),
            command: shell::command(["whatif", "report", "--explain", &best.name, &file]),
        });
    }
    let compare = (is_known && (best.is_some() || is_likely)).then(|| {
        let after = if file.ends_with("after.db") { "after-2.db" } else { "after.db" };
        Next {
            step: Step::Compare,
            why: match profile.has_clients() {
                true => "after your change, measure again in the same way, under the same load".into(),
                false => "after your change, measure again in the same way".into(),
            },
            command: format!("{} && {}", again(after), shell::command(["whatif", "compare", &file, after])),
        }
    });
    if best.is_some() {
        next.extend(compare);
        return next;
    }
    let open = points.iter().flat_map(|point| &point.pieces).find_map(|piece| {
        let estimate = piece.estimate.as_ref()?;
        Some((profile.rows.regions.get(&piece.region)?, Needed::of(estimate)?, Limit::of(estimate)))
    });
    let alone = points.iter().find_map(|point| point.decision.alone(profile, &point.pieces));
    if let Some((experiments, names)) = alone.filter(|_| is_known) {
        let made = profile.rows.windows.iter().filter(|window| !window.speedup.is_zero()).count();
        let wanted = stepped(experiments * measured / made.max(1) as f64).min(MOST_AGAIN * measured);
        let wanted = wanted.max(if repeats { SHORTEST } else { 0.0 });
        let mut options: Vec<&str> = names.iter().flat_map(|name| ["--region", name]).collect();
        options.extend(repeats.then_some("--until-sure"));
        let asked = if names.len() == 1 { "it" } else { "them" };
        let quiet = profile.quieter().map_or(String::new(), |quieter| format!("{quieter}, and "));
        next.push(Next {
            step: Step::Deeper,
            why: format!("{quiet}measure {asked} alone, into the same recording"),
            command: again_with(&options, Some(&file), (repeats || seconds.is_some()).then_some(wanted)),
        });
        next.extend(compare);
        return next;
    }
    match open {
        Some((region, needed, limit)) if !needed.helps() => {
            if limit.can_change() && is_known {
                let (change, options) = match limit {
                    Limit::Clients
                        if may_be_said(session) && !typed.words.iter().any(|word| word == "--clients") =>
                    {
                        (
                            "if each client waits for its answer before it asks again, say so (if requests come at times of their own: --clients open)",
                            &["--clients", "closed"][..],
                        )
                    }
                    Limit::Cpus => (profile.quieter().unwrap_or("change that"), &[][..]),
                    _ => ("change that", &[][..]),
                };
                next.push(Next {
                    step: Step::Deeper,
                    why: format!("{change}, and measure again, into a new recording"),
                    command: again_with(options, None, seconds),
                });
            }
            next.push(Next {
                step: Step::Deeper,
                why: "see what makes it uncertain".into(),
                command: shell::command(["whatif", "report", "--explain", &region.name, &file]),
            });
        }
        Some((_, needed, _)) if is_known => {
            next.push(Next { step: Step::Deeper, why: more, command: enough(needed) });
        }
        _ if is_known => next.push(Next { step: Step::Deeper, why: more.clone(), command: once_more() }),
        _ => {}
    }
    next.extend(compare);
    next
}
