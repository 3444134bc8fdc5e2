//! What a launcher must know about a program before it runs it: whether the runtime library can be
//! loaded into it at all, and if not, why.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use object::elf;

use crate::elf::{Elf, open_regular};
use crate::error::ImageError;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// What a file would do if it were run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executable {
    /// An ELF program.
    Elf(ElfProgram),
    /// A `#!` script; the interpreter is what runs.
    Script {
        /// The interpreter's path, as written.
        interpreter: PathBuf,
        /// What follows it on the line: one argument, as the kernel passes it (execve(2)).
        argument: Option<String>,
    },
    /// Neither; the kernel would refuse it, or hand it to `binfmt_misc`.
    Other,
}

/// What the headers and the file mode say about an ELF program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElfProgram {
    /// 32 or 64 bits.
    pub class: Class,
    /// The instruction set.
    pub machine: Machine,
    /// Whether, and by what, it is linked when it starts.
    pub linking: Linking,
    /// Run as the file's owner: the dynamic linker then ignores `LD_PRELOAD` (ld.so(8)).
    pub setuid: bool,
    /// Run as the file's group; as above.
    pub setgid: bool,
}

/// The size of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `ELFCLASS32`.
    Bits32,
    /// `ELFCLASS64`.
    Bits64,
}

/// The instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// `EM_X86_64`. With [`Class::Bits32`] this is the x32 ABI.
    X86_64,
    /// `EM_AARCH64`.
    Aarch64,
    /// `EM_386`.
    X86,
    /// Anything else, as `e_machine` says.
    Other(u16),
}

/// How the program gets its libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linking {
    /// No `PT_INTERP`: nothing can be preloaded.
    Static,
    /// By glibc's dynamic linker, at this path.
    Glibc(PathBuf),
    /// By musl's dynamic linker, at this path.
    Musl(PathBuf),
    /// By another dynamic linker.
    Other(PathBuf),
}

impl Linking {
    /// The dynamic linker, if there is one.
    pub fn interpreter(&self) -> Option<&Path> {
        match self {
            Linking::Static => None,
            Linking::Glibc(path) | Linking::Musl(path) | Linking::Other(path) => Some(path),
        }
    }

    fn by(interpreter: Vec<u8>) -> Self {
        let path = PathBuf::from(std::ffi::OsString::from_vec(interpreter));
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        if name.starts_with("ld-musl") {
            Linking::Musl(path)
        } else if name.starts_with("ld-linux") || name.starts_with("ld64.so") || name == "ld.so.1" {
            Linking::Glibc(path)
        } else {
            Linking::Other(path)
        }
    }
}

/// Looks at a file that is about to be run. Follows symbolic links, does not search `PATH`.
///
/// # Errors
///
/// [`ImageError`] if the file cannot be read or its ELF headers are damaged.
pub fn inspect(path: &Path) -> Result<Executable, ImageError> {
    let (file, length) = open_regular(path)?;
    let mut start = vec![0; length.min(256) as usize];
    let failed = |source| ImageError::Read { path: path.to_owned(), source };
    file.read_exact_at(&mut start, 0).map_err(failed)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        return Ok(script(line));
    }
    if !start.starts_with(b"\x7fELF") {
        return Ok(Executable::Other);
    }
    let mode = file.metadata().map_err(failed)?.mode();
    let headers = Elf::open(path)?.headers;
    Ok(Executable::Elf(ElfProgram {
        class: if headers.is_64 { Class::Bits64 } else { Class::Bits32 },
        machine: match headers.machine {
            elf::EM_X86_64 => Machine::X86_64,
            elf::EM_AARCH64 => Machine::Aarch64,
            elf::EM_386 => Machine::X86,
            other => Machine::Other(other),
        },
        linking: headers.interpreter.map_or(Linking::Static, Linking::by),
        setuid: mode & SETUID != 0,
        setgid: mode & SETGID != 0,
    }))
}

/// Splits the line after `#!` as the kernel does (fs/binfmt_script.c): blanks around, then the
/// interpreter, then the rest as one argument.
fn script(line: &[u8]) -> Executable {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let line = line.trim_ascii();
    if line.is_empty() {
        return Executable::Other;
    }
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    let argument = String::from_utf8_lossy(argument.trim_ascii()).into_owned();
    Executable::Script {
        interpreter: PathBuf::from(std::ffi::OsString::from_vec(interpreter.to_vec())),
        argument: (!argument.is_empty()).then_some(argument),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_lines() {
        for (line, interpreter, argument) in [
            (&b"/bin/sh\necho"[..], "/bin/sh", None),
            (b" /usr/bin/env python3 -u\n", "/usr/bin/env", Some("python3 -u")),
            (b"/bin/sh\t-e \n", "/bin/sh", Some("-e")),
            (b"/bin/sh", "/bin/sh", None),
        ] {
            let expected =
                Executable::Script { interpreter: interpreter.into(), argument: argument.map(str::to_owned) };
            assert_eq!(script(line), expected);
        }
        assert_eq!(script(b"\n"), Executable::Other);
    }

    #[test]
    fn dynamic_linkers() {
        for (path, expected) in [
            ("/lib64/ld-linux-x86-64.so.2", Linking::Glibc as fn(PathBuf) -> Linking),
            ("/lib/ld-linux-aarch64.so.1", Linking::Glibc),
            ("/nix/store/x/lib/ld-linux-x86-64.so.2", Linking::Glibc),
            ("/lib/ld-musl-x86_64.so.1", Linking::Musl),
            ("/system/bin/linker64", Linking::Other),
        ] {
            let linking = Linking::by(path.as_bytes().to_vec());
            assert_eq!(linking, expected(path.into()));
            assert_eq!(linking.interpreter(), Some(Path::new(path)));
        }
    }
}
