//! Answers: what is found, how sure it is, and how soon.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use profile::{Books, CallTree, Window};
use sandbox::{Ended, HANG, NO_ANSWER, Sandbox, program, program_as, region, target};
use serde_json::Value;

use crate::accept::check::{Check, Run, UNBOUNDED};

/// The checks.
pub const CHECKS: &[Check] = &[
    Check::of_runs("answers::a_sure_answer_ends_the_program", 8, sure_answers),
    Check::of_runs("answers::a_program_goes_on_when_the_answer_is_known", 4, going_on),
    Check::of_runs("answers::whole_runs_are_compared_without_a_progress_point", 8, whole_runs),
    Check::of_runs("answers::regions_are_listed_with_their_shares", 8, listed_shares),
    Check::of_runs("answers::stacks_have_their_shares", 6, stacks),
    Check::of_runs("answers::what_is_called_steadily_is_suggested", 2, suggestions),
    Check::of_runs("answers::debts_are_paid_once_beside_handlers", 12, beside_handlers),
    Check::of_runs("answers::calls_that_wait_are_credited_once", 8, waiting_calls),
    Check::of_runs("answers::work_that_looks_like_waiting_is_work", 6, looks_like_waiting),
    Check::of_runs("answers::a_broken_engine_is_not_trusted", 4, broken_engine),
    Check::of_runs("answers::ab_sees_half_of_the_work", 4, ab),
];

/// A program runs for longer than the check waits for an answer (`--duration`).
const MAX_SECONDS_UNTIL_SURE: &str = "40";
const WITHOUT_END: &str = "1000";
/// The share of a region that has nearly all of the time.
const MIN_SHARE_OF_EVERYTHING: f64 = 0.85;
/// Of a helper that works four times as long for A as for B.
const SHARE_OF_A: std::ops::RangeInclusive<f64> = 0.65..=0.95;
const SHARE_OF_B: std::ops::RangeInclusive<f64> = 0.05..=0.35;
const MAX_DIFFERENCE_OF_SAME_SAMPLES: f64 = 0.08;
/// Before there are tables for the C library, stacks end at `main`.
const MAX_SHARE_OF_TRUNCATED_STACKS: f64 = 0.3;
const MIN_SHARE_OF_TRUNCATED_STACKS_WITHOUT_TABLES: f64 = 0.5;
/// Two thirds of the time, in runs that are shorter than what else happens on the machine.
const GAIN_OF_SLOW: std::ops::RangeInclusive<f64> = 0.05..=0.95;
/// What is owed and not settled, as a share of what is owed. A debt that is paid twice is in what was paid twice.
const MAX_UNSETTLED_SHARE: f64 = 0.1;
/// Never paying leaves half of what is owed: the other thread is credited with the rest.
const MAX_UNPAID_SHARE: f64 = 0.25;
/// Paid twice, the same debt promised +0.35. Less than nothing is right here: the timer is the world's and is not slowed down, so a
/// paused program meets more of its signals in the time that counts.
const SLOPE_BESIDE_HANDLERS: std::ops::RangeInclusive<f64> = -0.7..=0.2;
const MIN_WINDOWS_BESIDE_UNSEEN_WAIT: u64 = 4;
/// The audit tolerates as much.
const CREDITED_ONCE: std::ops::RangeInclusive<f64> = 0.85..=1.15;
const MIN_GIVEN_SECONDS: f64 = 0.1;
const MAX_SHARE_TAKEN_FOR_SPINNING: f64 = 0.02;
/// How far the gain of half of the work may be from a half, beyond its interval.
const MAX_ERROR_OF_AB: f64 = 0.2;

/// A program, if there is a compiler.
fn compiled(run: &mut Run<'_>, program: Option<PathBuf>) -> Option<PathBuf> {
    if program.is_none() {
        run.inconclusive("it cannot be compiled here");
    }
    program
}

