//! What a process has mapped where: `/proc/PID/maps`, proc_pid_maps(5).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use wire::Address;

/// A position in a file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOffset(pub u64);

/// Which file it is, whatever its name: device (major, minor) and inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Number of the inode; zero for memory without a file.
    pub inode: u64,
}

/// A stretch of address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: Address,
    /// First address after it.
    pub end: Address,
    /// Where in the file `start` lies.
    pub offset: FileOffset,
    /// Whether code may run in it.
    pub executable: bool,
    /// The file's name when it was mapped, in the process's own mount namespace; a name in brackets such
    /// as `[vdso]`; or nothing for anonymous memory.
    pub path: Option<PathBuf>,
    /// Whether the file has been deleted or replaced since: what lies at `path` now is another one.
    pub deleted: bool,
    /// The file itself.
    pub file: FileId,
}

impl Mapping {
    /// Whether a file lies behind it.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file.inode != 0
    }

    /// Whether `address` lies in it.
    #[must_use]
    pub fn contains(&self, address: Address) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The position in the file that is mapped at `address`, if it lies in this mapping.
    #[must_use]
    pub fn offset_of(&self, address: Address) -> Option<FileOffset> {
        self.contains(address).then(|| FileOffset(address.0 - self.start.0 + self.offset.0))
    }
}

/// The mappings of a process, in the order of their addresses.
///
/// # Errors
/// `NotFound` when the process has gone, `PermissionDenied` when it is not ours. A process that has ended
/// but was not waited for has no mappings: the list is empty.
pub fn maps(pid: u32) -> io::Result<Vec<Mapping>> {
    let file = format!("/proc/{pid}/maps");
    let text = std::fs::read(&file)?;
    // The kernel hands a long list over in parts, and the process may have ended between two of them.
    if File::open(&file)?.read(&mut [0])? == 0 {
        return Ok(Vec::new());
    }
    Ok(parse(&text))
}

/// The mappings of a process that are code, like [`maps`]; or nothing if they would take more than `most` bytes of memory, or if the
/// list is longer than any that is not made to be expensive.
///
/// # Errors
/// As those of [`maps`].
pub fn code(pid: u32, most: usize) -> io::Result<Option<Vec<Mapping>>> {
    let file = format!("/proc/{pid}/maps");
    let (mut code, mut bytes) = (Vec::new(), 0);
    let mut text = BufReader::with_capacity(1 << 16, File::open(&file)?).take(LONGEST);
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line)? > 0 {
        let mapping =
            parse_line(line.strip_suffix(b"\n").unwrap_or(&line)).filter(|mapping| mapping.executable);
        line.clear();
        let Some(mapping) = mapping else { continue };
        bytes += size_of::<Mapping>() + mapping.path.as_ref().map_or(0, |path| path.as_os_str().len());
        if bytes > most {
            return Ok(None);
        }
        code.push(mapping);
    }
    if text.limit() == 0 {
        return Ok(None);
    }
    if File::open(&file)?.read(&mut [0])? == 0 {
        return Ok(Some(Vec::new()));
    }
    Ok(Some(code))
}

/// The file behind a process's own data at an address: memory that it can write, that holds no code, and that it shares with no other. None if so many bytes from there on are
/// anything else.
///
/// # Errors
/// As those of [`maps`].
pub fn private_data(pid: u32, address: Address, bytes: u64) -> io::Result<Option<FileId>> {
    let mut text = BufReader::new(File::open(format!("/proc/{pid}/maps"))?);
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line)? > 0 {
        let found = parse_line(line.strip_suffix(b"\n").unwrap_or(&line))
            .filter(|mapping| mapping.contains(address) && address.0 + bytes <= mapping.end.0);
        if let Some(mapping) = found {
            let is_data = line.split(|byte| *byte == b' ').nth(1).is_some_and(|rights| rights == b"rw-p");
            return Ok(is_data.then_some(mapping.file));
        }
        line.clear();
    }
    Ok(None)
}

/// Bytes of text that are read about the mappings of a process: 65,530 of them, as many as a process may have by default, with paths
/// of 200 bytes.
const LONGEST: u64 = 16 << 20;

fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// `start-end perms offset major:minor inode   path`; the path may contain spaces.
fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let length = rest[start..].iter().position(|byte| *byte == b' ').unwrap_or(rest.len() - start);
        let (field, after) = rest[start..].split_at(length);
        rest = after;
        std::str::from_utf8(field).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let permissions = field()?;
    let offset = field()?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let (path, deleted) = path(rest);
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    Some(Mapping {
        start: Address(hex(start)?),
        end: Address(hex(end)?),
        offset: FileOffset(hex(offset)?),
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        path,
        deleted,
        file: FileId { device: (hex(major)? as u32, hex(minor)? as u32), inode },
    })
}

fn path(padded: &[u8]) -> (Option<PathBuf>, bool) {
    let Some(start) = padded.iter().position(|byte| *byte != b' ') else { return (None, false) };
    let name = &padded[start..];
    // A file whose real name ends like this looks deleted as well; the kernel leaves no way to tell.
    let (name, deleted) = match name.strip_suffix(b" (deleted)") {
        Some(name) if name.starts_with(b"/") => (name, true),
        _ => (name, false),
    };
    let name = if name.contains(&b'\\') { unescape(name) } else { OsStr::from_bytes(name).into() };
    (Some(name.into()), deleted)
}

/// The kernel writes a line feed as `\012`, and escapes nothing else, not even the backslash.
fn unescape(name: &[u8]) -> std::ffi::OsString {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(br"\012") {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    std::ffi::OsString::from_vec(plain)
}

/// The processes that there are.
pub fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_process_is_read_within_limits() {
        let pid = std::process::id();
        let mut expected = maps(pid).unwrap();
        expected.retain(|mapping| mapping.executable);
        assert!(expected.len() > 2);
        let bytes = |mapping: &Mapping| {
            size_of::<Mapping>() + mapping.path.as_ref().map_or(0, |path| path.as_os_str().len())
        };
        let enough: usize = expected.iter().map(bytes).sum();
        assert_eq!(code(pid, enough).unwrap(), Some(expected));
        assert_eq!(code(pid, enough - 1).unwrap(), None);
        // A number that no process has.
        assert!(code(1 << 29, enough).is_err());
    }

    #[test]
    fn lines_of_every_kind() {
        let text = b"\
5581d0c00000-5581d0c01000 r-xp 00002000 fd:01 1048602                    /usr/bin/a b  c\n\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
7f0000001000-7f0000002000 r--s 0001f000 00:1a 77                         /tmp/gone (deleted)\n\
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                          [vdso]\n\
7ffc00001000-7ffc00002000 r--p 00000000 103:02 9                         /x\\012y\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let expected = [
            ("/usr/bin/a b  c", true, false, 0x2000, (0xfd, 1), 1_048_602),
            ("", false, false, 0, (0, 0), 0),
            ("/tmp/gone", false, true, 0x1f000, (0, 0x1a), 77),
            ("[vdso]", true, false, 0, (0, 0), 0),
            ("/x\ny", false, false, 0, (0x103, 2), 9),
            ("[vsyscall]", true, false, 0, (0, 0), 0),
        ];
        let parsed = parse(text);
        assert_eq!(parsed.len(), expected.len());
        for (mapping, (path, executable, deleted, offset, device, inode)) in parsed.iter().zip(expected) {
            assert_eq!(mapping.path.as_ref().map_or("", |p| p.to_str().unwrap()), path);
            assert_eq!((mapping.executable, mapping.deleted), (executable, deleted), "{path}");
            assert_eq!(mapping.offset, FileOffset(offset), "{path}");
            assert_eq!(mapping.file, FileId { device, inode }, "{path}");
        }
        assert_eq!(parsed[0].offset_of(Address(0x5581_d0c0_0010)), Some(FileOffset(0x2010)));
        assert_eq!(parsed[0].offset_of(Address(0x5581_d0c0_1000)), None);
    }

    #[test]
    fn this_function_lies_in_this_executable() {
        let here = Address(this_function_lies_in_this_executable as fn() as usize as u64);
        let maps = maps(std::process::id()).unwrap();
        let mapping = maps.iter().find(|mapping| mapping.contains(here)).unwrap();
        assert!(mapping.executable && mapping.is_file() && !mapping.deleted);
        assert_eq!(mapping.path, Some(std::env::current_exe().unwrap()));
    }

    #[test]
    fn a_process_that_has_gone_is_not_found() {
        assert_eq!(maps(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
