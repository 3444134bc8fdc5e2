//! `whatif report` and `whatif export`: the answer again, from a recording.

use crate::{cli, continuous};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use controller::Usage;
use profile::{Explanation, Profile};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Reads a recording, or a profile of Coz, and estimates from its rows.
pub fn load(path: &Path) -> Result<Profile> {
    if path.is_dir() {
        let of_database =
            |command: &str| profile::shell::command(["whatif", command, "--db", &path.to_string_lossy()]);
        return Err(Usage::of(anyhow!(
            "{} is a folder, and a recording is a file\n  if it is a database of continuous profiles: {}, or {}",
            path.display(),
            of_database("open"),
            of_database("top")
        )));
    }
    Ok(profile::coz::load_either(path)?)
}

/// The answer, on standard error: standard output is the program's.
pub fn after_run(profile: &Profile, path: &Path) {
    let style = style(std::io::stderr().is_terminal(), 10);
    kernel::say!("\n{}", report::terminal::render(profile, style));
    let again = profile::shell::command(["whatif", "report", &path.to_string_lossy()]);
    kernel::say!("whatif: recorded in {} (again: {again}; its statistics: --details)", path.display());
}

/// How to draw: as wide as the terminal, in colour if it is one and `NO_COLOR` is not set.
pub fn style(terminal: bool, top: usize) -> report::terminal::Style {
    let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let asked = std::env::var("COLUMNS").ok();
    let of_terminal = terminal_size::terminal_size().filter(|_| terminal);
    let width = width(asked.as_deref(), of_terminal.map(|(width, _)| usize::from(width.0)));
    report::terminal::Style { color, width, top, asked: false }
}

/// What `COLUMNS` asks for; else what the terminal has; else what most can show.
fn width(asked: Option<&str>, of_terminal: Option<usize>) -> usize {
    // More is no terminal's, and no reason to run out of memory.
    let asked = asked.and_then(|columns| columns.trim().parse().ok());
    asked.filter(|columns| (1..=10_000).contains(columns)).or(of_terminal).unwrap_or(100)
}

/// `whatif report`.
pub fn report(args: &cli::Report) -> Result<()> {
    let profile = load(&recording(args.file.as_deref())?)?;
    let usual = style(std::io::stdout().is_terminal(), 20);
    let style = args.top.map_or(usual, |top| report::terminal::Style { top, asked: true, ..usual });
    let explain = |region: &str| -> Result<Explanation<'_>> {
        profile.explain(region).map_err(|why| Usage::of(why.into()))
    };
    if let Some(region) = &args.region {
        return print(&report::terminal::render_curves(&explain(region)?, style));
    }
    let text = match (&args.explain, args.json) {
        (None, true) if args.brief => report::json::render_brief(&profile),
        (None, true) => report::json::render(&profile),
        (None, false) if args.details => report::terminal::render_details(&profile, style),
        (None, false) => report::terminal::render(&profile, style),
        (Some(region), true) => report::json::render_explanation(&explain(region)?),
        (Some(region), false) => report::terminal::render_explanation(&explain(region)?, style),
    };
    print(&text)
}

/// `whatif export`.
pub fn export(args: &cli::Export) -> Result<()> {
    if args.which != cycles::arguments::Which::default() || args.format == cli::Format::Otlp {
        ensure!(
            args.file.is_none(),
            "give either a recording, or --db DIR and what else selects samples of a database"
        );
        let content = continuous::export(&args.which, args.format)?;
        let is_text = !matches!(args.format, cli::Format::Pprof | cli::Format::Otlp);
        return match (&args.output, is_text) {
            (None, true) => put(&content),
            (output, _) => write(output.as_deref(), &content),
        };
    }
    let profile = load(&recording(args.file.as_deref())?)?;
    let text = match args.format {
        cli::Format::Json => report::json::render(&profile),
        cli::Format::Html => report::html::render(&profile),
        cli::Format::Coz => report::coz::render_legacy(&profile),
        cli::Format::CozJsonl => report::coz::render_jsonl(&profile),
        cli::Format::Firefox => report::firefox::render(&profile),
        cli::Format::Folded => report::folded::render(&profile),
        cli::Format::Csv => report::csv::render(&profile),
        cli::Format::Markdown => report::markdown::render(&profile),
        cli::Format::Pprof => return write(args.output.as_deref(), &report::pprof::render(&profile)),
        cli::Format::Otlp => unreachable!("it is of databases only"),
    };
    match &args.output {
        Some(_) => write(args.output.as_deref(), text.as_bytes()),
        None => print(&text),
    }
}

/// Writes what need not be text.
fn write(output: Option<&Path>, content: &[u8]) -> Result<()> {
    match output {
        Some(path) => std::fs::write(path, content)
            .with_context(|| format!("cannot write {}; choose another place with -o FILE", path.display())),
        None if std::io::stdout().is_terminal() => {
            bail!("this format is nothing for a terminal; give a file with -o FILE")
        }
        None => put(content),
    }
}

/// Writes a text to standard output, with a newline at its end.
pub fn print(text: &str) -> Result<()> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    put([text, newline].concat().as_bytes())
}

/// Writes to standard output; a reader that has seen enough (`| head`) is no error.
fn put(content: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// The recording that was named, or the newest one here.
pub fn recording(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let mut newest = None;
    for entry in std::fs::read_dir(".").context("cannot list this folder; name a recording")?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("whatif-") && name.ends_with(".db") {
            let time = entry.metadata().and_then(|data| data.modified()).ok();
            newest = newest.max(Some((time, entry.path())));
        }
    }
    match newest {
        Some((_, path)) => Ok(path),
        None => bail!("no recording (whatif-*.db) in this folder; make one with: whatif run -- PROGRAM"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_what_was_asked_for() {
        for (asked, of_terminal, expected) in [
            (None, None, 100),
            (None, Some(80), 80),
            (Some("72"), Some(80), 72),
            (Some("72"), None, 72),
            (Some(""), Some(80), 80),
            (Some("0"), None, 100),
            (Some("-5"), None, 100),
            (Some("99999999999999999999999"), Some(80), 80),
            (Some("100000"), None, 100),
        ] {
            assert_eq!(width(asked, of_terminal), expected, "{asked:?} {of_terminal:?}");
        }
    }
}