/// Whether a run has an answer; without one it tells nothing.
fn has_answer(run: &mut Run<'_>, ended: &Ended) -> bool {
    match ended.code() {
        Some(0) => return true,
        Some(code) if NO_ANSWER.contains(&code) => run.inconclusive(format!("no answer (status {code})")),
        _ => run.holds(format!("the program succeeds: {ended:#?}"), false),
    }
    false
}

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name].as_f64().with_context(|| format!("no {name} in {value:#}"))
}

fn sure_answers(run: &mut Run<'_>) -> Result<()> {
    let Some(exits) = compiled(run, program("exits.c")) else { return Ok(()) };
    // One thread that runs one function: nothing is easier to be sure of.
    let sandbox = Sandbox::new();
    let until_sure = ["--until-sure", "--duration", MAX_SECONDS_UNTIL_SURE, "--precision"];
    let options = [&until_sure[..], &["10%", "--region", "hot"]].concat();
    let ended = sandbox.profile(&options, &exits, &["3", WITHOUT_END]);
    if !has_answer(run, &ended) {
        return Ok(());
    }
    run.holds("the program is asked to end", ended.stdout == "begin 3\n");
    let report = sandbox.report();
    run.holds("there is one run", report["sessions"].as_array().is_some_and(|all| all.len() == 1));
    run.holds(
        "the answer names the code",
        report["sentence"].as_str().is_some_and(|text| text.contains("hot")),
    );
    let duration = report["sessions"][0]["duration_ns"].as_f64().unwrap_or(f64::NAN) / 1e9;
    if duration.is_finite() {
        run.measured("seconds until sure", duration, 0.0..=MAX_SECONDS_UNTIL_SURE.parse::<f64>()? - 1.0);
    }
    // A program that ends too soon is run again.
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(&[&until_sure[..], &["5%"]].concat(), &exits, &["0", "0.8"]);
    let sessions = sandbox.report()["sessions"].as_array().map_or(0, Vec::len);
    run.counted("runs of a short program until sure", sessions as u64, 2..=u64::MAX);
    run.holds("each run is in the recording", ended.stdout.matches("begin 0\n").count() == sessions);
    Ok(())
}

fn going_on(run: &mut Run<'_>) -> Result<()> {
    let Some(exits) = compiled(run, program("exits.c")) else { return Ok(()) };
    let sandbox = Sandbox::new();
    let ends = sandbox.path("ends");
    let mut command = sandbox.whatif();
    command.args(["run", "--precision", "10%", "--region", "hot", "-o"]).arg(sandbox.recording());
    command.arg("--").arg(&exits).args(["3", "0"]).arg(&ends);
    let mut whatif = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let said = whatif.stderr.take().context("it is piped")?;
    let mut said = BufReader::new(said).lines().map_while(Result::ok);
    let before: Vec<String> =
        said.by_ref().take_while(|line| !line.contains("goes on without experiments")).collect();
    // Sampling stops: threads that are sampled have an event each.
    let children = format!("/proc/{0}/task/{0}/children", whatif.id());
    let is_sampled = || {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        let mut pids = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        pids.any(|pid| sandbox::perf_events(pid) > 0)
    };
    let begin = Instant::now();
    while whatif.try_wait()?.is_none() && is_sampled() && begin.elapsed() < HANG {
        std::thread::sleep(Duration::from_millis(20));
    }
    run.holds("it is no longer sampled", !is_sampled());
    run.holds(format!("the program goes on: {before:#?}"), whatif.try_wait()?.is_none());
    std::fs::write(ends, "")?;
    let after: Vec<String> = said.collect();
    let ended = whatif.wait_with_output()?;
    run.holds("its end is passed on", ended.status.code() == Some(3) && ended.stdout == b"begin 3\nend\n");
    let answers = before.iter().chain(&after).filter(|line| line.contains("If that code took"));
    run.counted("answers that are shown", answers.count() as u64, 1..=1);
    Ok(())
}

