//! Regions: the pieces of code that experiments make virtually faster.

storage::id! {
    /// Which region of the recording.
    RegionId
}

/// A piece of code that could be made faster.
///
/// Two regions are the same when kind, inclusiveness, name, file and image (build ID, or path where
/// there is none) agree: [`Region::image_key`]. The function and line only describe it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// A function or a line.
    pub kind: RegionKind,
    /// Whether time in callees counts too.
    pub inclusive: bool,
    /// The function's base name, or `file:line`.
    pub name: String,
    /// The full name of the (enclosing) function, where known.
    pub function: Option<String>,
    /// The source file, as the debug information spells it.
    pub file: Option<String>,
    /// The line, or the function's first line.
    pub line: Option<u32>,
    /// The file that was mapped.
    pub image: Image,
}

impl Region {
    /// What tells this image from others: its build ID, or its path where it has none.
    pub fn image_key(&self) -> &str {
        self.image.key()
    }

    /// What it is called where all regions are of one program: `work hash.c:80`, `work+ hash.c:80` with its callees, or `hash.c:88`.
    pub fn label(&self) -> String {
        self.label_in(None)
    }

    /// The same with its program behind it, where that has to be told: `work hash.c:80 (worker)`.
    pub fn label_in(&self, program: Option<&str>) -> String {
        let callees = if self.inclusive { "+" } else { "" };
        let program = program.map_or_else(String::new, |program| format!(" ({program})"));
        match (self.kind, self.location()) {
            (RegionKind::Function, Some(location)) => format!("{}{callees} {location}{program}", self.name),
            _ => format!("{}{callees}{program}", self.name),
        }
    }

    /// The file name of the program or library that it is in; `None` where it is in no file.
    pub fn program(&self) -> Option<&str> {
        let name = self.image.path.rsplit('/').next()?;
        // Code that was made at run time is in `[made at run time]`.
        (!name.is_empty() && !name.starts_with('[')).then_some(name)
    }

    /// Where it is, short enough to read: `hash.c:80`; `None` without debug information.
    pub fn location(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        let base = file.rsplit('/').next().unwrap_or(file);
        Some(match self.line {
            Some(line) => format!("{base}:{line}"),
            None => base.to_owned(),
        })
    }
}

/// A function or a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegionKind {
    /// A function.
    Function,
    /// A source line.
    Line,
}

impl RegionKind {
    /// The name used in the database and in exports.
    pub const fn name(self) -> &'static str {
        match self {
            RegionKind::Function => "function",
            RegionKind::Line => "line",
        }
    }

    /// The kind with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<RegionKind> {
        [RegionKind::Function, RegionKind::Line].into_iter().find(|kind| kind.name() == name)
    }
}

/// A mapped executable or library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Image {
    /// Its path when it was mapped.
    pub path: String,
    /// Its build ID in hexadecimal, if it has one.
    pub build_id: Option<String>,
}

impl Image {
    /// What tells it from others: its build ID, or its path where it has none.
    pub fn key(&self) -> &str {
        self.build_id.as_deref().unwrap_or(&self.path)
    }
}

/// The source around a region, as it was when it was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The number of the first line of `text`.
    pub first_line: u32,
    /// The lines.
    pub text: String,
}
