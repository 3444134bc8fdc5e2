//! Whether a file has what it says: the library asks for as much memory as any number that it reads, and ends the program where that
//! is too much.
//!
//! The layout is that of `tools/perf/Documentation/perf.data-file-format.txt`.

use anyhow::{Context as _, Result, ensure};
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Bytes of the header.
const HEADER: usize = 104;
/// Where the header has the bits that say which features there are.
const FEATURES: usize = 72;
/// The feature that is the command line.
const COMMAND: usize = 11;
/// The feature that is the list of events.
const EVENTS: usize = 12;
/// The record that is followed by what a processor has traced, whose length stands behind the header.
const TRACE: u32 = 71;
/// The shortest description of an event, and one that is longer than any will be.
const EVENT: std::ops::RangeInclusive<u64> = 64..=65_536;

/// How long descriptions have been so far (`PERF_ATTR_SIZE_VER0` to `VER7`).
const SIZES: [usize; 8] = [64, 72, 80, 96, 104, 112, 120, 128];

/// A part of a file: where it begins, and how long it is.
type Section = (u64, u64);

/// Says what cannot be, if there is something.
pub fn check(file: &mut (impl Read + Seek)) -> Result<()> {
    let length = file.seek(SeekFrom::End(0))?;
    let is_inside = |(begin, size): Section| begin.checked_add(size).is_some_and(|end| end <= length);
    let inside = |section: Section| -> Result<Section> {
        ensure!(
            is_inside(section),
            "it names a part of itself that is not there: it is damaged, or was not finished"
        );
        Ok(section)
    };
    let header = bytes(file, (0, HEADER as u64)).context("it ends in its header")?;
    let event = number(&header, 16);
    ensure!(EVENT.contains(&event), "its events cannot be {event} bytes long: it is damaged");
    let events = inside(section(&header, 24))?;
    let data = inside(section(&header, 40))?;
    let old_events = inside(section(&header, 56))?;
    // Each event is followed by where its numbers are; the size of the old ones is meant without that.
    for (list, size) in [(events, event), (old_events, event + 16)] {
        for event in bytes(file, list)?.chunks_exact(size as usize) {
            inside(section(event, event.len() - 16))?;
        }
    }
    let is_there = |feature: &usize| header[FEATURES + feature / 8] >> (feature % 8) & 1 == 1;
    let features: Vec<usize> = (0..8 * (HEADER - FEATURES)).filter(is_there).collect();
    let table = inside((data.0 + data.1, 16 * features.len() as u64))?;
    let table = bytes(file, table)?;
    for (feature, at) in features.into_iter().zip(table.chunks_exact(16)) {
        let place = inside(section(at, 0))?;
        let fits = match feature {
            COMMAND => is_list(&bytes(file, place)?),
            EVENTS => are_events(&bytes(file, place)?),
            _ => Some(()),
        };
        fits.context("it has a list that is longer than the part it is in: it is damaged")?;
    }
    records(file, data)
}

/// Looks for records that say that more follows them than does. What else is wrong with records the library says.
fn records(file: &mut (impl Read + Seek), (begin, size): Section) -> Result<()> {
    let mut file = BufReader::new(file);
    file.seek(SeekFrom::Start(begin))?;
    let mut left = size;
    while left >= 16 {
        let mut record = [0; 16];
        file.read_exact(&mut record)?;
        let header = number(&record, 0);
        let mut size = header >> 48;
        if header as u32 == TRACE {
            size = size.saturating_add(number(&record, 8));
            ensure!(size <= left, "one of its records is longer than it is: it is damaged");
        }
        if size < 8 || size > left {
            break;
        }
        file.seek_relative(size as i64 - 16)?;
        left -= size;
    }
    Ok(())
}

/// The bytes of a section that is inside the file.
fn bytes(file: &mut (impl Read + Seek), (begin, size): Section) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size)?];
    file.seek(SeekFrom::Start(begin))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    (0..8).rev().fold(0, |number, byte| number << 8 | u64::from(bytes[at + byte]))
}

fn section(bytes: &[u8], at: usize) -> Section {
    (number(bytes, at), number(bytes, at + 8))
}

/// Takes a length from the front.
fn length(rest: &mut &[u8]) -> Option<usize> {
    let (length, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_le_bytes(*length) as usize)
}

/// Takes so many bytes from the front.
fn skip(rest: &mut &[u8], bytes: usize) -> Option<()> {
    *rest = rest.get(bytes..)?;
    Some(())
}

/// A number of strings, and the strings.
fn is_list(mut rest: &[u8]) -> Option<()> {
    (0..length(&mut rest)?).try_for_each(|_| {
        let text = length(&mut rest)?;
        skip(&mut rest, text)
    })
}

/// A number of events, the size of their descriptions, and for each its description, its name and its numbers.
fn are_events(mut rest: &[u8]) -> Option<()> {
    let (events, size) = (length(&mut rest)?, length(&mut rest)?);
    (0..events).try_for_each(|_| {
        let mut own_size = rest.get(4..)?;
        let own_size = length(&mut own_size)?;
        // The library goes on behind what it has read of any other.
        if own_size > size || !(SIZES.contains(&own_size) || own_size > SIZES[SIZES.len() - 1]) {
            return None;
        }
        skip(&mut rest, size)?;
        let numbers = length(&mut rest)?;
        let name = length(&mut rest)?;
        skip(&mut rest, name)?;
        skip(&mut rest, numbers.checked_mul(8)?)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    /// A file with one event, one record, which could be followed by a trace, and these features: its host's name, its command and its
    /// events.
    fn file() -> Vec<u8> {
        let string = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        // A software event: the clock of a CPU.
        let mut event = [0; 64];
        event[0] = 1;
        event[4] = 64;
        let command = [&1_u32.to_le_bytes()[..], &string("perf")].concat();
        let description =
            [&[1, 0, 0, 0, 64, 0, 0, 0][..], &event, &1_u32.to_le_bytes(), &string("cpu-clock"), &[7; 8]]
                .concat();
        let features = [string("here"), command, description];
        let end_of_events = 104 + 64 + 16;
        let record = 48;
        let mut numbers = vec![104, 64 + 16, 104, 64 + 16, end_of_events, record, 0, 0];
        numbers.extend([1 << 3 | 1 << 11 | 1 << 12, 0, 0, 0_u64]);
        let mut file = b"PERFILE2".to_vec();
        file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        file.extend(event);
        file.extend([0; 16]);
        file.extend([71, 0, 0, 0, 0, 0, record as u8, 0]);
        file.extend([0; 40]);
        let mut at = end_of_events + record + 16 * features.len() as u64;
        for feature in &features {
            file.extend(at.to_le_bytes());
            file.extend((feature.len() as u64).to_le_bytes());
            at += feature.len() as u64;
        }
        [file, features.concat()].concat()
    }

    #[test]
    fn whatever_a_damaged_file_says_is_no_reason_to_panic() {
        let whole = file();
        let content = super::super::read(Cursor::new(&whole)).unwrap();
        assert_eq!((content.host.as_str(), content.events[0].name.as_str()), ("here", "cpu-clock"));
        let mut refused = 0;
        for at in 0..whole.len() {
            for byte in [0, 1, 127, 255] {
                let mut broken = whole.clone();
                broken[at] = byte;
                refused += usize::from(super::super::read(Cursor::new(&broken)).is_err());
            }
            assert!(super::super::read(Cursor::new(&whole[..at])).is_err(), "{at} bytes");
        }
        assert!(refused > 100, "{refused}");
    }
}
