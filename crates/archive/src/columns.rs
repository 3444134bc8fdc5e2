//! Columns: one Parquet file, written and read column by column.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::checksum::{self, Summed};
use super::pages::{Checked, Pages};
use storage::Error;

/// What the numbers of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Signed, of 32 bits.
    Int,
    /// Without sign, of 32 bits.
    Unsigned,
    /// Without sign, of 64 bits.
    Long,
    /// Milliseconds since 1970, UTC.
    Time,
}

/// How the numbers of a column are packed, before they are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// By their differences, in as many bits as a few neighbours need: for what rises.
    Delta,
    /// By their place in a list of all that occur: for few that repeat.
    Dictionary,
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) packing: Packing,
    /// Whether each row group says its least and greatest number.
    pub(super) bounds: bool,
}

impl Column {
    pub(super) fn new(name: &str, kind: Kind, packing: Packing) -> Column {
        Column { name: name.to_owned(), kind, packing, bounds: false }
    }

    pub(super) fn with_bounds(self) -> Column {
        Column { bounds: true, ..self }
    }

    fn field(&self) -> Result<Type, ParquetError> {
        let (physical, logical) = match self.kind {
            Kind::Int => (Physical::INT32, None),
            Kind::Unsigned => (Physical::INT32, Some(LogicalType::integer(32, false))),
            Kind::Long => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()
    }
}

/// Writes a file.
pub(super) struct ColumnWriter {
    writer: SerializedFileWriter<Summed>,
}

impl ColumnWriter {
    pub(super) fn new(file: File, name: &str, columns: &[Column]) -> Result<ColumnWriter, ParquetError> {
        let fields = columns.iter().map(|column| column.field().map(Arc::new)).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("whatif ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(None)
            .set_data_page_row_count_limit(usize::MAX)
            .set_write_batch_size(4096);
        for column in columns {
            let path = ColumnPath::from(column.name.as_str());
            if column.bounds {
                properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
            }
            properties =
                properties.set_column_dictionary_enabled(path.clone(), column.packing == Packing::Dictionary);
            properties = match column.packing {
                Packing::Delta => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
                Packing::Dictionary => properties,
            };
        }
        let writer =
            SerializedFileWriter::new(Summed::new(file), Arc::new(schema), Arc::new(properties.build()))?;
        Ok(ColumnWriter { writer })
    }

    /// Begins a row group.
    pub(super) fn group(&mut self) -> Result<Group<'_>, ParquetError> {
        self.writer.next_row_group().map(|writer| Group { writer })
    }

    /// Writes the end of the file, and gives the file back, with its checksum.
    pub(super) fn finish(self) -> Result<(File, u32), ParquetError> {
        self.writer.into_inner().map(Summed::finish)
    }
}

/// A row group, column by column in their order.
pub(super) struct Group<'a> {
    writer: SerializedRowGroupWriter<'a, Summed>,
}

impl Group<'_> {
    /// The next column, of 32 bits.
    pub(super) fn shorts(&mut self, values: impl Iterator<Item = i32>) -> Result<(), ParquetError> {
        self.column::<Int32Type>(values)
    }

    /// The next column, of 64 bits.
    pub(super) fn longs(&mut self, values: impl Iterator<Item = i64>) -> Result<(), ParquetError> {
        self.column::<Int64Type>(values)
    }

    fn column<T: DataType>(&mut self, mut values: impl Iterator<Item = T::T>) -> Result<(), ParquetError> {
        let no_column = || ParquetError::General("no such column".to_owned());
        let mut column = self.writer.next_column()?.ok_or_else(no_column)?;
        let mut some = Vec::with_capacity(PIECE);
        loop {
            some.extend(values.by_ref().take(PIECE));
            if some.is_empty() {
                return column.close();
            }
            column.typed::<T>().write_batch(&some, None, None)?;
            some.clear();
        }
    }

    pub(super) fn finish(self) -> Result<(), ParquetError> {
        self.writer.close().map(drop)
    }
}

/// How many numbers are handed to the writer at a time.
const PIECE: usize = 4096;

/// Whether all columns lie within a file of this many bytes: the library panics where one begins before the file.
fn lie_within(meta: &ParquetMetaData, length: usize) -> bool {
    meta.row_groups().iter().flat_map(|group| group.columns()).all(|column| {
        let start = usize::try_from(column.dictionary_page_offset().unwrap_or(column.data_page_offset()));
        let size = usize::try_from(column.compressed_size());
        let end = start.ok().zip(size.ok()).and_then(|(start, size)| start.checked_add(size));
        end.is_some_and(|end| end <= length)
    })
}

/// Numbers for which there is room at once; a damaged file may say anything.
const ROOM: usize = 1 << 20;

/// Compression level of zstd.
const LEVEL: i32 = 3;

/// Reads a file.
pub(super) struct ColumnReader {
    reader: SerializedFileReader<Checked>,
    path: PathBuf,
}

