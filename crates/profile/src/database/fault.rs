//! Fault: what is wrong with a row, and in which table.

use std::path::Path;

use rusqlite::ErrorCode;
use storage::Error;

/// Why a table could not be read.
#[derive(Debug)]
pub(super) struct Fault {
    table: &'static str,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Sql(rusqlite::Error),
    Rows(String),
}

impl Fault {
    /// SQLite's own error, or that of one value.
    pub(super) fn in_table(table: &'static str) -> impl Fn(rusqlite::Error) -> Fault {
        move |error| Fault { table, why: Why::Sql(error) }
    }

    /// A row refers to a row that another table does not have.
    pub(super) fn points_nowhere(table: &'static str, to: &str, key: i64) -> Fault {
        Fault { table, why: Why::Rows(format!("a row refers to row {key} of `{to}`, which is not there")) }
    }

    /// Two rows say something about the same.
    pub(super) fn twice(table: &'static str, what: &str) -> Fault {
        Fault { table, why: Why::Rows(format!("two rows have the same {what}")) }
    }

    /// For the user who gave `path`.
    pub(super) fn of(self, path: &Path) -> Error {
        let detail = match self.why {
            Why::Rows(detail) => detail,
            Why::Sql(rusqlite::Error::FromSqlConversionFailure(_, _, why)) => why.to_string(),
            Why::Sql(rusqlite::Error::IntegralValueOutOfRange(_, number)) => {
                format!("no column can be {number} there")
            }
            Why::Sql(rusqlite::Error::InvalidColumnType(_, column, kind)) => {
                format!("{column} cannot be of the type {kind}")
            }
            Why::Sql(rusqlite::Error::InvalidColumnName(column)) => format!("there is no column {column}"),
            Why::Sql(error @ rusqlite::Error::Utf8Error(..)) => error.to_string(),
            // A table or a column is missing.
            Why::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => error.to_string(),
            Why::Sql(error) => return Error::of(path, error),
        };
        let detail = crate::printable(&detail).into_owned();
        Error::DamagedRows { path: path.to_owned(), table: self.table, detail }
    }
}
