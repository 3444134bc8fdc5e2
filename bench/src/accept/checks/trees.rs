//! Trees of processes: who is followed, credited and ended; and programs that mark no progress point.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kernel::visits::Means;
use profile::{Audit, Rows};
use sandbox::{Ended, Sandbox, program, program_as, target, visits_of};

use crate::accept::check::{Check, Run, UNBOUNDED};

/// The checks.
pub const CHECKS: &[Check] = &[
    Check::of_runs("trees::an_executed_program_has_its_share", 4, shares),
    Check::of_runs("trees::visits_in_an_executed_program_are_complete", 4, visits),
    Check::of_runs("trees::visits_of_guarded_probes_are_complete", 12, guarded),
    Check::of_runs("trees::code_that_executed_programs_make_has_its_share", 5, made_code),
    Check::of_runs("trees::the_wait_for_a_vforked_child_is_known", 4, vforked),
    Check::of_runs("trees::turns_at_a_client_are_credited", 15, turns),
    Check::of_runs("unmarked::what_workers_do_is_suggested_first", 3, idle_master),
    Check::of_runs("unmarked::forked_workers_are_seen", 3, forked_workers),
    Check::of_runs("unmarked::what_is_called_for_each_request_is_known", 4, for_each_request),
    Check::of_runs("unmarked::the_library_that_has_the_time_is_looked_into", 6, library),
    Check::of_runs("unmarked::an_unvisited_point_makes_no_run_longer", 5, unvisited),
    Check::of_runs("unmarked::a_costly_point_is_refused_with_a_cooler_one", 4, costly),
];

/// 60 jobs take about fourteen times as long as a `prepare`, whatever else runs.
const JOBS_TO_PREPARES: std::ops::RangeInclusive<f64> = 5.0..=50.0;
/// Two counters of the same visits, which are not read at the same moment.
const COUNTED_TO_MARKED: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// The visits that these are compared over, at least.
const COMPARED_VISITS: u64 = 400;
/// Samples of generated code, as a share of those that its CPU time has. Those before its names are read have none.
const NAMED_SAMPLES: std::ops::RangeInclusive<f64> = 0.2..=1.3;
/// The part of the waits for a child that nothing explains, as a multiple of the part that is known: a busy machine lets threads wait for a CPU.
const MAX_UNEXPLAINED_TO_KNOWN: f64 = 1.0;
const WINDOWS_OF_VFORK: usize = 6;
/// The credit of four threads that wait for a client, as a multiple of what was inserted: as much for each, and less where one has no CPU.
const MIN_CREDIT_OF_FOUR: f64 = 0.5;
/// Visits a second.
const MIN_RATE_OF_WORKERS: f64 = 2.0;
/// Windows of a point that is not visited become longer, but not longer than the run that was asked for.
const SECONDS_OF_UNVISITED: f64 = 4.0;
const MAX_SECONDS_OF_UNVISITED: f64 = 5.0;
/// Connections of a server with an event loop.
const CLIENTS: usize = 6;
/// More jobs than are waited for.
const MANY: &str = "100000";

fn no_compiler(run: &mut Run) -> Result<()> {
    run.inconclusive("there is no compiler");
    Ok(())
}

/// Whether visits can be counted here; the run tells nothing if not.
fn can_count(run: &mut Run) -> bool {
    let tried = kernel::visits::cost(Means::Breakpoint);
    if let Err(error) = &tried {
        run.inconclusive(format!("no breakpoints here: {error}"));
    }
    tried.is_ok()
}

#[expect(clippy::cast_precision_loss, reason = "counts are compared, not added up")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// A program that executes another one, and that one.
fn master_and_worker() -> Option<(PathBuf, PathBuf)> {
    Some((program("master.c")?, program("worker.c")?))
}

