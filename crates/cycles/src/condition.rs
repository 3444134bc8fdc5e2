//! Conditions: what can be typed after `whatif diff --fail-if`. Only understands them; `alert` judges.

use super::pattern::glob;
use profile::relation::{self, Relation};
use std::str::FromStr;

/// The right syntax, for error messages.
const RIGHT: &str = "write 'share(NAME) > 5%', 'share(*) > 1.2 * share(*, 7d..1d) + 1%' or 'cpu(process:NAME) > 600', with share, total or \
     cpu; <, <=, > or >=";

/// No condition is longer, in bytes.
const LONGEST: usize = 1000;

/// `share(parse) > 1.2 * share(parse, 7d..1d) + 1%`.
///
/// Names stand as they are, without quotes: a comma in one is no matter, since what follows the last comma is a span only if it has
/// `..` in it or is `A` or `B`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was typed.
    pub text: String,
    /// What is compared.
    pub quantity: Quantity,
    /// Of which functions (or images, and so on).
    pub subject: Subject,
    /// Of which samples; `None`: it does not say.
    pub span: Option<String>,
    /// How it is compared.
    pub relation: Relation,
    /// What it is compared with.
    pub limit: Limit,
}

/// A number that is known of each function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// The share of the samples that are in it.
    Share,
    /// The share of the samples that are in it or in what it calls.
    Total,
    /// Seconds of CPU time for each hour of a machine.
    Cpu,
}

impl Quantity {
    /// How it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Share => "share",
            Quantity::Total => "total",
            Quantity::Cpu => "cpu",
        }
    }
}

/// What samples are added up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Functions.
    Function,
    /// Programs, libraries and the kernel.
    Image,
    /// Processes, by name.
    Process,
    /// Cgroups.
    Cgroup,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Function, Kind::Image, Kind::Process, Kind::Cgroup];

    /// How it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Function => "function",
            Kind::Image => "image",
            Kind::Process => "process",
            Kind::Cgroup => "cgroup",
        }
    }
}

/// Of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What is added up.
    pub kind: Kind,
    /// Names, each judged by itself; `*` stands for any text.
    pub pattern: String,
}

/// What a quantity is compared with: `factor` times the same one in another span, and `constant`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The factor and the other span, which may be left open; `None` where the limit is a number alone.
    pub other: Option<(f64, Option<String>)>,
    /// A fraction, or seconds an hour.
    pub constant: f64,
}

/// One side: what, of what, and in which span.
type Term = (Quantity, Subject, Option<String>);

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = |what: &str| format!("{what}: {RIGHT}");
        // What is longer takes its time, for every sign in it may be the one.
        if text.len() > LONGEST {
            return Err(format!("a condition has no more than {LONGEST} bytes"));
        }
        // Names have `<` and `>` of their own: the sign is the first one between what can be understood on both sides.
        let mut why: Option<String> = None;
        for (at, _) in text.match_indices(['<', '>']) {
            let Ok((relation, right)) = Relation::first_of(&text[at..]) else { continue };
            let left = match term(&text[..at]) {
                Ok(left) => left,
                Err(error) => {
                    why.get_or_insert(error);
                    continue;
                }
            };
            match limit(right, &left) {
                Ok(limit) => {
                    let (quantity, subject, span) = left;
                    return Ok(Condition { text: text.to_owned(), quantity, subject, span, relation, limit });
                }
                // A left side that can be understood makes it the likelier mistake.
                Err(error) => why = Some(error),
            }
        }
        Err(wrong(&why.unwrap_or_else(|| "there is nothing to compare with".to_owned())))
    }
}

/// `share(NAME)` or `share(NAME, SPAN)`.
fn term(text: &str) -> Result<Term, String> {
    let text = text.trim();
    let inner = text.strip_suffix(')').ok_or_else(|| format!("'{text}' does not end with ')'"))?;
    let (quantity, inner) = inner.split_once('(').ok_or("a '(' is missing")?;
    let quantity = match quantity.trim() {
        "share" => Quantity::Share,
        "total" => Quantity::Total,
        "cpu" => Quantity::Cpu,
        other => return Err(format!("'{other}' is neither share nor total nor cpu")),
    };
    let is_span = |text: &str| text.contains("..") || text == "A" || text == "B";
    let (name, span) = match inner.rsplit_once(',') {
        Some((name, span)) if is_span(span.trim()) => (name, Some(span.trim().to_owned())),
        _ => (inner, None),
    };
    let (kind, name) = match name.split_once(':') {
        // `std::vec` is a name.
        Some((kind, rest)) if !rest.starts_with(':') => {
            match Kind::ALL.into_iter().find(|of| of.name() == kind.trim()) {
                Some(kind) => (kind, rest),
                None => (Kind::Function, name),
            }
        }
        _ => (Kind::Function, name),
    };
    let pattern = name.trim().to_owned();
    if pattern.is_empty() {
        return Err("the parentheses are empty".to_owned());
    }
    glob(&pattern).map_err(|error| error.to_string())?;
    if quantity == Quantity::Total && matches!(kind, Kind::Process | Kind::Cgroup) {
        return Err(format!("what a {} calls is its own: use share", kind.name()));
    }
    Ok((quantity, Subject { kind, pattern }, span))
}

