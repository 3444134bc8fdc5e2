//! Unpacks compressed sections (`SHF_COMPRESSED`, elf(5)) within a limit for the whole process.
//!
//! A file of some megabytes can claim, and really contain, gigabytes of packed zeros. Packed sections cannot be read in parts, so
//! that all of what they unpack to is in memory at once. All sections that are unpacked at a time share [`MOST`] bytes; a section
//! for which not enough is left is refused before anything is allocated.
//!
//! It does not limit sections that are not packed: of those, only what is asked for is read.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use object::read::{CompressedData, CompressionFormat};

/// What all packed sections together may unpack to, in bytes.
pub(crate) const MOST: u64 = 256 << 20;
/// No section that unpacks to more than this many times its size is believed: zlib cannot, and debug information does not.
const LARGEST_RATIO: u64 = 1100;

/// What is left of [`MOST`]. It guards no other memory.
static LEFT: AtomicU64 = AtomicU64::new(MOST);

/// A part of what may be unpacked; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share(u64);

impl Share {
    fn take(bytes: u64) -> Option<Share> {
        LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes))
            .ok()
            .map(|_| Share(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        LEFT.fetch_add(self.0, Ordering::Relaxed);
    }
}

/// Why a section was not unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is not enough left for it.
    TooLarge,
    /// It is not what its header says.
    Damaged,
}

/// What a section unpacks to, and its share. `unpacked`: how many bytes its header promises; content with fewer or more is refused.
pub(crate) fn unpack(
    packed: impl FnOnce() -> Option<Vec<u8>>,
    packed_length: u64,
    format: CompressionFormat,
    unpacked: u64,
) -> Result<(Vec<u8>, Share), Refusal> {
    if unpacked / LARGEST_RATIO > packed_length {
        return Err(Refusal::Damaged);
    }
    // The packed bytes are in memory meanwhile.
    let (share, meanwhile) = (Share::take(unpacked), Share::take(packed_length));
    let (Some(share), Some(_meanwhile)) = (share, meanwhile) else { return Err(Refusal::TooLarge) };
    let packed = packed().ok_or(Refusal::Damaged)?;
    let bytes = match format {
        CompressionFormat::Zstandard => unpack_zstd(&packed, unpacked),
        // It writes no more than `unpacked` bytes.
        _ => CompressedData { format, data: &packed, uncompressed_size: unpacked }
            .decompress()
            .ok()
            .map(std::borrow::Cow::into_owned),
    };
    Ok((bytes.ok_or(Refusal::Damaged)?, share))
}

/// `object` would unpack all that there is, and compare with `unpacked` only then.
fn unpack_zstd(mut packed: &[u8], unpacked: u64) -> Option<Vec<u8>> {
    use ruzstd::decoding::StreamingDecoder;
    use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(unpacked).ok()?).ok()?;
    while !packed.is_empty() {
        match StreamingDecoder::new(&mut packed) {
            Ok(decoder) => {
                let room = unpacked - bytes.len() as u64;
                let read = decoder.take(room + 1).read_to_end(&mut bytes).ok()?;
                if read as u64 > room {
                    return None;
                }
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => packed = packed.get(usize::try_from(length).ok()?..)?,
            Err(_) => return None,
        }
    }
    (bytes.len() as u64 == unpacked).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `size` zeros as zstd(1) packs them, in blocks of one repeated byte (RFC 8878, section 3.1.1.2).
    fn zeros(size: u32) -> Vec<u8> {
        const BLOCK: u32 = 128 << 10;
        let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
        let blocks = size.div_ceil(BLOCK);
        for block in 0..blocks {
            let length = BLOCK.min(size - block * BLOCK);
            let header = u32::from(block + 1 == blocks) | 1 << 1 | length << 3;
            packed.extend(&header.to_le_bytes()[..3]);
            packed.push(0);
        }
        packed
    }

    #[test]
    fn a_packed_section_has_to_be_as_long_as_it_says() {
        let unpack = |size, claimed| {
            let packed = zeros(size);
            let length = u64::from(claimed);
            unpack_zstd(&packed, length)
        };
        assert_eq!(unpack(300_000, 300_000_u32), Some(vec![0; 300_000]));
        assert_eq!(unpack(300_000, 299_999), None, "what is longer than its header says is not unpacked");
        assert_eq!(unpack(300_000, 300_001), None);
    }

    #[test]
    fn sections_share_one_limit_and_give_it_back() {
        let packed = || Some(zeros(1 << 20));
        let unpack =
            |claimed| unpack(packed, 1 << 20, CompressionFormat::Zstandard, claimed).map(|(bytes, _)| bytes);
        assert_eq!(unpack(MOST + 1), Err(Refusal::TooLarge));
        // More often than there is room for at a time.
        for _ in 0..300 {
            assert_eq!(unpack(1 << 20).map(|bytes| bytes.len()), Ok(1 << 20));
        }
        let kept = Share::take(MOST - (1 << 20)).expect("everything was given back");
        assert_eq!(unpack(1 << 20), Err(Refusal::TooLarge), "nothing is left for the packed bytes");
        drop(kept);
        assert!(unpack(1 << 20).is_ok());
    }
}
