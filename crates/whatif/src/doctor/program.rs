//! A program: whether it can be profiled, and what of it would be seen.

use super::finding::{Finding, State};
use controller::launch;
use std::ffi::OsString;
use symbols::{Image, NameSource, Scope, ScopeOptions};

/// At least so many of the functions set up a frame pointer if the compiler was told to.
const MOST: f64 = 0.5;
/// `command`: a program and its arguments.
pub fn look(command: &[OsString]) -> Vec<Finding> {
    let executable = match launch::check_to_start(&command[0]) {
        Ok(executable) => executable,
        Err(error) => {
            let text = error.to_string();
            let (found, means) = text.split_once('\n').unwrap_or((&text, "it cannot be profiled as it is"));
            return vec![Finding::new(
                "program",
                State::Problem,
                profile::printable(found),
                profile::printable(means),
            )];
        }
    };
    let mut findings = Vec::new();
    match executable.note() {
        _ if controller::leads_on(&executable) => findings.push(
            Finding::new(
                "program",
                State::Note,
                shown(executable.image()),
                "it leads to another program, which is the one that whatif run profiles",
            )
            .advice("look at that one: whatif doctor PROGRAM"),
        ),
        Some(note) => {
            findings.push(Finding::new("program", State::Note, shown(executable.image()), note));
        }
        None => findings.push(Finding::good("program", shown(executable.image()))),
    }
    findings.extend(executed(&executable, command));
    let image = match Image::open(executable.image()) {
        Ok(image) => image,
        Err(error) => {
            findings.push(Finding::new(
                "file",
                State::Problem,
                profile::printable(&error.to_string()),
                "nothing can be told apart in it",
            ));
            return findings;
        }
    };
    findings.extend([build(&image), debug_information(&image), callers(&image), allocator(&image)]);
    findings.push(points(&image, executable.image()));
    findings
}

/// What it seems to execute, as far as that can be read: which of that is profiled with it, and which is not.
fn executed(executable: &launch::Executable, command: &[OsString]) -> Vec<Finding> {
    let found = controller::outline(executable, command);
    let is_own = |program: &std::path::Path| program == executable.image();
    let (followed, others): (Vec<_>, Vec<_>) = found
        .into_iter()
        .filter(|(program, _)| !is_own(program))
        .partition(|(_, obstacle)| obstacle.is_none());
    let names = |programs: Vec<(std::path::PathBuf, Option<String>)>| -> Vec<String> {
        let name = |(program, obstacle): (std::path::PathBuf, Option<String>)| match obstacle {
            None => shown(&program),
            Some(why) => format!("{} ({})", shown(&program), profile::printable(&why)),
        };
        programs.into_iter().map(name).collect()
    };
    let (followed, others) = (names(followed), names(others));
    let good = (!followed.is_empty()).then(|| Finding::good("executes", some(&followed)));
    let left_alone = (!others.is_empty()).then(|| {
        let means = "this cannot be followed: its time counts as the world's";
        Finding::new("executes", State::Warning, some(&others), means)
    });
    good.into_iter().chain(left_alone).collect()
}

fn build(image: &Image) -> Finding {
    match image.build_id() {
        Some(id) => Finding::good("build ID", id),
        None => Finding::new(
            "build ID",
            State::Note,
            "none",
            "runs of different builds cannot be told apart when they are added up",
        )
        .advice("link with -Wl,--build-id"),
    }
}

