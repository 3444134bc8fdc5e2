//! Pages: the pieces of a column, as far as they can be read. The library panics where a page refers to a dictionary that is not there.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

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
