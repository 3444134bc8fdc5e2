//! Where the database is if no option says so.

use anyhow::{Result, bail};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the service keeps it.
const OF_THE_MACHINE: &str = "/var/lib/whatif";

/// The folder of the database: the one that was named, or else the default.
pub fn default_folder(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let (folder, is_instead) = folder(|name| std::env::var_os(name), Path::is_dir, may_read)?;
    if is_instead {
        kernel::say!(
            "whatif: you may not read {OF_THE_MACHINE}, so this is your own database in {}; for the other one use sudo",
            folder.display()
        );
    }
    Ok(folder)
}

/// And whether it stands in for one that may not be read.
fn folder(
    variable: impl Fn(&str) -> Option<OsString>,
    is_dir: impl Fn(&Path) -> bool,
    may_read: impl Fn(&Path) -> bool,
) -> Result<(PathBuf, bool)> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = path("WHATIF_DB") {
        return Ok((folder, false));
    }
    // A relative path has no meaning there (XDG base directory specification).
    let data = path("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let own = data.or_else(|| Some(path("HOME")?.join(".local/share"))).map(|data| data.join("whatif/db"));
    let of_the_machine = Some(PathBuf::from(OF_THE_MACHINE)).filter(|path| is_dir(path));
    match (of_the_machine, own) {
        (Some(folder), Some(own)) if !may_read(&folder) && is_dir(&own) => Ok((own, true)),
        (Some(folder), _) | (None, Some(folder)) => Ok((folder, false)),
        (None, None) => bail!("there is no home folder to keep a database in; name a folder with --db DIR"),
    }
}

fn may_read(folder: &Path) -> bool {
    !std::fs::read_dir(folder).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_is_known_is_taken() {
        const MACHINE: &str = "/var/lib/whatif";
        let home = &[("HOME", "/h")][..];
        for (variables, folders, may_read, expected) in [
            (&[("WHATIF_DB", "db"), ("HOME", "/h")][..], &[MACHINE][..], true, Some(("db", false))),
            (&[("WHATIF_DB", ""), ("HOME", "/h")], &[MACHINE], true, Some((MACHINE, false))),
            (&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")], &[], true, Some(("/x/whatif/db", false))),
            (
                &[("XDG_DATA_HOME", "x"), ("HOME", "/h")],
                &[],
                true,
                Some(("/h/.local/share/whatif/db", false)),
            ),
            (home, &[MACHINE, "/h/.local/share/whatif/db"], true, Some((MACHINE, false))),
            (home, &[MACHINE, "/h/.local/share/whatif/db"], false, Some(("/h/.local/share/whatif/db", true))),
            // There is no other, so the error is about this one.
            (home, &[MACHINE], false, Some((MACHINE, false))),
            (&[], &[MACHINE], false, Some((MACHINE, false))),
            (&[], &[], true, None),
        ] {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            let is_dir = |path: &Path| folders.iter().any(|folder| path == Path::new(folder));
            let expected = expected.map(|(folder, is_instead)| (PathBuf::from(folder), is_instead));
            assert_eq!(folder(variable, is_dir, |_| may_read).ok(), expected, "{variables:?} {folders:?}");
        }
    }
}
