//! The labels of a process, in its environment.

use archive::Environment;
use std::fs::File;
use std::io::{self, Read as _};

/// So much of an environment is looked at, in bytes.
const LONGEST: u64 = 1 << 17;

/// That of a process as it was when it last executed a program. It reads the memory of the process, which may hold it up for ever: see
/// [`Errands`](crate::errands::Errands).
///
/// # Errors
/// The process has gone, or may not be looked into.
pub fn environment(pid: u32) -> io::Result<Environment> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/environ"))?.take(LONGEST).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == LONGEST {
        // Of the last one there may be more.
        let end = bytes.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        bytes.truncate(end);
    }
    Ok(Environment::of(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_endless_environment_only_the_beginning_is_looked_at() {
        let mut bytes = b"WHATIF_LABELS=a=1\0".to_vec();
        bytes.resize(1 << 21, b'x');
        assert_eq!(Environment::of(&bytes).labels.len(), 1);
        // Of this process there is none.
        assert_eq!(environment(std::process::id()).unwrap().labels, Default::default());
        assert!(environment(u32::MAX).is_err());
    }
}