/// `5%`, `1.2 * share(NAME, SPAN)`, or that `+ 1%`.
fn limit(text: &str, left: &Term) -> Result<Limit, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("there is nothing to compare with".to_owned());
    }
    let Some((before, constant)) = text.rsplit_once(')') else {
        return Ok(Limit { other: None, constant: constant_of(text, left.0)? });
    };
    let constant = match constant.trim() {
        "" => 0.0,
        rest => {
            let added = rest.strip_prefix('+').ok_or_else(|| format!("'{rest}' does not begin with +"))?;
            constant_of(added, left.0)?
        }
    };
    // The factor has no parenthesis before its sign, and a name may have signs of its own.
    let name_at = before.find('(').unwrap_or(before.len());
    let (factor, right) = match before[..name_at].find('*') {
        Some(at) => (relation::number(&before[..at])?, &before[at + 1..]),
        None => (1.0, before),
    };
    if factor <= 0.0 {
        return Err(format!("'{factor}' is no factor that is greater than 0"));
    }
    let (quantity, subject, span) = term(&format!("{right})"))?;
    if (quantity, &subject) != (left.0, &left.1) {
        return Err("both sides are the same quantity of the same name, in two spans".to_owned());
    }
    if span == left.2 {
        return Err("both sides are of the same span, as in share(f) > 1.2 * share(f, 7d..1d)".to_owned());
    }
    Ok(Limit { other: Some((factor, span)), constant })
}

fn constant_of(text: &str, quantity: Quantity) -> Result<f64, String> {
    match quantity {
        Quantity::Cpu => relation::number(text),
        quantity => relation::percent(text, &format!("a {}", quantity.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Quantity, Kind, String, Option<String>, Relation, Limit) {
        let of: Condition = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(of.text, text);
        (of.quantity, of.subject.kind, of.subject.pattern, of.span, of.relation, of.limit)
    }

    #[test]
    fn what_is_right() {
        let span = |text: &str| Some(text.to_owned());
        let number = |constant| Limit { other: None, constant };
        let times = |factor, span, constant| Limit { other: Some((factor, span)), constant };
        use Kind::{Function, Image, Process};
        use Quantity::{Cpu, Share, Total};
        use Relation::{Greater, GreaterOrEqual, Less};
        for (text, quantity, kind, pattern, left, relation, limit) in [
            ("share(parse) > 5%", Share, Function, "parse", None, Greater, number(0.05)),
            (
                "share(fn) > 1.2 * share(fn, 7d..1d)",
                Share,
                Function,
                "fn",
                None,
                Greater,
                times(1.2, span("7d..1d"), 0.0),
            ),
            (
                "total(*, 1d..)>=2*total( * ,7d..1d) + 1 %",
                Total,
                Function,
                "*",
                span("1d.."),
                GreaterOrEqual,
                times(2.0, span("7d..1d"), 0.01),
            ),
            (
                "share(a < b, B) < share(a < b, A)",
                Share,
                Function,
                "a < b",
                span("B"),
                Less,
                times(1.0, span("A"), 0.0),
            ),
            ("cpu(process:ng*) > 600", Cpu, Process, "ng*", None, Greater, number(600.0)),
            ("share(image:libc.so.6) < 1e1%", Share, Image, "libc.so.6", None, Less, number(0.1)),
            (
                "share(std::map<int, X>::get) > 1%",
                Share,
                Function,
                "std::map<int, X>::get",
                None,
                Greater,
                number(0.01),
            ),
            ("share(Vec<T>::push) > −1%", Share, Function, "Vec<T>::push", None, Greater, number(-0.01)),
            ("share(operator()(int)) > 3%", Share, Function, "operator()(int)", None, Greater, number(0.03)),
            (
                "share(f, 2026-11-21 10:00..2026-11-22) > 3%",
                Share,
                Function,
                "f",
                span("2026-11-21 10:00..2026-11-22"),
                Greater,
                number(0.03),
            ),
        ] {
            assert_eq!(parsed(text), (quantity, kind, pattern.to_owned(), left, relation, limit), "{text}");
        }
    }

    #[test]
    fn what_is_wrong() {
        for (text, what) in [
            ("", "nothing to compare with"),
            ("share(f)", "nothing to compare with"),
            ("share(f) >", "nothing to compare with"),
            ("share(f) = 3%", "nothing to compare with"),
            ("share f > 3%", "does not end with ')'"),
            ("share() > 3%", "the parentheses are empty"),
            ("share(f) > 3", "a share is in per cent, and '3' is not"),
            ("share(f) > 3 * 5%", "'3 * 5' is not a number"),
            ("cpu(f) > 3%", "'3%' is not a number"),
            ("speed(f) > 3%", "'speed' is neither share nor total nor cpu"),
            ("share(f) > 2 * share(g, 7d..1d)", "both sides are the same quantity of the same name"),
            ("share(f) > 2 * total(f, 7d..1d)", "both sides are the same quantity of the same name"),
            ("share(f, 7d..1d) > 2 * share(f, 7d..1d)", "both sides are of the same span"),
            ("share(f) > 2 * share(f)", "both sides are of the same span"),
            ("share(f) > -2 * share(f, 7d..1d)", "no factor that is greater than 0"),
            ("share(f) > x * share(f, 7d..1d)", "'x' is not a number"),
            ("share(f) > share(f, 7d..1d) - 1%", "does not begin with +"),
            ("total(process:nginx) > 5%", "what a process calls is its own: use share"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(what) && error.ends_with(RIGHT), "{text}: {error}");
        }
    }
}
