//! Progress points: the places whose visits are the program's progress.

storage::id! {
    /// Which progress point of the recording.
    PointId
}

/// A progress point.
///
/// A `Begin` and an `End` of the same name are a latency pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The name given in the source, or `file:line` for a breakpoint.
    pub name: String,
    /// What a visit means.
    pub kind: PointKind,
}

impl Point {
    /// The name of the program's end, where runs are compared by how long they take.
    pub const WHOLE: &str = "end-to-end";
    /// The name of requests of other programs, which are counted when they are answered.
    pub const REQUESTS: &str = "net:requests";
}

/// What a visit to a progress point means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointKind {
    /// A unit of work was completed.
    Throughput,
    /// Something whose latency matters began.
    Begin,
    /// It ended.
    End,
}

impl PointKind {
    /// The name used in the database and in exports.
    pub const fn name(self) -> &'static str {
        match self {
            PointKind::Throughput => "throughput",
            PointKind::Begin => "begin",
            PointKind::End => "end",
        }
    }

    /// The kind with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<PointKind> {
        [PointKind::Throughput, PointKind::Begin, PointKind::End].into_iter().find(|kind| kind.name() == name)
    }
}