fn shares(run: &mut Run) -> Result<()> {
    let Some((master, worker)) = master_and_worker() else { return no_compiler(run) };
    let sandbox = Sandbox::new();
    let words = ["20", worker.to_str().context("a path")?, "60", "7"];
    let ended = sandbox.profile(&["--speedup", "50"], &master, &words);
    run.holds("the status is passed on", ended.code() == Some(7));
    let prepares = sandbox.samples("prepare");
    run.counted("samples of prepare", prepares, 10..=u64::MAX);
    run.measured(
        "samples of job for each of prepare",
        ratio(sandbox.samples("job"), prepares),
        JOBS_TO_PREPARES,
    );
    let report = sandbox.report();
    let of = |name: &str| {
        let programs = report["programs"].as_array()?;
        programs.iter().find(|program| program["name"] == name)?["share"].as_f64()
    };
    let (worker, master) = (of("worker").context("no worker")?, of("master").context("no master")?);
    run.measured("CPU time of worker for that of master", worker / master, JOBS_TO_PREPARES);
    Ok(())
}

fn visits(run: &mut Run) -> Result<()> {
    let Some((master, worker)) = master_and_worker() else { return no_compiler(run) };
    if can_count(run) {
        let sandbox = Sandbox::new();
        let options = ["-p", "worker:fn:job", "--speedup", "50"];
        let words = ["1000", worker.to_str().context("a path")?, "60", "7"];
        let command = sandbox.profiling(&options, &master, &words);
        compare_visits(run, &sandbox, command, "worker:job", "done");
    }
    Ok(())
}

/// Profiles until there are visits enough, and compares those that were counted from outside with those that the program marks.
fn compare_visits(
    run: &mut Run,
    sandbox: &Sandbox,
    command: std::process::Command,
    counted: &str,
    marked: &str,
) -> Ended {
    let (mut of_counted, mut of_marked) = (0, 0);
    let ended = sandbox.run_until(command, |rows| {
        (of_counted, of_marked) = (visits_of(rows, counted), visits_of(rows, marked));
        of_marked >= COMPARED_VISITS
    });
    let what = format!("visits of {counted} that were counted for each that was marked");
    run.measured(what, ratio(of_counted, of_marked), COUNTED_TO_MARKED);
    ended
}

fn guarded(run: &mut Run) -> Result<()> {
    let guarded = program_as("guarded.c", "guarded-by-any-means", &[]);
    let (Some(master), Some(guarded)) = (program("master.c"), guarded) else { return no_compiler(run) };
    if !can_count(run) {
        return Ok(());
    }
    let [master, guarded] = [&master, &guarded].map(|path| path.to_str().unwrap_or_default());
    for (place, first, words) in [
        ("usdt:shop:sold", guarded, &["works"][..]),
        ("usdt:shop:sold", guarded, &["executes"]),
        ("guarded*:usdt:shop:sold", master, &["1", guarded, "works"]),
    ] {
        let sandbox = Sandbox::new();
        let options = ["--region", "hot", "--speedup", "50", "--until-exit", "first", "-p", place];
        let command = sandbox.profiling(&options, Path::new(first), words);
        compare_visits(run, &sandbox, command, &place.replace("usdt:", ""), "marked");
    }
    Ok(())
}

fn made_code(run: &mut Run) -> Result<()> {
    let Some(makers) = program("makers.c") else { return no_compiler(run) };
    let sandbox = Sandbox::new();
    sandbox.profile(&["--no-delays"], &makers, &[]).assert_success();
    // So many milliseconds of CPU time each, at the same address, and a sample in each of them.
    for (name, expected) in [("one", 1200), ("two", 400), ("inherited", 600), ("heir", 400), ("parent", 200)]
    {
        let samples = sandbox.samples(&format!("js:{name}"));
        let what = format!("samples of js:{name} for each millisecond");
        run.measured(what, ratio(samples, expected), NAMED_SAMPLES);
    }
    Ok(())
}

