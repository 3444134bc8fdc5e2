//! `--where`: a condition as it is typed, `process=nginx* and not (thread=log* or label.shard!=3)`.
//!
//! ```text
//! condition = all { "or" all }          all  = one { "and" one }
//! one       = "not" one | "(" condition ")" | test
//! test      = KEY ("=" | "!=") PATTERN
//! ```
//!
//! A pattern ends at a space or a parenthesis, unless it is in quotes, single or double.

use super::label_key::{LabelKey, NAMES};
use super::pattern;
use std::fmt;
use std::str::FromStr;

/// No condition is longer, in bytes.
const LONGEST: usize = 4096;
/// Parentheses and `not`s in one another.
const DEEPEST: usize = 32;

/// A condition, and how it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Where {
    pub(crate) text: String,
    pub(crate) expression: Expression,
}

/// What has to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    Test(Test),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

/// Whether something matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    pub of: Tested,
    pub pattern: String,
}

/// What is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tested {
    /// The image that the sampled instruction is in.
    Image,
    /// Who ran.
    Label(LabelKey),
}

/// What is wrong with a condition, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Characters before it, and one.
    column: usize,
    what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at column {}: {}", self.column, self.what)
    }
}

impl std::error::Error for Wrong {}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Where {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<Self, Wrong> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        if text.len() > LONGEST {
            return Err(Wrong { column: LONGEST, what: format!("a condition has {LONGEST} bytes at most") });
        }
        let expression = parser.condition()?;
        match parser.rest() {
            "" => Ok(Self { text: text.to_owned(), expression }),
            _ => {
                Err(parser.wrong("'and' or 'or' is missing before this; put patterns with spaces in quotes"))
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn condition(&mut self) -> Result<Expression, Wrong> {
        let mut any = vec![self.all()?];
        while self.takes_word("or") {
            any.push(self.all()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Any(any) })
    }

    fn all(&mut self) -> Result<Expression, Wrong> {
        let mut all = vec![self.one()?];
        while self.takes_word("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::All(all) })
    }

    fn one(&mut self) -> Result<Expression, Wrong> {
        let is_not = self.takes_word("not");
        let opens = !is_not && self.takes("(");
        if !is_not && !opens {
            return self.test();
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(&format!("more than {DEEPEST} parentheses or 'not's in one another")));
        }
        let found = if is_not { Expression::Not(Box::new(self.one()?)) } else { self.condition()? };
        self.depth -= 1;
        if opens && !self.takes(")") {
            return Err(self.wrong("')' is missing"));
        }
        Ok(found)
    }

    fn test(&mut self) -> Result<Expression, Wrong> {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || "=!()'\"".contains(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let of = match name {
            "" => return Err(self.wrong(&format!("KEY=PATTERN is missing; keys are {NAMES}, image"))),
            "image" => Tested::Image,
            _ => Tested::Label(LabelKey::named(name).ok_or_else(|| {
                self.wrong(&format!("'{}' is no key; keys are {NAMES}, image", profile::printable(name)))
            })?),
        };
        self.at += end;
        let is_not = self.takes("!=");
        if !is_not && !self.takes("=") {
            return Err(self.wrong("'=' or '!=' is missing after the key"));
        }
        let begin = self.at;
        let pattern = self.pattern()?;
        if pattern::glob(&pattern).is_err() {
            self.at = begin;
            return Err(self.wrong("this is no pattern; * stands for any text, ? for one character"));
        }
        let test = Expression::Test(Test { of, pattern });
        Ok(if is_not { Expression::Not(Box::new(test)) } else { test })
    }

    fn pattern(&mut self) -> Result<String, Wrong> {
        let rest = self.rest();
        if let Some(quote) = rest.chars().next().filter(|c| "'\"".contains(*c)) {
            let Some(end) = rest[1..].find(quote) else {
                return Err(self.wrong(&format!("the closing {quote} is missing")));
            };
            self.at += end + 2;
            return Ok(rest[1..=end].to_owned());
        }
        let end = rest.find(|c: char| c.is_whitespace() || "()".contains(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.wrong("the pattern is missing; '' stands for nothing"));
        }
        self.at += end;
        Ok(rest[..end].to_owned())
    }

    /// What is left, without spaces before it.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn takes(&mut self, text: &str) -> bool {
        let takes = self.rest().starts_with(text);
        self.at += if takes { text.len() } else { 0 };
        takes
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let after = self.rest().strip_prefix(word);
        let is_word = after.is_some_and(|after| !after.starts_with(|c: char| !c.is_whitespace() && c != '('));
        self.at += if is_word { word.len() } else { 0 };
        is_word
    }

    fn wrong(&mut self, what: &str) -> Wrong {
        self.rest();
        Wrong { column: self.text[..self.at].chars().count() + 1, what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(of: &Expression) -> String {
        let list = |name: &str, of: &[Expression]| {
            format!("{name}({})", of.iter().map(shown).collect::<Vec<_>>().join(" "))
        };
        match of {
            Expression::Test(Test { of: Tested::Image, pattern }) => format!("image:{pattern}"),
            Expression::Test(Test { of: Tested::Label(key), pattern }) => format!("{key}:{pattern}"),
            Expression::Not(of) => format!("!{}", shown(of)),
            Expression::All(of) => list("all", of),
            Expression::Any(of) => list("any", of),
        }
    }

    #[test]
    fn conditions_are_understood() {
        for (text, expected) in [
            ("process=nginx*", "process:nginx*"),
            (" process = nginx ", "process:nginx"),
            ("image=[kernel]", "image:[kernel]"),
            ("process=nginx* and label.shard=3", "all(process:nginx* label.shard:3)"),
            ("pid=b or unit=c", "any(pid:b unit:c)"),
            ("pid=1 or pid=2 and pid=3", "any(pid:1 all(pid:2 pid:3))"),
            ("(pid=1 or pid=2) and pid=3", "all(any(pid:1 pid:2) pid:3)"),
            ("not pid=1 and pid=2", "all(!pid:1 pid:2)"),
            ("not not(pid=1 or pid=2)", "!!any(pid:1 pid:2)"),
            ("pid!=1", "!pid:1"),
            ("thread='a b (c) \"d\"' or thread=\"it's\"", "any(thread:a b (c) \"d\" thread:it's)"),
            ("label.x=''", "label.x:"),
            ("process=and and thread=or", "all(process:and thread:or)"),
            ("process=ünïcode*", "process:ünïcode*"),
            ("command=a=b!c", "command:a=b!c"),
            ("((((pid=1))))", "pid:1"),
        ] {
            assert_eq!(
                text.parse::<Where>().map(|of| shown(&of.expression)),
                Ok(expected.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_column() {
        let deep = format!("{}pid=1{}", "(".repeat(33), ")".repeat(33));
        let long = format!("process={}", "x".repeat(5000));
        for (text, column, what) in [
            ("", 1, "KEY=PATTERN is missing; keys are process, thread"),
            ("proces=x", 1, "'proces' is no key; keys are process, thread, pid, command, cgroup"),
            ("process", 8, "'=' or '!=' is missing"),
            ("process=", 9, "the pattern is missing"),
            ("process=a thread=b", 11, "'and' or 'or' is missing"),
            ("process=a and", 14, "KEY=PATTERN is missing"),
            ("ü=1", 1, "is no key"),
            ("process=ü and x=1", 15, "'x' is no key"),
            ("(process=a", 11, "')' is missing"),
            ("process=a)", 10, "'and' or 'or' is missing"),
            ("thread='a", 8, "the closing ' is missing"),
            ("label.A=b", 1, "'label.A' is no key"),
            ("not", 4, "KEY=PATTERN is missing"),
            ("process=a\\", 9, "no pattern"),
            (&deep, 34, "more than 32"),
            (&long, 4096, "4096 bytes at most"),
        ] {
            let wrong = text.parse::<Where>().unwrap_err();
            assert_eq!(wrong.column, column, "{text}: {wrong}");
            assert!(wrong.what.contains(what), "{text}: {wrong}");
        }
        // Nothing makes it fall over.
        let mut random = 1_u64;
        for _ in 0..20_000 {
            let parts =
                ["(", ")", "not ", " and ", " or ", "pid", "=", "!=", "'", "\"", "x", "ü", " ", "\\", "["];
            let mut text = String::new();
            for _ in 0..12 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(parts[(random >> 33) as usize % parts.len()]);
            }
            if let Err(wrong) = text.parse::<Where>() {
                assert!(wrong.column <= text.chars().count() + 1, "{text}");
            }
        }
    }
}
