//! How to draw: what the caller knows of the terminal.

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
    /// How many columns there are; fewer than 60 are treated as 60.
    pub width: usize,
    /// How many regions to show for each progress point.
    pub top: usize,
    /// Whether that many were asked for: then also those that tell nothing yet are shown.
    pub asked: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style { color: false, width: 80, top: 20, asked: false }
    }
}