fn vforked(run: &mut Run) -> Result<()> {
    let Some(hands) = program("hands.c") else { return no_compiler(run) };
    let sandbox = Sandbox::new();
    let command = sandbox.profiling(&["--region", "hot", "--speedup", "50"], &hands, &["vfork"]);
    let mut seen = (0, 0);
    let ended = sandbox.run_until(command, |rows: &Rows| {
        let sum = |of: fn(&Audit) -> u64| {
            rows.windows.iter().filter_map(|window| window.audit.as_ref()).map(of).sum()
        };
        seen =
            (sum(|audit| audit.unexplained.get()), sum(|audit| audit.in_world.get() + audit.in_waits.get()));
        rows.windows.len() >= WINDOWS_OF_VFORK
    });
    ended.assert_success();
    let what = "waits that nothing explains for each that is known";
    run.measured(what, ratio(seen.0, seen.1), 0.0..=MAX_UNEXPLAINED_TO_KNOWN);
    Ok(())
}

/// Threads that take turns at a client are credited for what the others did.
fn turns(run: &mut Run) -> Result<()> {
    let Some(world) = target("world") else { return no_compiler(run) };
    // The listener stays a listener when a copy of it is closed.
    for closes in [&[][..], &["A=8", "closes=1"]] {
        let sandbox = Sandbox::new();
        // The client is another program, which is not profiled.
        let options = ["--no-follow", "--region", "A", "--speedup", "100"];
        let arguments = [&["seconds=6", "once=1", "workers=5"], closes].concat();
        let ended = sandbox.profile(&options, &world, &arguments).assert_success();
        if ended.code() != Some(0) {
            run.inconclusive("no answer");
            return Ok(());
        }
        let audit = &sandbox.explained("A")["audit"];
        let number = |name: &str| audit[name].as_f64().with_context(|| format!("no {name} in {audit:#}"));
        let what = format!("credit of four for each delay {closes:?}");
        run.measured(what, number("answered_ns")? / number("given_ns")?, MIN_CREDIT_OF_FOUR..=UNBOUNDED);
    }
    Ok(())
}

/// `whatif points` about a program.
fn points(seconds: &str, words: &[&str]) -> Ended {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["points", "--duration", seconds, "--"]).args(words);
    sandbox::run(command)
}

/// The idle loop of a master is not suggested before what its workers do.
fn idle_master(run: &mut Run) -> Result<()> {
    let worker = program_as("worker.c", "unmarked-worker", &["-DUNMARKED"]);
    let (Some(master), Some(worker)) = (program("idle_master.c"), worker) else { return no_compiler(run) };
    if can_count(run) {
        let [master, worker] = [&master, &worker].map(|path| path.to_str().unwrap_or_default());
        let ended = points("2", &[master, worker, MANY, "0"]);
        let first = ended.stderr.lines().find(|line| line.contains("  -p "));
        let is_worker = first.is_some_and(|line| line.contains("-p unmarked-worker:"));
        run.holds(format!("the worker comes first: {ended:#?}"), is_worker);
    }
    Ok(())
}

fn forked_workers(run: &mut Run) -> Result<()> {
    let Some(workers) = program("workers.c") else { return no_compiler(run) };
    if can_count(run) {
        let ended = points("1s", &[workers.to_str().context("a path")?]).assert_code(0);
        let serve = ended.stderr.lines().find(|line| line.contains("-p fn:serve"));
        let serve = serve.with_context(|| format!("no fn:serve in {ended:#?}"))?;
        // Visits a second, and what counting them costs beside them.
        let rate: f64 = serve.split_whitespace().next().unwrap_or_default().parse()?;
        run.measured("visits of serve a second", rate, MIN_RATE_OF_WORKERS..=UNBOUNDED);
        run.holds(format!("three shares: {serve}"), serve.matches('%').count() == 3);
        run.holds("the cost is explained", ended.stderr.contains("cost"));
    }
    Ok(())
}