fn whole_runs(run: &mut Run<'_>) -> Result<()> {
    let Some(short) = compiled(run, program("short.c")) else { return Ok(()) };
    let sandbox = Sandbox::new();
    let options = "--end-to-end --repeat 21 --precision 0.001% --region slow --speedup 100 --seed 1";
    let ended = sandbox.profile(&options.split(' ').collect::<Vec<_>>(), &short, &[]);
    if !has_answer(run, &ended) {
        return Ok(());
    }
    let report = sandbox.report();
    run.holds("all runs are recorded", report["sessions"].as_array().is_some_and(|all| all.len() == 21));
    let slow = region(&report, "slow");
    // The first run only looks.
    run.holds(format!("each run is a window: {}", slow["windows"]), slow["windows"] == 20);
    run.holds("the point is the program", slow["points"][0]["point"] == "end-to-end");
    let dots = slow["points"][0]["speedups"].as_array().context("no speedups")?;
    let dot = dots.iter().find(|dot| dot["speedup"] == 1.0).context("no dot at 100 %")?;
    run.measured("gain of two thirds of the program", number(dot, "gain")?, GAIN_OF_SLOW);
    Ok(())
}

/// What `--list-regions` says about a second of a program.
fn listed(options: &[&str], program: &Path) -> Ended {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--list-regions", "--duration", "1"]).args(options).arg("--").arg(program);
    sandbox::run(command).assert_code(0)
}

/// The share of the time in the line that begins with `label`.
fn share(listed: &Ended, label: &str) -> Result<f64> {
    let line = listed.stderr.lines().find(|line| {
        let mut words = line.split_whitespace();
        words.nth(1) == Some("%") && words.nth(1) == Some(label)
    });
    let line = line.with_context(|| format!("{label} is not in {listed:#?}"))?;
    Ok(line.split_whitespace().next().context("a share")?.parse::<f64>()? / 100.0)
}

fn listed_shares(run: &mut Run<'_>) -> Result<()> {
    let without: &[&str] = &["-fomit-frame-pointer", "-momit-leaf-frame-pointer"];
    let only: &[&str] = &["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for (name, flags) in [("callers-tables", without), ("callers-pointers", only)] {
        let Some(callers) = compiled(run, program_as("callers.c", name, flags)) else { return Ok(()) };
        let listed = listed(&["--region", "A", "--region", "B", "--region", "helper@B"], &callers);
        let [a, b, helper] = ["A+", "B+", "helper@B+"].map(|label| share(&listed, label));
        let (a, b, helper) = (a?, b?, helper?);
        run.measured(format!("share of A in {name}"), a, SHARE_OF_A);
        run.measured(format!("share of B in {name}"), b, SHARE_OF_B);
        let difference = (helper - b).abs();
        run.measured(format!("helper@B and B in {name}"), difference, 0.0..=MAX_DIFFERENCE_OF_SAME_SAMPLES);
    }
    for (source, name, flag, label) in [
        ("fills.c", "fills-without", "-fomit-frame-pointer", "fill"),
        // The kernel's library, which is no file.
        ("clock.c", "clock", "-fno-omit-frame-pointer", "tick"),
        ("clock.c", "clock-without", "-fomit-frame-pointer", "tick"),
        ("units.c", "units-listed", "-O2", "parse"),
    ] {
        let Some(program) = compiled(run, program_as(source, name, &[flag])) else { return Ok(()) };
        let share = share(&listed(&[], &program), label)?;
        run.measured(format!("share of {label} in {name}"), share, MIN_SHARE_OF_EVERYTHING..=UNBOUNDED);
    }
    Ok(())
}

/// The share of the samples whose stacks end with these functions, the innermost one last; lines are all the same.
fn share_of_stack(tree: &CallTree<'_>, callers: &[&str]) -> f64 {
    let name = |call: &profile::stacks::Call| tree.functions[call.function].function.name.as_str();
    let ends = |nth: usize| {
        let mut stack = tree.callers(Some(nth));
        callers.iter().rev().all(|wanted| stack.next().is_some_and(|call| name(call) == *wanted))
    };
    let here = (0..tree.calls.len()).filter(|nth| ends(*nth)).map(|nth| tree.calls[nth].own.count);
    here.sum::<u64>() as f64 / tree.all.count as f64
}

