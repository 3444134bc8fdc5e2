//! Regular: files of a folder that another user may have filled.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file as `options` say, and nothing else: no pipe, which could keep us waiting, no device, and no symbolic link, which could
/// lead anywhere.
///
/// # Errors
/// The system's; [`ErrorKind::InvalidInput`] for what is no regular file.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let not_regular = || io::Error::new(ErrorKind::InvalidInput, "it is not a regular file");
    let is_link =
        |error: &io::Error| rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP);
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|error| if is_link(&error) { not_regular() } else { error })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// The bytes of a regular file that has no more than `most`.
///
/// # Errors
/// As [`open_regular`]; [`ErrorKind::FileTooLarge`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path, OpenOptions::new().read(true))?;
    let too_large = || io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {most} bytes"));
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // A sparse file may be longer than all memory.
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX)).map_err(|_| too_large())?;
    // It may have grown meanwhile.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_but_regular_files_of_the_expected_length() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        std::fs::write(of("file"), b"12345").unwrap();
        symlink(of("file"), of("link")).unwrap();
        symlink("/dev/zero", of("zero")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            of("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read_regular(&of("file"), 5).unwrap(), b"12345");
        assert_eq!(read_regular(&of("file"), 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        for name in ["link", "zero", "pipe", "."] {
            assert_eq!(read_regular(&of(name), 5).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        }
        assert_eq!(read_regular(&of("none"), 5).unwrap_err().kind(), ErrorKind::NotFound);
        // Nor is anything made where a link leads.
        symlink(of("target"), of("dangling")).unwrap();
        let mut options = OpenOptions::new();
        options.write(true).create(true);
        assert!(open_regular(&of("dangling"), &mut options).is_err() && !of("target").exists());
        assert!(open_regular(&of("new"), &mut options).is_ok());
    }
}