impl ColumnReader {
    /// Reads a file that has no more than `most` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the file is gone, [`Error::DamagedSegment`] if it is not what was written. Nothing of that is
    /// read: the library panics for some bytes.
    pub(super) fn open(path: &Path, most: u64) -> Result<ColumnReader, Error> {
        let bytes = storage::read_regular(path, most).map_err(|e| match e.kind() {
            ErrorKind::InvalidInput | ErrorKind::FileTooLarge => wrong(path, &e.to_string()),
            _ => Error::io(path, &e),
        })?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !checksum::is_right(name, &bytes) {
            return Err(wrong(path, "it has other bytes than were written"));
        }
        let length = bytes.len();
        let reader = SerializedFileReader::new(Checked(Bytes::from(bytes))).map_err(|e| damaged(path, &e))?;
        if !lie_within(reader.metadata(), length) {
            return Err(wrong(path, "its columns lie outside of it"));
        }
        Ok(ColumnReader { reader, path: path.to_owned() })
    }

    fn meta(&self) -> &ParquetMetaData {
        self.reader.metadata()
    }

    pub(super) fn groups(&self) -> usize {
        self.meta().num_row_groups()
    }

    pub(super) fn rows(&self, group: usize) -> usize {
        usize::try_from(self.meta().row_group(group).num_rows()).unwrap_or(0)
    }

    /// Names of the columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.meta().file_metadata().schema_descr().columns().iter().map(|column| column.name())
    }

    /// The least and greatest number of a column of [`Kind::Time`] or [`Kind::Int`] in a row group, where they are recorded.
    pub(super) fn bounds(&self, group: usize, column: &str) -> Option<(i64, i64)> {
        let column = self.column(column).ok()?;
        match self.meta().row_group(group).column(column).statistics()? {
            Statistics::Int32(of) => Some((i64::from(*of.min_opt()?), i64::from(*of.max_opt()?))),
            Statistics::Int64(of) => Some((*of.min_opt()?, *of.max_opt()?)),
            _ => None,
        }
    }

    /// Adds the numbers of a column of 32 bits in a row group to `to`.
    pub(super) fn shorts(&self, group: usize, column: &str, to: &mut Vec<i32>) -> Result<(), Error> {
        self.read::<Int32Type>(group, column, to)
    }

    /// Adds the numbers of a column of 64 bits in a row group to `to`.
    pub(super) fn longs(&self, group: usize, column: &str, to: &mut Vec<i64>) -> Result<(), Error> {
        self.read::<Int64Type>(group, column, to)
    }

    /// The numbers of a column of 32 bits in all row groups.
    pub(super) fn all_shorts(&self, column: &str) -> Result<Vec<i32>, Error> {
        let mut values = Vec::new();
        (0..self.groups()).try_for_each(|group| self.shorts(group, column, &mut values))?;
        Ok(values)
    }

    /// The numbers of a column of 64 bits in all row groups.
    pub(super) fn all_longs(&self, column: &str) -> Result<Vec<i64>, Error> {
        let mut values = Vec::new();
        (0..self.groups()).try_for_each(|group| self.longs(group, column, &mut values))?;
        Ok(values)
    }

    fn column(&self, name: &str) -> Result<usize, Error> {
        self.names().position(|of| of == name).ok_or_else(|| {
            damaged(&self.path, &ParquetError::General(format!("there is no column `{name}`")))
        })
    }

    fn read<T: DataType>(&self, group: usize, column: &str, to: &mut Vec<T::T>) -> Result<(), Error> {
        let index = self.column(column)?;
        let wrong = |e: &ParquetError| damaged(&self.path, e);
        if self.meta().file_metadata().schema_descr().column(index).physical_type() != T::get_physical_type()
        {
            return Err(wrong(&ParquetError::General(format!("the column `{column}` is of another type"))));
        }
        let rows = self.rows(group);
        let of = self.meta().file_metadata().schema_descr().column(index);
        // Each row has one number.
        if of.max_def_level() > 0 || of.max_rep_level() > 0 {
            return Err(wrong(&ParquetError::General(format!("the column `{column}` has gaps or lists"))));
        }
        let group = self.reader.get_row_group(group).map_err(|e| wrong(&e))?;
        let pages = group.get_column_page_reader(index).map_err(|e| wrong(&e))?;
        let mut reader = ColumnReaderImpl::<T>::new(of, Box::new(Pages::new(pages)));
        let before = to.len();
        to.reserve(rows.min(ROOM));
        while to.len() - before < rows {
            let left = rows - (to.len() - before);
            let (_, read, _) = reader.read_records(left, None, None, to).map_err(|e| wrong(&e))?;
            if read == 0 {
                return Err(wrong(&ParquetError::General(format!("the column `{column}` is too short"))));
            }
        }
        Ok(())
    }
}

impl ColumnReader {
    /// The file contains something that cannot be.
    pub(super) fn wrong(&self, what: &str) -> Error {
        wrong(&self.path, what)
    }
}

/// A file of a segment contains something that cannot be.
pub(super) fn wrong(path: &Path, what: &str) -> Error {
    Error::DamagedSegment { path: path.to_owned(), detail: what.to_owned() }
}

fn damaged(path: &Path, error: &ParquetError) -> Error {
    wrong(path, &error.to_string())
}

/// What went wrong when `path` was written.
pub(super) fn unwritten(path: &Path, error: &ParquetError) -> Error {
    Error::Io { path: path.to_owned(), detail: error.to_string() }
}
