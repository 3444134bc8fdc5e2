//! Rows as ClickHouse's format `RowBinary` has them, made by hand because a batch has to be in the server's hands whole before it counts: the client's own
//! `Insert` sends rows as they come, and a server takes the rows that it got before a sender was killed for all there are (18.16 does: half of a request is half of its rows, and
//! "200 OK"). So all rows are packed into one member of gzip. Where that is cut off, the server refuses it.

use crate::question::moment;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// Rows of one table.
#[derive(Debug, Default)]
pub struct RowBinary {
    bytes: Vec<u8>,
    rows: u64,
}

impl RowBinary {
    /// No rows yet.
    pub fn new() -> RowBinary {
        RowBinary::default()
    }

    /// Begins another row.
    pub fn row(&mut self) -> &mut Self {
        self.rows += 1;
        self
    }

    /// `String`, or `LowCardinality(String)`.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.length(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    /// `Array(String)`.
    pub fn texts<'t>(&mut self, texts: impl ExactSizeIterator<Item = &'t str>) -> &mut Self {
        self.length(texts.len());
        for text in texts {
            self.text(text);
        }
        self
    }

    /// `UInt64`.
    pub fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// `UInt8`.
    pub fn u8(&mut self, number: u8) -> &mut Self {
        self.bytes.push(number);
        self
    }

    /// `UInt16`.
    pub fn u16(&mut self, number: u16) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// `Int64`.
    pub fn i64(&mut self, number: i64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// `Array(Int64)`.
    pub fn i64s(&mut self, numbers: impl ExactSizeIterator<Item = i64>) -> &mut Self {
        self.length(numbers.len());
        for number in numbers {
            self.i64(number);
        }
        self
    }

    /// `Array(FixedString(16))`.
    pub fn hashes(&mut self, hashes: impl ExactSizeIterator<Item = [u8; 16]>) -> &mut Self {
        self.length(hashes.len());
        for hash in hashes {
            self.hash(hash);
        }
        self
    }

    /// `Array(UInt64)`.
    pub fn u64s(&mut self, numbers: impl ExactSizeIterator<Item = u64>) -> &mut Self {
        self.length(numbers.len());
        for number in numbers {
            self.u64(number);
        }
        self
    }

    /// `UInt32`.
    pub fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// `DateTime`.
    pub fn time(&mut self, at: archive::UnixSeconds) -> &mut Self {
        self.u32(moment(at))
    }

    /// `Float64`.
    pub fn f64(&mut self, number: f64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// `FixedString(16)`.
    pub fn hash(&mut self, hash: [u8; 16]) -> &mut Self {
        self.bytes.extend_from_slice(&hash);
        self
    }

    /// LEB128.
    fn length(&mut self, length: usize) {
        let mut rest = length;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    /// How many rows there are.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// All of it as one member of gzip.
    pub fn packed(&self) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::with_capacity(self.bytes.len() / 4), Compression::fast());
        // Memory takes everything.
        let written = packed.write_all(&self.bytes).and_then(|()| packed.finish());
        written.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn rows_are_what_the_format_says() {
        let mut rows = RowBinary::new();
        rows.row().text("ab").u32(1).hash([7; 16]);
        rows.row().texts(["x"].into_iter()).u64s([258].into_iter());
        rows.row().u8(3).u16(258).i64s([-2].into_iter()).hashes([[9; 16]].into_iter());
        let mut expected = vec![2, b'a', b'b', 1, 0, 0, 0];
        expected.extend([7; 16]);
        expected.extend([1, 1, b'x', 1, 2, 1, 0, 0, 0, 0, 0, 0]);
        expected.extend([3, 2, 1, 1, 254, 255, 255, 255, 255, 255, 255, 255, 1]);
        expected.extend([9; 16]);
        assert_eq!((rows.bytes.as_slice(), rows.len()), (expected.as_slice(), 3));
        let mut long = RowBinary::new();
        long.row().text(&"a".repeat(300));
        assert_eq!(long.bytes[..3], [0xac, 0x02, b'a']);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(long.packed().as_slice()).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, long.bytes);
    }
}
