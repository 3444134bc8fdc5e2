//! Conditions: what can be typed after `--fail-if` about gains and about what code is worth. Only understands them.

use crate::relation::{Relation, number, percent};
use std::str::FromStr;

/// The right syntax, for error messages.
const RIGHT: &str = "write 'gain(POINT) < -3%' or 'slope(REGION, POINT) > 0.5', with <, <=, > or >=";

/// `gain(POINT) < -3%` or `slope(REGION, POINT) > 0.5`.
///
/// Names stand as they are, without quotes: everything up to the last parenthesis belongs to them, so that
/// `operator()(int)` and `Vec<T>::push` need no escapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was typed.
    pub text: String,
    /// What is compared.
    pub quantity: Quantity,
    /// How it is compared.
    pub relation: Relation,
    /// What it is compared with, as a fraction.
    pub limit: f64,
}

/// A number that a comparison knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// The fraction of a point's period (or latency) that disappeared from the first recording to the second.
    Gain(String),
    /// The slope of a region on a point in the second recording: `REGION, POINT` as typed, since names may
    /// have commas of their own.
    Slope(String),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = |what: &str| format!("{what}: {RIGHT}");
        let (subject, rest) =
            text.rsplit_once(')').ok_or_else(|| wrong("there is no name in parentheses"))?;
        let (quantity, name) = subject.split_once('(').ok_or_else(|| wrong("a '(' is missing"))?;
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(wrong("the parentheses are empty"));
        }
        let (relation, limit) = Relation::first_of(rest.trim_start()).map_err(|what| wrong(&what))?;
        let (quantity, limit) = match quantity.trim() {
            "gain" => (Quantity::Gain(name), percent(limit, "a gain").map_err(|what| wrong(&what))?),
            "slope" if name.contains(',') => {
                (Quantity::Slope(name), number(limit).map_err(|what| wrong(&what))?)
            }
            "slope" => {
                return Err(wrong("a slope is that of a region on a point, with a comma between them"));
            }
            other => return Err(wrong(&format!("'{other}' is neither gain nor slope"))),
        };
        Ok(Condition { text: text.to_owned(), quantity, relation, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Quantity, Relation, f64) {
        let condition: Condition = text.parse().unwrap();
        assert_eq!(condition.text, text);
        (condition.quantity, condition.relation, condition.limit)
    }

    #[test]
    fn what_is_right() {
        let gain = |name: &str| Quantity::Gain(name.into());
        let slope = |names: &str| Quantity::Slope(names.into());
        for (text, quantity, relation, limit) in [
            ("gain(requests) < -3%", gain("requests"), Relation::Less, -0.03),
            ("  gain ( two words )<=−2.5 % ", gain("two words"), Relation::LessOrEqual, -0.025),
            ("gain(Pool<T>::get(int)) > 0%", gain("Pool<T>::get(int)"), Relation::Greater, 0.0),
            ("gain(a < b) >= 1e1%", gain("a < b"), Relation::GreaterOrEqual, 0.1),
            ("slope(parse, requests) > .5", slope("parse, requests"), Relation::Greater, 0.5),
            ("slope(f(a, b), requests)>=-1", slope("f(a, b), requests"), Relation::GreaterOrEqual, -1.0),
        ] {
            assert_eq!(parsed(text), (quantity, relation, limit), "{text}");
        }
    }

    #[test]
    fn what_is_wrong() {
        for (text, what) in [
            ("", "no name in parentheses"),
            ("gain < -3%", "no name in parentheses"),
            ("gain(requests", "no name in parentheses"),
            ("gain) < -3%", "a '(' is missing"),
            ("gain() < -3%", "the parentheses are empty"),
            ("gain(requests)", "nothing to compare with"),
            ("gain(requests) = 3%", "'= 3%' does not begin with <"),
            ("gain(requests) << 3%", "'< 3' is not a number"),
            ("gain(requests) < 3", "a gain is in per cent, and '3' is not"),
            ("gain(requests) < %", "'' is not a number"),
            ("gain(requests) < NaN%", "'NaN' is not a number"),
            ("gain(requests) < inf%", "'inf' is not a number"),
            ("gain(requests) < 3%%", "'3%' is not a number"),
            ("slope(parse, requests) > 50%", "'50%' is not a number"),
            ("slope(parse) > 0.5", "with a comma between them"),
            ("speed(requests) > 1", "'speed' is neither gain nor slope"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(what) && error.ends_with(RIGHT), "{text}: {error}");
        }
    }
}