fn stacks(run: &mut Run<'_>) -> Result<()> {
    let without = ["-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let Some(callers) = compiled(run, program("callers.c")) else { return Ok(()) };
    let Some(blind) = compiled(run, program_as("callers.c", "callers-without", &without)) else {
        return Ok(());
    };
    let Some(jit) = compiled(run, program("jit.c")) else { return Ok(()) };

    let sandbox = Sandbox::new();
    sandbox.profile(&["--region", "helper", "--speedup", "50", "--duration", "2"], &callers, &[]);
    let rows = sandbox.rows();
    let tree = CallTree::new(&rows);
    let truncated = |tree: &CallTree<'_>| tree.truncated.count as f64 / tree.all.count as f64;
    run.measured("share of the helper for A", share_of_stack(&tree, &["main", "A", "helper"]), SHARE_OF_A);
    run.measured("share of the helper for B", share_of_stack(&tree, &["main", "B", "helper"]), SHARE_OF_B);
    run.measured("truncated stacks", truncated(&tree), 0.0..=MAX_SHARE_OF_TRUNCATED_STACKS);
    let roots = tree.calls.iter().filter(|call| call.parent.is_none());
    let mut names = roots.map(|call| tree.functions[call.function].function.name.as_str());
    run.holds("stacks begin at _start", names.any(|name| name == "_start"));

    let sandbox = Sandbox::new();
    sandbox.profile(&["--duration", "1"], &blind, &[]);
    let rows = sandbox.rows();
    let least = MIN_SHARE_OF_TRUNCATED_STACKS_WITHOUT_TABLES;
    run.measured("truncated stacks without tables", truncated(&CallTree::new(&rows)), least..=1.0);

    let sandbox = Sandbox::new();
    sandbox.profile(&[], &jit, &[]);
    let rows = sandbox.rows();
    let made = share_of_stack(&CallTree::new(&rows), &["main", "js:hot"]);
    run.measured("share of code that is made at run time", made, 0.8..=UNBOUNDED);
    Ok(())
}

fn suggestions(run: &mut Run<'_>) -> Result<()> {
    let Some(units) = compiled(run, program("units.c")) else { return Ok(()) };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["points", "--duration", "1"]).arg(&units);
    let said = sandbox::run(command).assert_code(0).stderr;
    if said.contains("no suggestions") {
        run.inconclusive("visits cannot be counted here");
        return Ok(());
    }
    let mut suggested = said.lines().filter(|line| line.contains("-p "));
    run.holds(format!("serve is suggested: {said}"), suggested.any(|line| line.contains("-p fn:serve")));
    // Both take all of the time; one of them twice as often.
    let first = said.lines().find(|line| line.starts_with("Try: ")).context("nothing to try")?;
    let is_unit = ["fn:serve", "fn:parse", "units.c:"].iter().any(|place| first.contains(place));
    run.holds(format!("a unit of work is tried first: {first}"), is_unit);
    run.holds(format!("what is called once is not suggested: {said}"), !said.contains("-p fn:worker"));
    Ok(())
}

/// The report on one run of `handlers.c`, which takes so many seconds, and its windows.
fn windows_beside_handlers(handlers: &Path, mode: &str, seconds: &str) -> Result<(Value, Vec<Window>)> {
    let sandbox = Sandbox::new();
    let options = ["--region", "A", "--speedup", "75", "--seed", "1"];
    let mut command = sandbox.profiling(&options, handlers, &[mode, seconds]);
    // A pipe that is never written to or closed: reading from it waits.
    let (reader, writer) = std::io::pipe()?;
    command.stdin(reader);
    let ended = command.output()?;
    drop(writer);
    anyhow::ensure!(ended.status.code() == Some(3), "{ended:?}");
    Ok((sandbox.report(), sandbox.rows().windows))
}