/// A server whose event loop has several requests in a turn.
fn for_each_request(run: &mut Run) -> Result<()> {
    let Some(server) = program("event_loop_unmarked.c") else { return no_compiler(run) };
    if can_count(run) {
        let sandbox = Sandbox::new();
        let (socket, file) = (sandbox.path("socket"), sandbox.path("places.json"));
        let ended = sandbox::with_clients(&socket, CLIENTS, 1, || {
            let mut command = sandbox.whatif();
            command.args(["points", "--duration", "3s", "--json"]).arg(&file).arg("--").arg(&server);
            command.arg(&socket);
            sandbox::run(command)
        });
        let places: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
        let first = &places["places"][0];
        let is_request = first["place"] == "fn:request" && first["each_request"] == true;
        run.holds(format!("a request comes first: {places:#?} {ended:#?}"), is_request);
    }
    Ok(())
}

fn library(run: &mut Run) -> Result<()> {
    let Some(library) = program_as("pool.c", "libpool.so", &["-shared", "-fPIC"]) else {
        return no_compiler(run);
    };
    let folder = library.parent().context("a folder")?.display().to_string();
    let (search, path) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    let Some(pool) = program_as("pool.c", "pool", &["-DPROGRAM", &search, "-lpool", &path]) else {
        return no_compiler(run);
    };
    if !can_count(run) {
        return Ok(());
    }
    let ended = points("1s", &[pool.to_str().context("a path")?]).assert_code(0);
    let is_told = ended.stderr.contains("most of the time is in libpool.so");
    run.holds(format!("the library is named: {ended:#?}"), is_told);
    let line = ended.stderr.lines().find(|line| line.starts_with("Try: "));
    let line = line.with_context(|| format!("nothing to try in {ended:#?}"))?;
    run.holds(line, line.contains("--binary pool --binary libpool.so -p "));
    // It runs as it is printed.
    let sandbox = Sandbox::new();
    let typed = line.strip_prefix("Try: whatif run --duration 60 ").context(line.to_owned())?;
    let whatif = sandbox::whatif().display();
    let mut shell = sandbox.command("sh");
    shell.arg("-c").arg(format!("{whatif} run -q --duration 2s -o recording.db {typed}"));
    sandbox::run(shell).assert_success();
    let visits = sandbox.report()["points"][0]["visits"].as_u64().unwrap_or(0);
    run.counted("visits of what was suggested", visits, 1..=u64::MAX);
    Ok(())
}

fn unvisited(run: &mut Run) -> Result<()> {
    let Some(units) = program("units.c") else { return no_compiler(run) };
    if can_count(run) {
        let sandbox = Sandbox::new();
        // It is visited once, before the first experiment: windows get longer and longer, up to 1.6 s.
        let seconds = SECONDS_OF_UNVISITED.to_string();
        sandbox.profile(&["-p", "fn:main", "--duration", &seconds], &units, &[]).assert_success();
        let rows = profile::Recording::open(&sandbox.recording())?.rows()?;
        let ends = rows.windows.iter().map(|window| (window.start + window.elapsed).as_secs_f64());
        run.measured(
            "end of the last window in s",
            ends.fold(0.0, f64::max),
            0.01..=MAX_SECONDS_OF_UNVISITED,
        );
    }
    Ok(())
}

fn costly(run: &mut Run) -> Result<()> {
    let Some(often) = program("often.c") else { return no_compiler(run) };
    if can_count(run) {
        // A line: functions count their visits themselves.
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["run", "-o"]).arg(sandbox.recording()).args([
            "-p",
            "often.c:9",
            "--duration",
            "60s",
            "--",
        ]);
        command.arg(&often);
        let ended = sandbox::run(command).assert_code(90);
        let says = |what: &str| ended.stderr.contains(what);
        run.holds(format!("the cost is said: {ended:#?}"), says("counting visits to often.c:9 takes"));
        run.holds(format!("something cooler is suggested: {ended:#?}"), says("-p fn:seldom"));
        let again = ended.stderr.lines().any(|line| line.trim_start().starts_with("-p often.c:9"));
        run.holds("what was refused is not suggested", !again);
    }
    Ok(())
}
