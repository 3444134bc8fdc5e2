//! A section of an ELF file, read a page at a time when a page is first asked for.
//!
//! Debug information has hundreds of megabytes in large programs, and a profile needs a few of them: where the units are, and
//! what is in those that run. What `gimli` reads is therefore not a slice of bytes but a place in a [`Section`].

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gimli::{Error, Reader, ReaderOffsetId, RunTimeEndian};

use crate::allowance::LONGEST_TEXT;
use crate::elf::{Content, Elf};
use crate::unpacking::Share;

/// Units lie far apart, and of each the first few hundred bytes are read.
pub(crate) const PAGE: usize = 4 << 10;
/// For callers that read on and on: allocators give such pieces back at once.
pub(crate) const LARGE_PAGE: usize = 256 << 10;

/// A section's bytes, as far as they have been asked for.
#[derive(Default)]
pub(crate) struct Section {
    content: Option<Content>,
    length: usize,
    /// Empty where a page could not be read. A packed section is one page.
    pages: Vec<OnceLock<Box<[u8]>>>,
    page: usize,
    /// What the page of a packed section takes of what may be unpacked.
    share: OnceLock<Share>,
    /// How often readers have asked for bytes of a page.
    asked: AtomicU64,
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Section {
    /// Empty if the file has no such section. `page`: how much is read at a time.
    pub fn of(elf: &Elf, name: &str, page: usize) -> Section {
        elf.content(name).map_or_else(Section::default, |content| Section::new(content, page))
    }

    fn new(content: Content, page: usize) -> Section {
        let length = content.length();
        let page = if content.is_packed() { length.max(1) } else { page };
        let pages = std::iter::repeat_with(OnceLock::new).take(length.div_ceil(page)).collect();
        Section { content: Some(content), length, pages, page, ..Section::default() }
    }

    /// A place to read from: its beginning.
    pub fn bytes(&self, endian: RunTimeEndian) -> Bytes<'_> {
        Bytes { section: Some(self), endian, at: 0, end: self.length, page: &[] }
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.length
    }

    /// How often readers have asked for bytes: once for each [`PAGE`] that they have read.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// What lies from `at` to the end of its page, at most [`PAGE`] bytes of one that is packed.
    fn rest_of_page(&self, at: usize) -> gimli::Result<&[u8]> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (Some(page), Some(content)) = (self.pages.get(at / self.page), &self.content) else {
            return Err(Error::Io);
        };
        let read = || {
            let start = at - at % self.page;
            let (bytes, share) = content.read(start, self.page.min(self.length - start)).unwrap_or_default();
            if let Some(share) = share {
                let _ = self.share.set(share);
            }
            bytes.into()
        };
        let rest =
            page.get_or_init(read).get(at % self.page..).filter(|rest| !rest.is_empty()).ok_or(Error::Io)?;
        Ok(if content.is_packed() { &rest[..rest.len().min(PAGE)] } else { rest })
    }
}

/// What is left to be read of a section, or of a part of it.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    section: Option<&'a Section>,
    endian: RunTimeEndian,
    at: usize,
    end: usize,
    /// What is known of the bytes from `at` on; never beyond `end`.
    page: &'a [u8],
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({}..{})", self.at, self.end)
    }
}

