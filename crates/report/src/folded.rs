//! Folded stacks: the lines that flame graphs are made of.
//!
//! `program;caller;function;file:line 42`, one line for each stack that was sampled, with its samples; see `stacks.rs` for
//! what there is of a stack. A `;` in a name becomes `:`, and hostile characters are made visible.

use std::fmt::Write as _;

use profile::{Profile, printable};

use crate::stacks;

/// The samples of all runs, ascending by name.
pub fn render(profile: &Profile) -> String {
    let mut lines: Vec<(String, u64)> = stacks::of(profile)
        .iter()
        .filter(|stack| stack.tally.count > 0)
        .map(|stack| {
            let frames = std::iter::once(stack.program).chain(stack.names().map(|(name, _)| name));
            (frames.map(frame).collect::<Vec<_>>().join(";"), stack.tally.count)
        })
        .collect();
    lines.sort_unstable();
    let mut text = String::new();
    for same in lines.chunk_by(|(one, _), (other, _)| one == other) {
        let count: u64 = same.iter().map(|(_, count)| count).sum();
        writeln!(text, "{} {count}", same[0].0).expect("a string takes any text");
    }
    text
}

fn frame(name: &str) -> String {
    let name = printable(name).replace(';', ":");
    if name.is_empty() { "?".to_owned() } else { name }
}
