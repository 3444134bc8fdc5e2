//! What layout 12 added for `whatif status --history`.

/// One row for each thing that happened to a collector: in an epoch, by number.
pub const JOURNAL: &str = "
CREATE TABLE IF NOT EXISTS journal (
    epoch     INTEGER NOT NULL REFERENCES epochs,
    number    INTEGER NOT NULL,
    at_unix_s INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    value     REAL NOT NULL,
    detail    TEXT NOT NULL,
    PRIMARY KEY (epoch, number)
) WITHOUT ROWID;
";
