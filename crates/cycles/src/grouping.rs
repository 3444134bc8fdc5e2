//! `--by`: what samples are added up by: who ran, what code it was, or both.

use super::label_key::{LabelKey, NAMES};
use super::outside::Outside;
use anyhow::Result;
use archive::{CollectorEpoch, Database, EpochId, Group, Label, LabelId, MachineId, MachineInfo};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

/// Which code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKey {
    /// Programs, libraries and the kernel.
    Image,
    /// Functions.
    Function,
    /// Source lines.
    Line,
    /// Of time that threads wait, how, or who ended it.
    Outside(Outside),
}

impl CodeKey {
    const ALL: [(&'static str, CodeKey); 5] = [
        ("image", CodeKey::Image),
        ("function", CodeKey::Function),
        ("line", CodeKey::Line),
        ("wait", CodeKey::Outside(Outside::Wait)),
        ("waker", CodeKey::Outside(Outside::Waker)),
    ];
}

/// What samples are added up by, as it is typed: `unit,thread`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupBy {
    /// Who ran.
    pub labels: Vec<LabelKey>,
    /// Which code, if that matters.
    pub code: Option<CodeKey>,
}

impl FromStr for GroupBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut by = GroupBy { labels: Vec::new(), code: None };
        for name in text.split(',').map(str::trim) {
            let code = CodeKey::ALL.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
            match (code, LabelKey::named(name)) {
                (Some(_), _) if by.code.is_some() => {
                    return Err("give only one of function, image, line, wait and waker".to_owned());
                }
                (Some(code), _) => by.code = Some(code),
                (None, Some(key)) if by.labels.contains(&key) => {
                    return Err(format!("{name} is given twice; leave one out"));
                }
                (None, Some(key)) => by.labels.push(key),
                (None, None) => {
                    let name = profile::printable(name);
                    return Err(format!(
                        "'{name}' is nothing to add up by; there are: function, image, line, wait, waker, {NAMES}"
                    ));
                }
            }
        }
        Ok(by)
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = CodeKey::ALL.iter().filter(|(_, code)| Some(*code) == self.code).map(|(name, _)| *name);
        let names: Vec<String> =
            self.labels.iter().map(LabelKey::to_string).chain(code.map(str::to_owned)).collect();
        f.write_str(&names.join(","))
    }
}

/// The outermost boxes of a flame graph, as they are typed: `process,thread`, or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots(pub Vec<LabelKey>);

impl Default for Roots {
    fn default() -> Self {
        Self(vec![LabelKey::Process, LabelKey::Thread])
    }
}

impl FromStr for Roots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        match text.parse()? {
            GroupBy { labels, code: None } => Ok(Self(labels)),
            GroupBy { .. } => {
                Err("functions are above the roots already; give process, thread and such".to_owned())
            }
        }
    }
}

/// What stands for nothing: a process in no container, one without a label.
pub const NONE: &str = "[none]";

/// Who ran, by what is asked for.
pub struct Groups<'a> {
    by: &'a [LabelKey],
    labels: BTreeMap<LabelId, Label>,
    epochs: HashMap<EpochId, CollectorEpoch>,
    machines: BTreeMap<MachineId, MachineInfo>,
}

impl<'a> Groups<'a> {
    /// Of a database.
    ///
    /// # Errors
    /// What the database says.
    pub fn of(db: &Database, by: &'a [LabelKey]) -> Result<Self> {
        let epochs = db.epochs()?.into_iter().map(|epoch| (epoch.id, epoch)).collect();
        Ok(Self { by, labels: db.labels()?, epochs, machines: db.machines()? })
    }

    /// One text for each key.
    pub fn name(&self, group: Group) -> Vec<String> {
        let (label, epoch) = match group {
            Group::LabelAndEpoch(label, epoch) => (self.labels.get(&label), self.epochs.get(&epoch)),
            Group::Label(label) => (self.labels.get(&label), None),
            _ => (None, None),
        };
        let text = |key: &LabelKey| {
            let of_process = label.map(|label| key.of(label)).filter(|text| !text.is_empty());
            let of_epoch = || {
                let epoch = epoch?;
                Some(key.of_epoch(epoch, self.machines.get(&epoch.machine))).filter(|text| !text.is_empty())
            };
            match of_process {
                Some(text) => text.into_owned(),
                None => of_epoch().unwrap_or(NONE).to_owned(),
            }
        };
        self.by.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_a_list_of_keys() {
        for (text, expected) in [
            ("function", Ok("function")),
            ("unit,thread", Ok("unit,thread")),
            ("line, label.shard ,pid", Ok("label.shard,pid,line")),
            ("unit,waker", Ok("unit,waker")),
            ("function,line", Err("give only one of function, image, line, wait and waker")),
            ("unit,unit", Err("unit is given twice; leave one out")),
            ("", Err("'' is nothing to add up by; there are: function, image, line, wait, waker, process")),
            ("unit,x\u{1b}", Err("'x\\u{1b}' is nothing to add up by")),
        ] {
            let found = text.parse::<GroupBy>().map(|by| by.to_string());
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
                _ => panic!("{text}: {found:?}"),
            }
        }
        assert_eq!("none".parse(), Ok(Roots(Vec::new())));
        assert_eq!("process,thread".parse(), Ok(Roots::default()));
        assert!("process,function".parse::<Roots>().is_err());
    }
}
