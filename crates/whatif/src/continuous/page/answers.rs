//! Answers: each from the same function that the command has its answer from, as JSON for the page.

use super::asked::{Asked, Filters, Times};
use anyhow::{Context as _, Result};
use archive::Database;
use cycles::arguments::{self, Causes, Compared, Per, Which};
use cycles::{CodeKey, GroupBy, Heat, HeatArguments, HeatRows, Query, Worths};
use profile::shell;
use report::cycles::{flame_line, line};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

/// Functions in a table.
const LISTED: usize = 200;
/// In a page of its own: columns and rows of a map.
const COLUMNS: usize = 240;
const ROWS: usize = 25;

/// What was typed, understood.
pub struct Settings {
    folder: PathBuf,
    which: Which,
    /// What the page shows first.
    first: Filters,
    causes: Causes,
}

impl Settings {
    pub fn new(which: &Which, causes: &Causes) -> Result<Settings> {
        let (folder, db) = cycles::open(which.folder.db.as_deref())?;
        let at = |text: &Option<String>, name: &'static str| {
            let time = text.as_deref().map(cycles::parse_time).transpose();
            time.map(|time| time.map(|time| time.0)).map_err(anyhow::Error::msg).context(name)
        };
        let times = Times { since: at(&which.since, "--since")?, until: at(&which.until, "--until")? };
        let first = Filters {
            times,
            machine: which.machine.clone(),
            cgroup: which.cgroup.clone(),
            process: which.process.clone(),
            image: which.image.clone(),
            only: which.only.as_ref().map(ToString::to_string),
            event: which.event.clone().or(which.off_cpu.then(|| cycles::OFF_CPU.to_owned())),
            epoch: which.epoch.clone(),
            idle: which.idle,
        };
        drop(db);
        let settings = Settings { which: first.which(&folder), folder, first, causes: causes.clone() };
        // Rather an error here than on the page.
        Query::new(&settings.which)?;
        Ok(settings)
    }

    /// The database, for people.
    pub fn said(&self) -> String {
        profile::printable(&self.folder.to_string_lossy()).into_owned()
    }

    /// What the page begins with.
    pub fn beginning(&self) -> String {
        let Filters { times, machine, cgroup, process, image, only, event, epoch, idle } = &self.first;
        let first = serde_json::json!({
            "since": times.since, "until": times.until, "machine": machine, "cgroup": cgroup, "process": process,
            "image": image, "where": only, "event": event, "epoch": epoch, "idle": idle,
        });
        let rows = HeatRows::ALL.map(HeatRows::name);
        let of = serde_json::json!({ "database": self.folder.to_string_lossy(), "first": first, "by": rows });
        line("database", &of)
    }

    /// A number that is another one when there are other samples or recordings.
    pub fn revision(&self) -> Option<u64> {
        let db = Database::open(&self.folder).ok()?;
        let mut hasher = DefaultHasher::new();
        db.revision().ok()?.hash(&mut hasher);
        for path in db.recordings().iter().chain(&self.causes.recordings) {
            let metadata = std::fs::metadata(path).ok();
            (path, metadata.map(|of| (of.len(), of.modified().ok()))).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    fn command(&self, command: &[&str], rest: Vec<String>) -> String {
        let mut words: Vec<String> =
            ["whatif"].iter().chain(command).map(|word| (*word).to_owned()).collect();
        words.extend(rest);
        words.extend(
            self.causes
                .recordings
                .iter()
                .flat_map(|path| ["--recording".to_owned(), path.to_string_lossy().into_owned()]),
        );
        if self.causes.no_recordings {
            words.push("--no-recordings".to_owned());
        }
        shell::command(words)
    }
}

/// The answer as JSON, or why there is none.
pub fn answer(settings: &Settings, asked: &Asked) -> Result<String, String> {
    let found = match asked {
        Asked::Heat { filters, by, columns, rows } => {
            let which = filters.which(&settings.folder);
            heat(settings, &which, *by, *columns, *rows).map(|heat| line("heat", &heat))
        }
        Asked::Span { filters } => span(settings, &filters.which(&settings.folder)),
        Asked::Difference { filters, from, to } => {
            difference(settings, filters.which(&settings.folder), *from, *to)
        }
    };
    // The names in it are other people's.
    found.map_err(|error| {
        let lines = format!("{error:#}");
        lines.lines().map(profile::printable).collect::<Vec<_>>().join("\n")
    })
}

fn heat(settings: &Settings, which: &Which, by: HeatRows, columns: usize, rows: usize) -> Result<Heat> {
    let causes = settings.causes.clone();
    cycles::heat(&HeatArguments { which: which.clone(), causes, by, columns, rows })
}

/// The table and the flame graph of `whatif top` and `whatif flame`, and these commands.
fn span(settings: &Settings, which: &Which) -> Result<String> {
    let causes = &settings.causes;
    let top = cycles::top(&arguments::Top {
        which: which.clone(),
        causes: causes.clone(),
        by: GroupBy { labels: Vec::new(), code: Some(CodeKey::Function) },
        top: LISTED,
        total: false,
        json: true,
    })?;
    let mut query = Query::new(which)?;
    let mut flame = cycles::flame(&mut query)?;
    cycles::value(&mut flame, &query, &Worths::load(causes, &query.db)?);
    let next = [
        settings.command(&["top"], which.words()),
        settings
            .command(&["flame"], [which.words(), vec!["-o".to_owned(), "flame.html".to_owned()]].concat()),
    ];
    Ok(joined("span", &line("top", &top), &flame_line(&query.heading, &flame, None), &next))
}

/// The table and the flame graph of `whatif diff`, and the commands.
fn difference(settings: &Settings, which: Which, from: Times, to: Times) -> Result<String> {
    let spans = [from.typed_as_span(), to.typed_as_span()];
    let [before, after] = spans.clone().map(Some);
    let args = arguments::Diff {
        before,
        after,
        which,
        causes: settings.causes.clone(),
        by: Compared::Function,
        per: Per::Share,
        top: LISTED,
        flame: None,
        fail_if: Vec::new(),
        json: true,
    };
    let diff = cycles::diff(&args)?;
    let (query, flame) = cycles::flames(&args)?;
    let flame = flame_line(&query.heading, &flame, Some(&spans[0]));
    let words = [args.which.words(), spans.to_vec()].concat();
    let next = [
        settings.command(&["diff"], words.clone()),
        settings
            .command(&["diff"], [words, vec!["--flame".to_owned(), "difference.html".to_owned()]].concat()),
    ];
    Ok(joined("difference", &line("diff", &diff), &flame, &next))
}

/// Texts that are JSON already, as parts of one object.
fn joined(kind: &str, table: &str, flame: &str, next: &[String]) -> String {
    let next = serde_json::json!(next);
    format!(r#"{{"kind":"{kind}","table":{table},"flame":{flame},"next":{next}}}"#)
}

/// Everything of the page that is a file: the map by each kind of rows, and the whole span.
pub fn alone(settings: &Settings) -> Result<String> {
    let which = &settings.which;
    let mut heats = Vec::new();
    for by in HeatRows::ALL {
        heats.push(line("heat", &heat(settings, which, by, COLUMNS, ROWS)?));
    }
    let span = span(settings, which)?;
    let beginning = settings.beginning();
    let rest = beginning.strip_suffix('}').unwrap_or(&beginning);
    Ok(format!(r#"{rest},"heats":[{}],"span":{span}}}"#, heats.join(",")))
}
