//! The tools: what can be asked for, and which of our commands answers it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use profile::Recording;
use rmcp::RoleServer;
use rmcp::model::{JsonObject, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::command::{Asked, Ended, Running};

/// How long a program is profiled if nothing is said, in seconds.
const RUN_SECONDS: f64 = 30.0;
/// How long places for points are looked for if nothing is said, in seconds.
const POINTS_SECONDS: f64 = 3.0;
/// What of a comparison an assistant needs; regions are in the sentence where they matter.
const OF_COMPARISON: [&str; 3] = ["sentence", "points", "warnings"];

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Points,
    Run,
    Report,
    Compare,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    program: Vec<String>,
    directory: Option<PathBuf>,
    seconds: Option<f64>,
    #[serde(default)]
    scope: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    program: Vec<String>,
    recording: String,
    directory: Option<PathBuf>,
    seconds: Option<f64>,
    #[serde(default)]
    points: Vec<String>,
    #[serde(default)]
    regions: Vec<String>,
    #[serde(default)]
    scope: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    recording: PathBuf,
    explain: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    before: PathBuf,
    after: PathBuf,
}

impl Tool {
    pub const ALL: [Self; 4] = [Self::Points, Self::Run, Self::Report, Self::Compare];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::Run => "run",
            Self::Report => "report",
            Self::Compare => "compare",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Points => {
                "Run a program for some seconds, and list places in it that would do as progress points: how often each is visited, and what \
                 counting there costs. `run` finds one by itself; this is for a better one."
            }
            Self::Run => {
                "Run a program and make experiments: what is less time in a piece of its code worth? Answers with the pieces, the gain from \
                 20 % less time in each, its interval, how sure that is, and commands that narrow it. A recording that exists gets another \
                 session. The program is asked to end after `seconds`; its standard output is dropped."
            }
            Self::Report => {
                "Answer again from a recording; with `explain`, all numbers behind one piece of code, as text."
            }
            Self::Compare => {
                "Compare a recording from before a change with one from after it: how much less time a piece of work takes, with intervals."
            }
        }
    }

    /// As clients list it.
    pub fn description(self) -> rmcp::model::Tool {
        let mut annotations = ToolAnnotations::new();
        annotations.read_only_hint = Some(matches!(self, Self::Report | Self::Compare));
        rmcp::model::Tool::new(self.name(), self.what(), self.schema()).with_annotations(annotations)
    }

    fn schema(self) -> JsonObject {
        let text = |what: &str| json!({"type": "string", "description": what});
        let texts = |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
        let seconds = |most: f64| json!({"type": "number", "exclusiveMinimum": 0, "description": format!("how long, in seconds [default: {most}]")});
        let program = texts("the program and its arguments, one word each; no shell reads them");
        let directory =
            text("where it runs, and where relative paths begin [default: where the server was started]");
        let scope = texts("source files that could be changed, as globs [default: the program's own]");
        let (properties, required) = match self {
            Self::Points => (
                json!({"program": program, "directory": directory, "seconds": seconds(POINTS_SECONDS), "scope": scope}),
                json!(["program"]),
            ),
            Self::Run => (
                json!({
                    "program": program,
                    "recording": text("the file to write, as in before.db; other tools take the path that is answered"),
                    "directory": directory,
                    "seconds": seconds(RUN_SECONDS),
                    "points": texts("places that count progress: fn:NAME or FILE:LINE [default: those that the program marks, or a place that is found]"),
                    "regions": texts("only try this code: a function or FILE:LINE"),
                    "scope": scope,
                }),
                json!(["program", "recording"]),
            ),
            Self::Report => (
                json!({"recording": text("the file"), "explain": text("a piece of code: a part of its name is enough")}),
                json!(["recording"]),
            ),
            Self::Compare => (
                json!({"before": text("the recording from before the change"), "after": text("the one from after it")}),
                json!(["before", "after"]),
            ),
        };
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        serde_json::from_value(schema).expect("it is an object")
    }

    /// Answers a call.
    pub async fn call(
        self,
        arguments: Value,
        running: &Running,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        match self {
            Self::Points => points(parsed(arguments)?, running, context).await,
            Self::Run => run(parsed(arguments)?, running, context).await,
            Self::Report => report(parsed(arguments)?, running, context).await,
            Self::Compare => compare(parsed(arguments)?, running, context).await,
        }
    }
}

fn parsed<T: DeserializeOwned>(arguments: Value) -> Result<T> {
    serde_json::from_value(arguments).context("these arguments do not fit")
}

/// How long, if that can be so.
fn duration(seconds: Option<f64>, default: f64) -> Result<f64> {
    let seconds = seconds.unwrap_or(default);
    ensure!(seconds > 0.0 && seconds.is_finite(), "`seconds` has to be more than 0");
    Ok(seconds)
}

/// The options before a program, and the program.
fn with_program(command: &str, options: &[(&str, &[String])], program: &[String]) -> Result<Vec<OsString>> {
    ensure!(!program.is_empty(), "`program` is empty: [\"./server\", \"--port\", \"8080\"]");
    let mut words: Vec<OsString> = vec![command.into()];
    for (option, values) in options {
        // In one word, so that no value is taken for an option.
        words.extend(values.iter().map(|value| format!("{option}={value}").into()));
    }
    words.push("--".into());
    words.extend(program.iter().map(Into::into));
    Ok(words)
}

