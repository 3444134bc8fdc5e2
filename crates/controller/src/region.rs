//! Regions: those that the user names, and the numbers that all have in a run.

use crate::failure;
use profile::{Region, RegionKind};
use symbols::{Frame, Image, LineLookup, Scope};

/// The index of a region among those observed in a run. Those that the user names come first, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(pub usize);

/// `--region`, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionSpec {
    /// A function with everything it calls: name, suffix of a name, or glob.
    Function(String),
    /// A line with everything called from it: suffix of a path, and number.
    Line(String, u32),
    /// One of these as far as the other, a function, has called it, itself or through others.
    CalledFrom(Box<RegionSpec>, String),
}

/// What an image knows of a region that the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has such code.
    There,
    /// It has not, but what this says.
    Meant(String),
    /// Nothing like it.
    Unknown,
}

impl RegionSpec {
    /// `REGION@CALLER`; otherwise `FILE:LINE` if what follows the last single colon is a number, otherwise a function.
    pub fn parse(text: &str) -> Self {
        if let Some((region, caller)) = text.rsplit_once('@')
            && !region.is_empty()
            && !caller.is_empty()
            && !caller.contains('/')
            && matches!(Self::parse_place(caller), Self::Function(_))
        {
            return Self::CalledFrom(Box::new(Self::parse_place(region)), caller.to_owned());
        }
        Self::parse_place(text)
    }

    /// Parses a region without a caller.
    pub fn parse_place(text: &str) -> Self {
        match text.rsplit_once(':') {
            Some((file, line)) if !file.is_empty() && !file.ends_with(':') => match line.parse() {
                Ok(line) => Self::Line(file.to_owned(), line),
                Err(_) => Self::Function(text.to_owned()),
            },
            _ => Self::Function(text.to_owned()),
        }
    }

    /// Whether an image has such code, and what may have been meant if it has none.
    pub fn find_in(&self, image: &Image) -> Presence {
        let meant = |what: &str, names: &[String]| match names {
            [] => Presence::Unknown,
            names => Presence::Meant(format!("{what} {}", failure::list(names, 5))),
        };
        match self {
            Self::CalledFrom(region, caller) => match region.find_in(image) {
                Presence::There => Self::Function(caller.clone()).find_in(image),
                missing => missing,
            },
            Self::Function(name) if image.has_function(name) => Presence::There,
            Self::Function(name) => meant("no function has that name; similar ones:", &image.suggest(name)),
            Self::Line(file, line) => match image.has_line(file, *line) {
                LineLookup::Exact => Presence::There,
                LineLookup::NearestWithCode(line) => Presence::Meant(format!(
                    "the line has no code; the nearest one that has is {file}:{line}"
                )),
                LineLookup::NoSuchFile { similar } => {
                    meant("no source file has that name; there are", &similar)
                }
            },
        }
    }

    /// Why an image in which there is nothing like it may not have it, and what to do.
    pub fn unknown_in(&self, image: &Image, scope: &Scope) -> String {
        let file = image.path().file_name().unwrap_or_default().to_string_lossy();
        let check =
            |what: &str| format!("check the name of the {what}; if it is of a library: --binary GLOB");
        match self {
            Self::CalledFrom(region, _) => region.unknown_in(image, scope),
            // Every Rust program has line information of the standard library.
            Self::Line(..) if !image.has_line_info_in(scope) => format!(
                "{file} has no line information: compile it with -g (Rust: debug = 1 in the profile), or name a function"
            ),
            Self::Line(..) => check("file"),
            Self::Function(_) if image.has_functions() => check("function"),
            Self::Function(_) => {
                format!("{file} has no names of functions: compile it with -g, and do not strip it")
            }
        }
    }

    /// Whether code with this frame belongs to the region, no matter what called it.
    pub fn matches(&self, frame: &Frame) -> bool {
        match self {
            Self::CalledFrom(region, _) => region.matches(frame),
            Self::Function(name) => frame.function.matches(name),
            Self::Line(file, line) => {
                frame.line == Some(*line)
                    && frame.file.as_deref().is_some_and(|path| symbols::file_matches(path, file))
            }
        }
    }
}

impl RegionSpec {
    /// The region as it is recorded, before any of its code has been seen.
    pub fn region(&self) -> Region {
        let (kind, line) = match self {
            Self::Function(_) => (RegionKind::Function, None),
            Self::Line(_, line) => (RegionKind::Line, Some(*line)),
            Self::CalledFrom(region, _) => return Region { name: self.to_string(), ..region.region() },
        };
        Region {
            kind,
            inclusive: true,
            name: self.to_string(),
            function: None,
            file: None,
            line,
            image: profile::Image::default(),
        }
    }

    /// Whether it depends on the region's caller.
    pub fn has_caller(&self) -> bool {
        matches!(self, Self::CalledFrom(..))
    }

    /// Whether code with these frames, innermost first, is in the caller, and not only in something that the region has called.
    pub fn is_called_from(&self, frames: &[Frame]) -> bool {
        let Self::CalledFrom(region, caller) = self else { return false };
        let innermost = frames.iter().position(|frame| region.matches(frame)).map_or(0, |nth| nth + 1);
        frames[innermost..].iter().any(|frame| frame.function.matches(caller))
    }
}

impl std::fmt::Display for RegionSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CalledFrom(region, caller) => write!(f, "{region}@{caller}"),
            Self::Function(name) => f.write_str(name),
            Self::Line(file, line) => write!(f, "{file}:{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_functions_are_told_apart() {
        let line = |file: &str, line| RegionSpec::Line(file.to_owned(), line);
        let function = |name: &str| RegionSpec::Function(name.to_owned());
        for (text, expected) in [
            ("hash.c:88", line("hash.c", 88)),
            ("src/a b.rs:1", line("src/a b.rs", 1)),
            ("work", function("work")),
            ("a::b", function("a::b")),
            ("a::1", function("a::1")),
            ("hash.c:x", function("hash.c:x")),
            ("work@serve", RegionSpec::CalledFrom(Box::new(function("work")), "serve".to_owned())),
            ("hash.c:88@serve", RegionSpec::CalledFrom(Box::new(line("hash.c", 88)), "serve".to_owned())),
            ("@serve", function("@serve")),
            ("pkg/foo@v1.2/x.c:10", line("pkg/foo@v1.2/x.c", 10)),
        ] {
            assert_eq!(RegionSpec::parse(text), expected, "{text}");
        }
    }
}
