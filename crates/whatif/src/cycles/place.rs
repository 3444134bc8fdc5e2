//! Where the database is if nobody says.

use anyhow::{Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the service keeps it.
const OF_THE_MACHINE: &str = "/var/lib/whatif";

/// The folder of the database: the one that was named, or else the default.
pub fn default_folder(named: Option<&Path>) -> Result<PathBuf> {
    match named {
        Some(named) => Ok(named.to_owned()),
        None => folder(|name| std::env::var_os(name), Path::is_dir),
    }
}

fn folder(variable: impl Fn(&str) -> Option<OsString>, is_dir: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_the_machine = || Some(PathBuf::from(OF_THE_MACHINE)).filter(|path| is_dir(path));
    let own = || {
        // A relative path has no meaning there (XDG base directory specification).
        let data = path("XDG_DATA_HOME").filter(|path| path.is_absolute());
        Some(data.or_else(|| Some(path("HOME")?.join(".local/share")))?.join("whatif/db"))
    };
    match path("WHATIF_DB").or_else(of_the_machine).or_else(own) {
        Some(folder) => Ok(folder),
        None => bail!("there is no home folder to keep a database in; name a folder with --db DIR"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_is_known_is_taken() {
        for (variables, machine, expected) in [
            (&[("WHATIF_DB", "db"), ("HOME", "/h")][..], true, Some("db")),
            (&[("WHATIF_DB", ""), ("HOME", "/h")], true, Some("/var/lib/whatif")),
            (&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")], false, Some("/x/whatif/db")),
            (&[("XDG_DATA_HOME", "x"), ("HOME", "/h")], false, Some("/h/.local/share/whatif/db")),
            (&[], false, None),
        ] {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(folder(variable, |_| machine).ok(), expected.map(PathBuf::from), "{variables:?}");
        }
    }
}
