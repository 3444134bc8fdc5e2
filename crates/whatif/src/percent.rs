//! Percentages, as they are typed.

use anyhow::{Context as _, Result};

/// `5%` as 0.05; a number without a sign is one of per cents, too.
///
/// # Errors
/// It is none.
pub fn percent(option: &str, text: &str) -> Result<f64> {
    profile::relation::part(text)
        .with_context(|| format!("{option} {text}: give a percentage above 0 and up to 100, such as 2%"))
}