async fn points(asked: Points, running: &Running, context: &RequestContext<RoleServer>) -> Result<Value> {
    let seconds = duration(asked.seconds, POINTS_SECONDS)?;
    let folder = tempfile::tempdir()?;
    let places = folder.path().join("points.json");
    let options = [
        ("--duration", &[seconds.to_string()][..]),
        ("--json", &[places.to_string_lossy().into_owned()]),
        ("--scope", &asked.scope),
    ];
    let arguments = with_program("points", &options, &asked.program)?;
    let directory = asked.directory.as_deref();
    let ended = running.run(Asked { arguments, directory, seconds: Some(seconds) }, context).await?;
    let Ok(text) = std::fs::read_to_string(&places) else {
        bail!("nothing was found (status {}): {}", ended.status, ended.said.trim_end())
    };
    let places: Value = serde_json::from_str(&text).context("reading what `whatif points` wrote")?;
    Ok(json!({"status": ended.status, "found": places, "said": ended.said}))
}

async fn run(asked: Run, running: &Running, context: &RequestContext<RoleServer>) -> Result<Value> {
    let seconds = duration(asked.seconds, RUN_SECONDS)?;
    let options = [
        ("--duration", &[seconds.to_string()][..]),
        ("--output", std::slice::from_ref(&asked.recording)),
        ("--point", &asked.points),
        ("--region", &asked.regions),
        ("--scope", &asked.scope),
    ];
    let mut arguments = with_program("run", &options, &asked.program)?;
    arguments.insert(1, "--quiet".into());
    let directory = asked.directory.as_deref();
    let recording = std::path::absolute(directory.unwrap_or(Path::new("")).join(&asked.recording))?;
    let before = sessions(&recording);
    let ended = running.run(Asked { arguments, directory, seconds: Some(seconds) }, context).await?;
    // What was recorded earlier is no answer to this.
    let is_recorded = sessions(&recording) > before;
    ensure!(is_recorded, "nothing was recorded (status {}): {}", ended.status, ended.said.trim_end());
    let answer = brief(&recording, running, context).await?;
    Ok(json!({"status": ended.status, "recording": recording, "answer": answer, "said": ended.said}))
}

async fn report(asked: Report, running: &Running, context: &RequestContext<RoleServer>) -> Result<Value> {
    let Some(region) = asked.explain else { return brief(&asked.recording, running, context).await };
    let words = ["report".into(), format!("--explain={region}").into(), "--".into(), asked.recording.into()];
    let ended = answer_of(words.into(), running, context).await?;
    ensure!(ended.status == 0, "{}", why(&ended));
    Ok(json!({"explanation": ended.answer}))
}

async fn compare(asked: Compare, running: &Running, context: &RequestContext<RoleServer>) -> Result<Value> {
    let words = ["compare".into(), "--json".into(), "--".into(), asked.before.into(), asked.after.into()];
    let mut comparison = json_of(words.into(), running, context).await?;
    if let Some(fields) = comparison.as_object_mut() {
        fields.retain(|name, _| OF_COMPARISON.contains(&name.as_str()));
    }
    Ok(comparison)
}

/// The answer in two kilobytes.
async fn brief(recording: &Path, running: &Running, context: &RequestContext<RoleServer>) -> Result<Value> {
    let words = ["report".into(), "--json".into(), "--brief".into(), "--".into(), recording.into()];
    json_of(words.into(), running, context).await
}

/// What a command says as JSON, also where its status says that nothing can be told.
async fn json_of(
    arguments: Vec<OsString>,
    running: &Running,
    context: &RequestContext<RoleServer>,
) -> Result<Value> {
    let ended = answer_of(arguments, running, context).await?;
    serde_json::from_str(&ended.answer).map_err(|_| anyhow!("{}", why(&ended)))
}

async fn answer_of(
    arguments: Vec<OsString>,
    running: &Running,
    context: &RequestContext<RoleServer>,
) -> Result<Ended> {
    running.run(Asked { arguments, directory: None, seconds: None }, context).await
}

/// Why a command has not answered.
fn why(ended: &Ended) -> String {
    match ended.said.trim_end() {
        "" => format!("no answer: whatif has ended with status {}", ended.status),
        said => said.to_owned(),
    }
}

/// How many sessions a recording has; none if it is not there.
fn sessions(recording: &Path) -> usize {
    let sessions = Recording::open(recording).and_then(|recording| recording.sessions());
    sessions.map_or(0, |sessions| sessions.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_takes_what_its_schema_says() {
        for tool in Tool::ALL {
            let schema = tool.schema();
            let properties = schema["properties"].as_object().unwrap();
            let example = |(name, of): (&String, &Value)| {
                let value = match of["type"].as_str().unwrap() {
                    "string" => json!("x"),
                    "number" => json!(1.5),
                    _ => json!(["x"]),
                };
                (name.clone(), value)
            };
            let all: Value = properties.iter().map(example).collect::<serde_json::Map<_, _>>().into();
            let required = schema["required"].as_array().unwrap();
            let least: serde_json::Map<_, _> = required
                .iter()
                .map(|name| (name.as_str().unwrap().into(), all[name.as_str().unwrap()].clone()))
                .collect();
            let takes = |arguments: Value| match tool {
                Tool::Points => parsed::<Points>(arguments).map(drop),
                Tool::Run => parsed::<Run>(arguments).map(drop),
                Tool::Report => parsed::<Report>(arguments).map(drop),
                Tool::Compare => parsed::<Compare>(arguments).map(drop),
            };
            takes(all.clone()).unwrap();
            takes(least.clone().into()).unwrap();
            for name in required {
                let mut fewer = least.clone();
                fewer.remove(name.as_str().unwrap());
                takes(fewer.into()).unwrap_err();
            }
            let mut more = all;
            more["colour"] = json!("red");
            takes(more).unwrap_err();
        }
    }

    #[test]
    fn no_value_is_taken_for_an_option() {
        let words = with_program("run", &[("--point", &["--help".into()])], &["--version".into()]).unwrap();
        assert_eq!(words, ["run", "--point=--help", "--", "--version"]);
        assert!(with_program("run", &[], &[]).is_err());
    }
}
