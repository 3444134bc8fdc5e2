//! The file of `--config`: an option a line, as on the command line but without quotes and without the two dashes. Pure: its text is handed in.

use super::cli::Agent;
use anyhow::{Context as _, Result, bail, ensure};
use std::ffi::OsString;
use std::path::Path;

/// The options in a text, as words of a command line. `path` is for messages.
///
/// # Errors
/// The line that is no option, and what is one.
pub fn words(text: &str, path: &Path) -> Result<Vec<OsString>> {
    let options = Agent::options();
    let mut words = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = || format!("{}, line {}", path.display(), nth + 1);
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (name, value) = (name.trim_start_matches("--"), value.trim());
        let known = options.iter().find(|(known, _)| known == name);
        let Some((_, takes_value)) = known else {
            let near = symbols::nearest_names(name, options.iter().map(|(known, _)| known.as_str()));
            let near = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            bail!("{}: {} is no option{near}; whatif agent --help lists them", at(), profile::printable(name))
        };
        ensure!(name != "config", "{}: a file that is named by --config cannot name another one", at());
        match (takes_value, value) {
            (true, "") => {
                bail!("{}: {name} is without a value; whatif agent --help says what it takes", at())
            }
            (true, value) => words.push(format!("--{name}={value}").into()),
            (false, "") => words.push(format!("--{name}").into()),
            (false, value) => {
                bail!("{}: {name} takes no value, and there is {}", at(), profile::printable(value))
            }
        }
    }
    Ok(words)
}

/// The command line with the options of a file before the others.
///
/// # Errors
/// The file cannot be read, or is wrong.
pub fn with(path: &Path, typed: impl Iterator<Item = OsString>) -> Result<Agent> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read; name another file with --config", path.display()))?;
    let mut all: Vec<OsString> = vec!["whatif agent".into()];
    all.extend(words(&text, path)?);
    let mut is_path = false;
    all.extend(typed.filter(|word| {
        let was_path = std::mem::replace(&mut is_path, word == "--config");
        !was_path && !is_path && !word.to_string_lossy().starts_with("--config=")
    }));
    Agent::with(all).map_err(|error| {
        let text = error.to_string();
        anyhow::anyhow!("{}: {}", path.display(), text.trim_start_matches("error: ").trim_end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_option() {
        let text = "# The shop\n\nexperiment unit=shop.service\n  --point fn:handle\n  guard throughput < 80% over 2s\n\
                    guard health: curl -fsS 'http://localhost/a b'\nquiet\n";
        let words = words(text, Path::new("agent.conf")).unwrap();
        let expected = [
            "--experiment=unit=shop.service",
            "--point=fn:handle",
            "--guard=throughput < 80% over 2s",
            "--guard=health: curl -fsS 'http://localhost/a b'",
            "--quiet",
        ];
        assert_eq!(words, expected.map(OsString::from));
        for (text, what) in [
            ("experiment", "without a value"),
            ("quiet yes", "takes no value"),
            ("\nexperimnt unit=x", "line 2: experimnt is no option; did you mean experiment?"),
            ("config other", "cannot name another one"),
        ] {
            let error = super::words(text, Path::new("agent.conf")).unwrap_err().to_string();
            assert!(error.starts_with("agent.conf, line ") && error.contains(what), "{error}");
        }
    }

    #[test]
    fn what_is_typed_comes_behind_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.conf");
        std::fs::write(&path, "duty 5%\nexperiment unit=shop\npoint fn:a\n").unwrap();
        let typed = ["--config", path.to_str().unwrap(), "--duty", "1%"].map(OsString::from);
        let agent = with(&path, typed.into_iter()).unwrap();
        assert_eq!((agent.typed.duty.as_str(), agent.services.len(), &agent.typed.config), ("1%", 1, &None));
        let error = with(&folder.path().join("nothing"), std::iter::empty()).unwrap_err().to_string();
        assert!(error.contains("--config"), "{error}");
    }
}