impl<'a> Bytes<'a> {
    /// Nothing.
    pub fn empty(endian: RunTimeEndian) -> Bytes<'a> {
        Bytes { section: None, endian, at: 0, end: 0, page: &[] }
    }

    /// All that is left, in one piece.
    pub fn all(mut self) -> gimli::Result<Cow<'a, [u8]>> {
        let length = self.end - self.at;
        let page = self.fill()?;
        if page.len() >= length {
            return Ok(Cow::Borrowed(&page[..length]));
        }
        let mut bytes = Vec::new();
        while self.at < self.end {
            let page = self.fill()?;
            bytes.extend_from_slice(page);
            self.forward(page.len());
        }
        Ok(Cow::Owned(bytes))
    }

    /// All that is left as text, which need not be UTF-8.
    pub fn text(self) -> Cow<'a, str> {
        match self.all() {
            Ok(Cow::Borrowed(bytes)) => String::from_utf8_lossy(bytes),
            Ok(Cow::Owned(bytes)) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
            Err(_) => Cow::Borrowed(""),
        }
    }

    /// The bytes at hand: at least one, unless nothing is left.
    fn fill(&mut self) -> gimli::Result<&'a [u8]> {
        if self.page.is_empty() && self.at < self.end {
            let section = self.section.ok_or(Error::Io)?;
            let page = section.rest_of_page(self.at)?;
            self.page = &page[..page.len().min(self.end - self.at)];
        }
        Ok(self.page)
    }

    fn forward(&mut self, length: usize) {
        self.at += length;
        self.page = self.page.get(length..).unwrap_or_default();
    }

    fn too_short(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    /// The next bytes, if they are at hand in one piece.
    #[inline]
    fn at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.page.split_first_chunk::<N>()?;
        self.at += N;
        self.page = rest;
        Some(*bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> gimli::Result<[u8; N]> {
        match self.at_hand() {
            Some(bytes) => Ok(bytes),
            None => {
                let mut bytes = [0; N];
                self.read_slice(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl Reader for Bytes<'_> {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    fn len(&self) -> usize {
        self.end - self.at
    }

    fn empty(&mut self) {
        self.end = self.at;
        self.page = &[];
    }

    fn truncate(&mut self, length: usize) -> gimli::Result<()> {
        if length > self.len() {
            return Err(self.too_short());
        }
        self.end = self.at + length;
        self.page = &self.page[..self.page.len().min(length)];
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.at - base.at
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let at = usize::try_from(id.0).ok()?;
        (self.at..=self.end).contains(&at).then(|| at - self.at)
    }

    /// No further than [`LONGEST_TEXT`]: `gimli` looks for the ends of names.
    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let mut rest = *self;
        while rest.at < rest.end && rest.at - self.at <= LONGEST_TEXT {
            let page = rest.fill()?;
            if let Some(here) = page.iter().position(|other| *other == byte) {
                return Ok(rest.at + here - self.at);
            }
            rest.forward(page.len());
        }
        Err(self.too_short())
    }

    fn skip(&mut self, length: usize) -> gimli::Result<()> {
        if length > self.len() {
            return Err(self.too_short());
        }
        self.forward(length);
        Ok(())
    }

    fn split(&mut self, length: usize) -> gimli::Result<Self> {
        let mut first = *self;
        first.truncate(length)?;
        self.forward(length);
        Ok(first)
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        self.all()
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        match self.all()? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Error::BadUtf8),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Error::BadUtf8),
        }
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        self.all().map(|_| self.text())
    }

    fn read_slice(&mut self, bytes: &mut [u8]) -> gimli::Result<()> {
        if bytes.len() > self.len() {
            return Err(self.too_short());
        }
        let mut done = 0;
        while done < bytes.len() {
            let page = self.fill()?;
            let length = page.len().min(bytes.len() - done);
            bytes[done..done + length].copy_from_slice(&page[..length]);
            self.forward(length);
            done += length;
        }
        Ok(())
    }

    #[inline]
    fn read_u8(&mut self) -> gimli::Result<u8> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    fn read_u16(&mut self) -> gimli::Result<u16> {
        let endian = self.endian;
        self.array::<2>().map(|bytes| gimli::Endianity::read_u16(endian, &bytes))
    }

    #[inline]
    fn read_u32(&mut self) -> gimli::Result<u32> {
        let endian = self.endian;
        self.array::<4>().map(|bytes| gimli::Endianity::read_u32(endian, &bytes))
    }

    #[inline]
    fn read_u64(&mut self) -> gimli::Result<u64> {
        let endian = self.endian;
        self.array::<8>().map(|bytes| gimli::Endianity::read_u64(endian, &bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section of this many bytes that count up, in a file of its own.
    fn counting(length: usize) -> Section {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let path = std::env::temp_dir().join(format!("whatif-section-{}-{length}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let content = Content::plain(std::fs::File::open(&path).unwrap(), 0, length as u64);
        std::fs::remove_file(path).unwrap();
        Section::new(content, PAGE)
    }

    #[test]
    fn reading_goes_on_across_pages() {
        let section = counting(2 * PAGE + 10);
        let mut bytes = section.bytes(RunTimeEndian::Little);
        assert_eq!(bytes.len(), 2 * PAGE + 10);
        bytes.skip(PAGE - 3).unwrap();
        let expected: Vec<u8> = (PAGE - 3..PAGE + 5).map(|at| (at % 251) as u8).collect();
        assert_eq!(bytes.clone().read_u64().unwrap().to_le_bytes(), expected[..]);
        assert_eq!(bytes.find(expected[5]).unwrap(), 5);
        let mut across = bytes.split(8).unwrap();
        assert_eq!(*across.to_slice().unwrap(), expected[..]);
        assert_eq!(across.read_u8().unwrap(), expected[0]);
        across.truncate(1).unwrap();
        assert_eq!(across.read_u8().unwrap(), expected[1]);
        assert!(across.read_u8().is_err() && across.is_empty());
        // Only what was asked for has been read.
        assert_eq!(section.pages.iter().filter(|page| page.get().is_some()).count(), 2);
        assert_eq!(bytes.offset_from(&section.bytes(RunTimeEndian::Little)), PAGE + 5);
        bytes.skip(bytes.len() - 2).unwrap();
        assert!(bytes.read_u32().is_err());
        assert!(bytes.skip(3).is_err() && bytes.truncate(3).is_err());
        assert_eq!(
            bytes.read_u16().unwrap().to_le_bytes(),
            [(2 * PAGE + 8) % 251, (2 * PAGE + 9) % 251].map(|b| b as u8)
        );
        assert!(bytes.find(0).is_err());
    }

    #[test]
    fn a_file_that_was_cut_off_is_an_error() {
        let path = std::env::temp_dir().join(format!("whatif-section-cut-{}", std::process::id()));
        std::fs::write(&path, vec![1; PAGE]).unwrap();
        let section =
            Section::new(Content::plain(std::fs::File::open(&path).unwrap(), 0, 3 * PAGE as u64), PAGE);
        std::fs::remove_file(path).unwrap();
        let mut bytes = section.bytes(RunTimeEndian::Little);
        assert_eq!(bytes.read_u8().unwrap(), 1);
        bytes.skip(PAGE).unwrap();
        assert_eq!(bytes.read_u8(), Err(Error::Io));
        assert_eq!(bytes.text(), "");
        assert!(Section::default().bytes(RunTimeEndian::Little).is_empty());
    }
}
