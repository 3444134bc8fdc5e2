//! `whatif compare`: what is different in another recording; and a gate for CI.
//!
//! sample → delay → experiment → record → profile → **report**
//!
//! **Does:** print a [`Comparison`] and judge the conditions of `--fail-if`. **Does not:** compare: that is
//! `profile`'s. **Constraints:** a gate fails only for what is certain, and is never passed because what it
//! asks about was not measured.

pub mod gate;

use profile::condition::Condition;

use crate::{cli, show};
use anyhow::{Context as _, Result};
use profile::{Comparison, EstimateOptions};
use std::io::IsTerminal as _;

/// `whatif compare`. Returns the exit status.
pub fn compare(args: &cli::Compare) -> Result<i32> {
    let (before, after) = (show::load(&args.before)?, show::load(&args.after)?);
    let comparison = Comparison::new(&before, &after, &EstimateOptions::default());
    let text = if args.json {
        report::json::render_comparison(&comparison)
    } else {
        let style = show::style(std::io::stdout().is_terminal(), args.top);
        report::terminal::render_comparison(&comparison, style)
    };
    show::print(&text)?;
    if let Some(path) = &args.html {
        std::fs::write(path, report::html::render_comparison(&comparison)).with_context(|| {
            format!("cannot write {}; choose another place with --html FILE", path.display())
        })?;
    }
    let compared = if comparison.has_common_point() { 0 } else { gate::CANNOT_BE_JUDGED };
    Ok(args.fail_if.iter().map(|condition| judge(&comparison, condition)).fold(compared, i32::max))
}

fn judge(comparison: &Comparison<'_>, condition: &Condition) -> i32 {
    let advice = "longer recordings, or more runs in each, make the interval narrower";
    gate::say(condition, gate::judge(comparison, condition), advice)
}