fn beside_handlers(run: &mut Run<'_>) -> Result<()> {
    let Some(handlers) = compiled(run, program("handlers.c")) else { return Ok(()) };
    let sum = |windows: &[Window], of: fn(&Books) -> profile::Nanos| {
        windows.iter().map(|window| of(&window.books).as_secs_f64()).sum::<f64>()
    };
    // Handlers that run while a thread pauses do not pay twice.
    let (report, windows) = windows_beside_handlers(&handlers, "write", "6")?;
    let (owed, paid) = (sum(&windows, |books| books.owed), sum(&windows, |books| books.paid));
    if owed == 0.0 {
        run.inconclusive("nothing was owed");
        return Ok(());
    }
    let more =
        [|books: &Books| books.credited, |books: &Books| books.overslept, |books: &Books| books.unpaid];
    let settled = paid + more.iter().map(|of| sum(&windows, *of)).sum::<f64>();
    run.holds("something is paid", paid > 0.0);
    let unsettled = (settled - owed).abs() / owed;
    run.measured("what is not settled, of what is owed", unsettled, 0.0..=MAX_UNSETTLED_SHARE);
    let of_a = report["regions"].as_array().and_then(|all| all.iter().find(|region| region["name"] == "A"));
    let points = of_a.and_then(|region| region["points"].as_array());
    match points.and_then(|points| points.iter().find(|point| point["point"] == "b")) {
        Some(point) => run.measured("slope of A for b", number(point, "slope")?, SLOPE_BESIDE_HANDLERS),
        None => run.inconclusive("no estimate of A"),
    }
    // A thread that jumps out of a handler goes on paying.
    let (_, windows) = windows_beside_handlers(&handlers, "jump", "3")?;
    let unpaid = sum(&windows, |books| books.unpaid) / sum(&windows, |books| books.owed);
    run.measured("what is unpaid, of what is owed", unpaid, 0.0..=MAX_UNPAID_SHARE);
    // A thread that waits unseen owes everything and pays nothing, but it does not run either: were it counted, no window would balance.
    let (report, _) = windows_beside_handlers(&handlers, "getchar", "3")?;
    let regions = report["regions"].as_array().context("no regions")?;
    let used =
        regions.iter().find(|region| region["name"] == "A").and_then(|region| region["windows"].as_u64());
    let unbalanced = report["left_out"]["windows_unbalanced"].as_u64().context("no unbalanced windows")?;
    let used = used.unwrap_or(0);
    run.counted("windows beside an unseen wait", used, MIN_WINDOWS_BESIDE_UNSEEN_WAIT..=u64::MAX);
    run.counted("of which do not balance", unbalanced, 0..=used);
    Ok(())
}

/// A function that makes calls which may wait, and is not selected with what it calls: the code behind such a call is not credited for it as well (×1.4, while
/// samples in the middle of calls taught what is behind them).
fn waiting_calls(run: &mut Run<'_>) -> Result<()> {
    let Some(answers) = compiled(run, program("answers.c")) else { return Ok(()) };
    let sandbox = Sandbox::new();
    let options = ["--granularity", "function", "--speedup", "50", "--seed", "1"];
    sandbox.profile(&options, &answers, &["6"]);
    let report = sandbox.report();
    let mut regions = report["regions"].as_array().into_iter().flatten();
    if !regions.any(|region| region["name"] == "answer" && !region["audit"].is_null()) {
        run.inconclusive("no experiment on it");
        return Ok(());
    }
    let audit = &sandbox.explained("answer")["audit"];
    let given = number(audit, "given_ns")? / number(audit, "expected_ns")?;
    run.measured("delay given for it, of what its samples account for", given, CREDITED_ONCE);
    Ok(())
}

fn looks_like_waiting(run: &mut Run<'_>) -> Result<()> {
    let Some(busy) = compiled(run, program("busy.c")) else { return Ok(()) };
    for (kind, function) in [("jump", "jump"), ("stack", "stack"), ("lock", "locked")] {
        let sandbox = Sandbox::new();
        let options = ["--region", function, "--speedup", "50", "--seed", "1"];
        let ended = sandbox.profile(&options, &busy, &[kind, "2"]);
        if !has_answer(run, &ended) {
            return Ok(());
        }
        // It is the whole program. Taken for spinning, it would be worth nothing.
        let audit = &sandbox.explained(function)["audit"];
        let given = number(audit, "given_ns")? / 1e9;
        run.measured(format!("seconds given for {kind}"), given, MIN_GIVEN_SECONDS..=UNBOUNDED);
        let withheld = number(audit, "withheld_spinning_ns")? / number(audit, "expected_ns")?;
        let what = format!("share of {kind} that is taken for spinning");
        run.measured(what, withheld, 0.0..=MAX_SHARE_TAKEN_FOR_SPINNING);
        run.holds("the audit has no doubt about spinning", !audit["doubts"].to_string().contains("spinning"));
    }
    Ok(())
}

