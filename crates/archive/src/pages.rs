//! Pages: the pieces of a column, as far as they can be read. The library panics where a page refers to a dictionary that is not there, and asks for as much memory
//! as a page says that it needs.

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::FOOTER_SIZE;
use parquet::file::reader::{ChunkReader, Length};

/// The bytes of a file whose pages are not larger than those that are written.
pub(super) struct Checked(pub(super) Bytes);

impl Length for Checked {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The library takes the end of the file and each page's header from `get_read`, all else from `get_bytes`.
impl ChunkReader for Checked {
    type T = <Bytes as ChunkReader>::T;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let header = usize::try_from(start).ok().and_then(|start| self.0.get(start..)).unwrap_or_default();
        if header.len() != FOOTER_SIZE && !needs_little(header) {
            return Err(ParquetError::General("a page that is larger than any that is written".to_owned()));
        }
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.0.get_bytes(start, length)
    }
}

/// Whether a page with this header needs no more memory than one that we have written: 1 MB, and what is handed to the writer at a time. Headers are Thrift's, in
/// its compact form: the kind of page and its size are the first two fields, both of 32 bits.
fn needs_little(header: &[u8]) -> bool {
    const LARGEST: u64 = 4 << 20;
    /// The field after the last one (or the first one), of 32 bits.
    const NEXT: u8 = 0x15;
    let field = |bytes: &[u8]| -> Option<(u64, usize)> {
        let length = bytes.get(1..6)?.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let number =
            bytes[1..=length].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
        // Even numbers are those from zero on.
        (bytes[0] == NEXT && number % 2 == 0).then_some((number / 2, 1 + length))
    };
    let size = field(header).and_then(|(_, kind)| field(&header[kind..]));
    size.is_some_and(|(size, _)| size <= LARGEST)
}

/// The pages of a column, in their order.
pub(super) struct Pages {
    of: Box<dyn PageReader>,
    /// Whether the dictionary has come.
    dictionary: bool,
}

impl Pages {
    pub(super) fn new(of: Box<dyn PageReader>) -> Pages {
        Pages { of, dictionary: false }
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.of.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage { .. }) => self.dictionary = true,
            Some(data) if !self.dictionary && refers(data) => {
                return Err(ParquetError::General("a page without its dictionary".to_owned()));
            }
            Some(_) | None => {}
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.of.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.of.skip_next_page()
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Whether the numbers of a page are places in a dictionary.
fn refers(page: &Page) -> bool {
    matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_how_much_memory_it_needs() {
        // A data page of 300 bytes, of 4 MB and a little more, of less than nothing, and in another form.
        assert!(needs_little(&[0x15, 0, 0x15, 0xd8, 0x04, 0x15, 2, 0]));
        assert!(needs_little(&[0x15, 0, 0x15, 0x80, 0x80, 0x80, 0x04, 0x15, 2]));
        assert!(!needs_little(&[0x15, 0, 0x15, 0x82, 0x80, 0x80, 0x04, 0x15, 2]));
        assert!(!needs_little(&[0x15, 0, 0x15, 0xd9, 0x04, 0x15, 2, 0]));
        assert!(!needs_little(&[0x05, 0, 0, 0x15, 0xd8, 0x04, 0x15, 2]));
        assert!(!needs_little(&[0x15, 0, 0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x15]));
        assert!(!needs_little(&[0x15, 0]) && !needs_little(&[]));
    }
}
