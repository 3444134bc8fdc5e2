//! Relations: how a condition of `--fail-if` compares a number with a limit, and how both are written.

/// How a number is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Relation {
    /// Whether `value` stands in this relation to `limit`.
    #[must_use]
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Relation::Less => value < limit,
            Relation::LessOrEqual => value <= limit,
            Relation::Greater => value > limit,
            Relation::GreaterOrEqual => value >= limit,
        }
    }

    /// Whether values above the limit are in this relation to it.
    #[must_use]
    pub fn is_upwards(self) -> bool {
        matches!(self, Relation::Greater | Relation::GreaterOrEqual)
    }

    /// The relation that a text begins with, and what follows it.
    ///
    /// # Errors
    /// What is there instead, in words.
    pub fn first_of(text: &str) -> Result<(Relation, &str), String> {
        // The longer ones first: "<" is the beginning of "<=".
        let relations = [
            ("<=", Relation::LessOrEqual),
            (">=", Relation::GreaterOrEqual),
            ("<", Relation::Less),
            (">", Relation::Greater),
        ];
        let found =
            relations.into_iter().find_map(|(sign, relation)| Some((relation, text.strip_prefix(sign)?)));
        found.ok_or_else(|| match text {
            "" => "there is nothing to compare with".to_owned(),
            text => format!("'{text}' does not begin with <, <=, > or >="),
        })
    }
}

/// A number; the minus that reports print can be pasted.
///
/// # Errors
/// That it is none.
pub fn number(text: &str) -> Result<f64, String> {
    let parsed = text.trim().replace('−', "-").parse().ok().filter(|number: &f64| number.is_finite());
    parsed.ok_or_else(|| format!("'{}' is not a number", text.trim()))
}

/// `5 %` as 0.05. `what`: what is in per cent, for the message.
///
/// # Errors
/// That it is not in per cent, or no number.
pub fn percent(text: &str, what: &str) -> Result<f64, String> {
    match text.trim().strip_suffix('%') {
        Some(text) => Ok(number(text)? / 100.0),
        None => Err(format!("{what} is in per cent, and '{}' is not", text.trim())),
    }
}

/// `5%` as 0.05; a number without a sign is one of per cents, too. None if it is no number above 0 and up to 100.
#[must_use]
pub fn part(text: &str) -> Option<f64> {
    let per_cent = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    per_cent.filter(|per_cent| *per_cent > 0.0 && *per_cent <= 100.0).map(|per_cent| per_cent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations() {
        for (relation, holds) in [
            (Relation::Less, [true, false, false]),
            (Relation::LessOrEqual, [true, true, false]),
            (Relation::Greater, [false, false, true]),
            (Relation::GreaterOrEqual, [false, true, true]),
        ] {
            assert_eq!([0.0, 1.0, 2.0].map(|value| relation.holds(value, 1.0)), holds, "{relation:?}");
            assert_eq!(relation.is_upwards(), holds[2], "{relation:?}");
        }
    }
}