/// The engine is broken in one way in each run.
fn broken_engine(run: &mut Run<'_>) -> Result<()> {
    let Some(single) = compiled(run, target("single")) else { return Ok(()) };
    let Some(pipeline) = compiled(run, target("pipeline")) else { return Ok(()) };
    // The first and the last stage hardly work: however busy the machine is, they wait.
    let (plain, waiting) = (&["seconds=4"][..], &["seconds=4", "A_ms=0.2", "C_ms=0.2"][..]);
    let ways = [
        (["--fault", "spins"], "A", &single, plain, "spinning"),
        (["--fault", "credits"], "A", &single, plain, "credit"),
        (["--leave-out", "pthread_cond_wait"], "B", &pipeline, waiting, "unexplained-waits"),
        (["--fault", "threads-as-world"], "B", &pipeline, waiting, "credit-for-waits"),
    ];
    let (fault, name, target, arguments, doubt) = ways[usize::try_from(run.seed % ways.len() as u64)?];
    let sandbox = Sandbox::new();
    let options = [&["--region", name, "--speedup", "50", "--seed", "1"], &fault[..]].concat();
    let ended = sandbox.profile(&options, target, arguments);
    if !has_answer(run, &ended) {
        return Ok(());
    }
    let report = sandbox.report();
    let of = region(&report, name);
    run.holds(format!("{fault:?}: the region is not trusted"), of["audit"]["trusted"] == false);
    let doubts = of["audit"]["doubts"].as_array().context("no doubts")?;
    run.holds(
        format!("{fault:?}: the doubt is {doubt}: {doubts:?}"),
        doubts.iter().any(|found| found == doubt),
    );
    run.holds(format!("{fault:?}: so is the verdict"), of["verdict"] == "not-trusted");
    let is_said = report["sentence"].as_str().is_some_and(|text| text.contains("not to be trusted"));
    run.holds(format!("{fault:?}: the sentence says so"), is_said);
    Ok(())
}

fn ab(run: &mut Run<'_>) -> Result<()> {
    let Some(turns) = compiled(run, program("turns.c")) else { return Ok(()) };
    let counts = kernel::visits::cost(kernel::visits::Means::Breakpoint).is_ok();
    let ends: (&[&str], &[&str]) = (&["--runs", "6", "--precision", "0.0001%"], &[]);
    let goes_on: (&[&str], &[&str]) =
        (&["--runs", "3", "--seconds", "0.5", "-p", "unit", "--warmup", "0"], &["forever"]);
    for (options, more) in [Some(ends), counts.then_some(goes_on)].into_iter().flatten() {
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["ab", "--json", "--seed", "1"]).args(options).arg("--").arg(&turns);
        command
            .args(["before", "1000000"])
            .args(more)
            .arg("--")
            .arg(&turns)
            .args(["after", "500000"])
            .args(more);
        let found: Value = serde_json::from_str(&sandbox::run(command).assert_code(0).stdout)?;
        let differences = found["differences"].as_array().context("no differences")?;
        let names: Vec<&str> = differences.iter().filter_map(|one| one["quantity"].as_str()).collect();
        let expected: &[&str] = if more.is_empty() { &["time", "cpu", "memory"] } else { &["visits"] };
        run.holds(format!("what is compared: {names:?}"), names == expected);
        // Half of the work is half of the time; what the machine does meanwhile is in the interval.
        for (difference, name) in differences.iter().zip(names).filter(|(_, name)| *name != "memory") {
            let (low, high) = (number(difference, "lo")?, number(difference, "hi")?);
            let error = (low - 0.5).max(0.5 - high).max(0.0);
            run.measured(format!("error of the gain in {name}"), error, 0.0..=MAX_ERROR_OF_AB);
        }
    }
    Ok(())
}
