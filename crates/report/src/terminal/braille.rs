//! A picture of braille cells: two dots across and four down in each.

/// Dots that are set one by one.
pub(super) struct Braille {
    /// The cells' dots, row by row from the top.
    cells: Vec<u8>,
    columns: usize,
    rows: usize,
}

impl Braille {
    /// Nothing is set. There is at least one cell.
    pub(super) fn new(columns: usize, rows: usize) -> Braille {
        let (columns, rows) = (columns.max(1), rows.max(1));
        Braille { cells: vec![0; columns * rows], columns, rows }
    }

    /// How many dots there are from left to right.
    pub(super) fn across(&self) -> usize {
        self.columns * 2
    }

    /// How many dots there are from top to bottom.
    pub(super) fn down(&self) -> usize {
        self.rows * 4
    }

    /// Sets a dot, counted from the left and from the top. One outside of the picture is not drawn.
    pub(super) fn set(&mut self, x: usize, y: usize) {
        // The dots of a cell, by column and row.
        const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        if x < self.across() && y < self.down() {
            self.cells[y / 4 * self.columns + x / 2] |= DOTS[x % 2][y % 4];
        }
    }

    /// One line for each row of cells; a cell without a dot is a space.
    pub(super) fn lines(&self) -> Vec<String> {
        let cell = |dots: &u8| match dots {
            0 => ' ',
            dots => char::from_u32(0x2800 + u32::from(*dots)).unwrap_or(' '),
        };
        self.cells.chunks(self.columns).map(|row| row.iter().map(cell).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_become_cells() {
        let mut picture = Braille::new(2, 1);
        for (x, y) in [(0, 0), (3, 3), (4, 0), (0, 4)] {
            picture.set(x, y);
        }
        assert_eq!(picture.lines(), ["⠁⢀"]);
        assert_eq!(Braille::new(0, 0).lines(), [" "]);
    }
}
