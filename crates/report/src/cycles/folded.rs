//! Folded stacks: `main;work 110`, one line for each stack of functions.

use cycles::{Flame, StackNode};
use profile::printable;
use std::fmt::Write as _;

/// Stacks ascending by name. A `;` in a name becomes `:`, and hostile characters are made visible.
pub fn folded(flame: &Flame) -> String {
    let names: Vec<String> = flame
        .names
        .iter()
        .map(|name| match printable(&name.function).replace(';', ":") {
            name if name.is_empty() => "?".to_owned(),
            name => name,
        })
        .collect();
    let mut lines: Vec<(String, u64)> = Vec::new();
    for (nth, one) in flame.boxes.iter().enumerate().filter(|(_, one)| one.own > 0) {
        let mut stack = Vec::new();
        let mut at = nth as u32;
        while at != StackNode::NONE {
            stack.push(names[flame.boxes[at as usize].name as usize].as_str());
            at = flame.boxes[at as usize].parent;
        }
        stack.reverse();
        lines.push((stack.join(";"), one.own));
    }
    lines.sort_unstable();
    let mut text = String::new();
    for same in lines.chunk_by(|(one, _), (other, _)| one == other) {
        let count: u64 = same.iter().map(|(_, count)| count).sum();
        let _ = writeln!(text, "{} {count}", same[0].0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cycles::Stacks;

    #[test]
    fn one_line_for_each_stack() {
        assert_eq!(
            folded(&Flame::new(&Stacks::example())),
            "main 1\nmain;work 100\nmain;work;tiny 10\nmain;work;work 1000\n"
        );
        let mut hostile = Flame::new(&Stacks::example());
        hostile.names[1].function = "a;b\n\u{1b}[2J 7".to_owned();
        assert_eq!(folded(&hostile).lines().nth(1).unwrap(), r"main;a:b\n\u{1b}[2J 7 100");
    }
}
