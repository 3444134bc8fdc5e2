//! Regions that the user asked for.

use profile::{Image, Region, RegionKind};
use symbols::Frame;

/// `--region`, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A function with everything it calls: name, suffix of a name, or glob.
    Function(String),
    /// A line with everything called from it: suffix of a path, and number.
    Line(String, u32),
}

impl Request {
    /// `FILE:LINE` if what follows the last single colon is a number, otherwise a function.
    pub fn parse(text: &str) -> Self {
        match text.rsplit_once(':') {
            Some((file, line)) if !file.is_empty() && !file.ends_with(':') => match line.parse() {
                Ok(line) => Self::Line(file.to_owned(), line),
                Err(_) => Self::Function(text.to_owned()),
            },
            _ => Self::Function(text.to_owned()),
        }
    }

    /// Whether code with this frame belongs to the region.
    pub fn matches(&self, frame: &Frame) -> bool {
        match self {
            Self::Function(name) => frame.function.matches(name),
            Self::Line(file, line) => {
                frame.line == Some(*line)
                    && frame.file.as_deref().is_some_and(|path| symbols::file_matches(path, file))
            }
        }
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Function(name) => f.write_str(name),
            Self::Line(file, line) => write!(f, "{file}:{line}"),
        }
    }
}

/// The region as it is recorded, before any of its code has been seen.
pub fn request_region(request: &Request) -> Region {
    let (kind, line) = match request {
        Request::Function(_) => (RegionKind::Function, None),
        Request::Line(_, line) => (RegionKind::Line, Some(*line)),
    };
    Region {
        kind,
        inclusive: true,
        name: request.to_string(),
        function: None,
        file: None,
        line,
        image: Image::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_functions_are_told_apart() {
        let line = |file: &str, line| Request::Line(file.to_owned(), line);
        let function = |name: &str| Request::Function(name.to_owned());
        for (text, expected) in [
            ("hash.c:88", line("hash.c", 88)),
            ("src/a b.rs:1", line("src/a b.rs", 1)),
            ("work", function("work")),
            ("a::b", function("a::b")),
            ("a::1", function("a::1")),
            ("hash.c:x", function("hash.c:x")),
        ] {
            assert_eq!(Request::parse(text), expected, "{text}");
        }
    }
}
