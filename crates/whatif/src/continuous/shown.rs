//! How answers are shown: drawn for people, or as JSON.

use crate::show;
use anyhow::Result;
use report::cycles::Answer;
use std::io::IsTerminal as _;

/// Prints an answer for people or for programs.
pub fn answer(answer: &impl Answer, json: bool) -> Result<()> {
    match json {
        true => show::print(&answer.json()),
        false => show::print(&answer.draw(show::style(std::io::stdout().is_terminal(), 0))),
    }
}
