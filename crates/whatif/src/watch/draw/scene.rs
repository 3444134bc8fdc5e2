//! What there is to draw, and what had room.

use crate::watch::listing::Row;
use crate::watch::view::View;
use profile::{PointSummary, Profile, Target};

/// Everything that is drawn.
pub struct Scene<'a> {
    /// The file's name.
    pub name: &'a str,
    /// How the run stands.
    pub standing: &'a str,
    /// Why all this may be old.
    pub trouble: Option<&'a str>,
    /// Why there is nothing to show, if there is not.
    pub nothing: &'a str,
    pub profile: Option<&'a Profile>,
    /// The point that is shown.
    pub target: Option<Target>,
    /// Whether there are other points.
    pub several_points: bool,
    /// The regions, in their order.
    pub rows: &'a [Row<'a>],
    pub view: &'a View,
    pub color: bool,
}

/// What had room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Rows of the table.
    pub page: usize,
    /// How many lines of a text come before those that can be its last screen.
    pub scroll: usize,
}

impl Scene<'_> {
    pub(super) fn point(&self) -> Option<&PointSummary> {
        self.profile?.point(self.target?)
    }

    /// The number of the selected row, and the row.
    pub(super) fn selected(&self) -> Option<(usize, Row<'_>)> {
        let regions: Vec<_> = self.rows.iter().map(|(region, _)| region.region).collect();
        let row = self.view.row(&regions);
        self.rows.get(row).map(|selected| (row, *selected))
    }
}
