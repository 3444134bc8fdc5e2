//! Mistakes in what was typed that are only found after the command line has been taken apart.

/// What was typed cannot be meant; ends with what is right. The exit status is [`STATUS`](Usage::STATUS).
#[derive(Debug)]
pub struct Usage(anyhow::Error);

impl Usage {
    /// The exit status of usage errors, as clap's own.
    pub const STATUS: i32 = 2;

    /// `error` as a mistake in what was typed, unless the system refused something.
    #[must_use]
    pub fn of(error: anyhow::Error) -> anyhow::Error {
        if error.root_cause().is::<std::io::Error>() { error } else { Self(error).into() }
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};

    #[test]
    fn what_the_system_refuses_is_no_mistake_of_the_user() {
        let typed = Usage::of(anyhow!("give per cents").context("--speedup x"));
        assert!(typed.is::<Usage>() && format!("{typed:#}") == "--speedup x: give per cents", "{typed:#}");
        let refused =
            Err::<(), _>(std::io::Error::from(std::io::ErrorKind::NotFound)).context("-p syscall:x");
        assert!(!Usage::of(refused.unwrap_err()).is::<Usage>());
    }
}
