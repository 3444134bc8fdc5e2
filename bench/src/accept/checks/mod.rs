//! The checks of `bench accept`, by what they are about. What a check is, and when something belongs here: `CONTRIBUTING.md`.

pub mod accuracy;
mod answers;
mod attach;
mod continuous;
mod cost;
mod points;
mod signals;
mod trees;

pub use self::continuous::ask;
use crate::accept::check::Check;

/// All of them.
pub fn all() -> Vec<Check> {
    let groups = [
        answers::CHECKS,
        attach::CHECKS,
        continuous::CHECKS,
        cost::CHECKS,
        points::CHECKS,
        signals::CHECKS,
        trees::CHECKS,
    ];
    groups.iter().flat_map(|group| group.iter().cloned()).chain(accuracy::checks()).collect()
}