fn debug_information(image: &Image) -> Finding {
    let add =
        "compile with -g (Rust: debug = 1 in the profile), or install the package with the debug symbols";
    let scope = Scope::new(ScopeOptions::default());
    let in_scope = scope.is_ok_and(|scope| image.has_line_info_in(&scope));
    if !in_scope && image.has_functions() {
        let found = match image.name_source() {
            NameSource::Symbols => "none of the program's own; functions by its symbols",
            NameSource::Go => "none; functions by Go's own table",
            NameSource::DynamicSymbols => "none; functions by dynamic symbols and addresses",
            NameSource::Addresses => "none; functions by addresses",
        };
        let means = "regions are whole functions, without lines and source";
        return Finding::new("debug information", State::Warning, found, means).advice(add);
    }
    let Ok(file) = image.debug_file() else {
        return Finding::new(
            "debug information",
            State::Problem,
            "none",
            "code cannot be told apart; only libraries with debug information can be profiled (--binary GLOB)",
        )
        .advice(add);
    };
    let place = if file == image.path() { "in the file".to_owned() } else { format!("in {}", shown(file)) };
    if !in_scope {
        return Finding::new(
            "debug information",
            State::Problem,
            format!("{place}, of libraries only"),
            "none of the program's own code is in scope",
        )
        .advice(add);
    }
    match image.damage() {
        Some(damage) => Finding::new(
            "debug information",
            State::Warning,
            place,
            format!("some of it is damaged: {}", profile::printable(&damage.to_string())),
        ),
        None => Finding::good("debug information", place),
    }
}

/// Callers are found by what compilers write down for exceptions, or else along frame pointers.
fn callers(image: &Image) -> Finding {
    if image.is_go() {
        return Finding::good("callers", "found along frame pointers, which Go always has");
    }
    let known = image.known_callers();
    if known >= MOST {
        return Finding::good(
            "callers",
            format!("found by .eh_frame for {:.0} % of the functions", 100.0 * known),
        );
    }
    let share = image.frame_pointers().unwrap_or(0.0);
    let found = format!(
        ".eh_frame for {:.0} % of the functions, frame pointers in {:.0} %",
        100.0 * known,
        100.0 * share
    );
    if share >= MOST {
        return Finding::good("callers", found);
    }
    Finding::new(
        "callers",
        State::Warning,
        found,
        "callers are not found: time in libraries and in the kernel is attributed to no caller, and --region FUNCTION misses what is called out of line",
    )
    .advice("compile with -fno-omit-frame-pointer (Rust: -C force-frame-pointers=yes), or without -fno-asynchronous-unwind-tables")
}

fn allocator(image: &Image) -> Finding {
    let others = ["jemalloc", "tcmalloc", "mimalloc", "libprofiler"];
    let mut needed = image.needed().into_iter();
    let other = needed.find(|library| others.iter().any(|name| library.contains(name)));
    let other = other.map(|library| profile::printable(&library).into_owned());
    Finding::good("allocator", other.unwrap_or_else(|| "the C library's, or its own".to_owned()))
}

/// Progress points: those in the source, and probes.
fn points(image: &Image, path: &std::path::Path) -> Finding {
    let marked = controller::is_marked(image);
    let mut probes: Vec<String> = image
        .probes()
        .into_iter()
        .map(|probe| format!("usdt:{}:{}", probe.provider, probe.name))
        .map(|probe| profile::printable(&probe).into_owned())
        .collect();
    probes.sort_unstable();
    probes.dedup();
    let command = controller::command(["whatif", "points", "--", &path.to_string_lossy()]);
    let place = format!("{command} suggests functions to count (-p fn:NAME)");
    match (marked, probes.len()) {
        (true, 0) => Finding::good("progress points", "marked in the source"),
        (true, n) => Finding::good(
            "progress points",
            format!("marked in the source; and {n} probes: {}", some(&probes)),
        ),
        (false, 0) => Finding::new(
            "progress points",
            State::Note,
            "none is marked in it",
            "say where a unit of work is done",
        )
        .advice(place),
        (false, n) => Finding::new(
            "progress points",
            State::Note,
            format!("none is marked in it; {n} probes: {}", some(&probes)),
            "a probe that is passed once for each unit of work will do: -p PROBE",
        )
        .advice(place),
    }
}

fn shown(path: &std::path::Path) -> String {
    profile::printable(&path.display().to_string()).into_owned()
}

fn some(names: &[String]) -> String {
    controller::list(names, 5)
}
