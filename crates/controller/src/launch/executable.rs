//! Finding the program, and whether the runtime can be loaded into it.

use super::error::{LaunchError, Obstacle};
use super::held::{self, Place};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Sym, SymbolTable};
use object::{Endianness, ReadCache, ReadRef};
use rustix::fs::{Access, StatVfsMountFlags, access, fstatvfs, getxattr};
use rustix::process::{getgid, getuid};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use symbols::Image;

/// A program that can be profiled, and how to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    command: PathBuf,
    name: OsString,
    leading: Vec<OsString>,
    image: PathBuf,
    script: Option<PathBuf>,
    /// Where it is held until the runtime has been put into it, if that cannot be preloaded.
    held_at: Option<Place>,
}

impl Executable {
    /// What is executed: a program, or a script that the kernel finds the interpreter of.
    #[must_use]
    pub fn command(&self) -> &Path {
        &self.command
    }

    /// What it is told its name is (`argv[0]`): what the user typed.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Arguments before the user's, when a script is started without the `env` in its first line.
    #[must_use]
    pub fn leading_arguments(&self) -> &[OsString] {
        &self.leading
    }

    /// The program whose code will run: `command`, or the interpreter of the script.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The script that the program interprets, if it was one that was named.
    #[must_use]
    pub fn script(&self) -> Option<&Path> {
        self.script.as_deref()
    }

    /// Where it is held until the runtime has been put into it; none if that is preloaded.
    #[must_use]
    pub fn held_at(&self) -> Option<Place> {
        self.held_at
    }

    /// What the user should know before it starts.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let script = self.script.as_ref()?;
        Some(format!(
            "{} is a script: its interpreter {} is profiled, and with it what it starts, unless --no-follow is given. \
             To profile one program alone: whatif run --follow NAME -- SCRIPT",
            script.display(),
            self.image.display()
        ))
    }
}

/// The same as [`check`] for a program that we start ourselves: one into which nothing can be preloaded (a static one, or one with musl), or which makes system calls by itself besides (Go
/// with C code), may be held where it begins until the runtime has been put into it.
///
/// # Errors
/// As [`check`].
pub fn check_to_start(program: &OsStr) -> Result<Executable, LaunchError> {
    // The interpreter of a script is started by the kernel.
    let is_itself =
        |path: &PathBuf| find(program, std::env::var_os("PATH").as_deref()).is_ok_and(|found| found == *path);
    let (path, why) = match check(program) {
        Err(LaunchError::Unprofilable {
            path,
            why: why @ (Obstacle::Static | Obstacle::Libc(_) | Obstacle::Go),
        }) => (path, why),
        // What is marked in its source needs the runtime from the beginning; and where it cannot be held its C code can be profiled.
        Ok(executable) if is_go(&executable.image) == Some(Go::WithC) && is_itself(&executable.image) => {
            let has_marks = Image::open(&executable.image).is_ok_and(|image| is_marked(&image));
            let may_be_held = crate::attach::may_trace_what_it_starts() && !has_marks;
            let held_at = may_be_held.then(|| held::place(&executable.image)).flatten();
            return Ok(Executable { held_at, ..executable });
        }
        other => return other,
    };
    let is_itself = is_itself(&path);
    match held::place(&path) {
        Some(place) if is_itself => {
            Ok(Executable { name: program.to_owned(), held_at: Some(place), ..running(path) })
        }
        None if is_itself && why == Obstacle::Static => {
            Err(LaunchError::Unprofilable { path, why: Obstacle::Stripped })
        }
        _ => Err(LaunchError::Unprofilable { path, why }),
    }
}

/// Whether progress points are marked in a program's source.
pub fn is_marked(image: &Image) -> bool {
    image.has_constant(MARK)
}

/// What `whatif.h`, `coz.h` and our crate look for.
const MARK: &[u8] = b"_coz_get_counter\0";

/// Finds `program` as `execvp` would and checks that it can be profiled.
///
/// # Errors
/// Everything but [`LaunchError::Start`] and [`LaunchError::Watch`].
pub fn check(program: &OsStr) -> Result<Executable, LaunchError> {
    let path = find(program, std::env::var_os("PATH").as_deref())?;
    resolve(path, program.to_owned(), SCRIPTS_IN_SCRIPTS, Env::Through)
}

/// Checks the file at `path` as [`check`] does: what the kernel makes of it when another program executes it.
///
/// # Errors
/// As [`check`].
pub fn check_as_executed(path: PathBuf) -> Result<Executable, LaunchError> {
    if let Some(refusal) = refusal(&path) {
        return Err(refusal);
    }
    let name = path.clone().into_os_string();
    resolve(path, name, SCRIPTS_IN_SCRIPTS, Env::Itself)
}

/// A program in Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// It has no C library.
    WithoutC,
    /// It creates threads by the C library's function, because it has C code (cgo) or calls libraries, and a loader loads that library.
    WithC,
    /// It has C code and a C library in itself.
    StaticWithC,
}

/// Whether a file is a program in Go, as far as it tells.
pub fn is_go(path: impl AsRef<Path>) -> Option<Go> {
    let data = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    go(header, header.endian().ok()?, &data)
}

fn go<'d, R: ReadRef<'d>>(header: &FileHeader64<Endianness>, endian: Endianness, data: R) -> Option<Go> {
    let sections = header.sections(endian, data).ok()?;
    sections.section_by_name(endian, b".go.buildinfo")?;
    let segments = header.program_headers(endian, data).ok()?;
    let has_loader = segments.iter().any(|segment| matches!(segment.interpreter(endian, data), Ok(Some(_))));
    if !has_loader {
        // Compilers of C write down how to find callers; Go's has another way.
        let has_c = sections.section_by_name(endian, b".eh_frame").is_some();
        return Some(if has_c { Go::StaticWithC } else { Go::WithoutC });
    }
    const OF_C: [&[u8]; 2] = [b"sigaction", b"pthread_create"];
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM).ok()?;
    let uses_c = OF_C.iter().any(|name| imports(endian, &symbols, name));
    Some(if uses_c { Go::WithC } else { Go::WithoutC })
}

/// The program that a process runs, which may not be executed any more, or not by us.
pub fn running(path: PathBuf) -> Executable {
    Executable {
        command: path.clone(),
        name: path.clone().into_os_string(),
        leading: Vec::new(),
        image: path,
        script: None,
        held_at: None,
    }
}

/// Which program a script that begins with `#!/usr/bin/env` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Env {
    /// The one that `env` starts.
    Through,
    /// `env`, as the kernel sees it.
    Itself,
}

/// As deep as the kernel goes.
const SCRIPTS_IN_SCRIPTS: u32 = 5;

/// Searches as execvp(3): a name with a slash is a path, an empty entry is the current folder, what may
/// not be executed is passed over and remembered.
fn find(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    let name = program.as_bytes();
    if name.contains(&b'/') || name.is_empty() {
        return match refusal(Path::new(program)) {
            None => Ok(program.into()),
            Some(refusal) => Err(refusal),
        };
    }
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let mut refused = None;
    for folder in path.as_bytes().split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let candidate = Path::new(OsStr::from_bytes(folder)).join(program);
        let metadata = candidate.metadata();
        // Nobody can tell whether it is in a folder that may not be looked into.
        let is_hidden = metadata.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        match refusal_of(&candidate, metadata) {
            None => return Ok(candidate),
            Some(LaunchError::NotFound { .. }) => {}
            Some(_) if is_hidden => {}
            Some(other) => {
                refused.get_or_insert(other);
            }
        }
    }
    Err(refused.unwrap_or_else(|| {
        let is_here = refusal(Path::new(program)).is_none();
        LaunchError::NotFound { program: program.into(), in_path: true, is_here }
    }))
}

/// Why the kernel would not execute the file, as far as permissions go.
fn refusal(path: &Path) -> Option<LaunchError> {
    refusal_of(path, path.metadata())
}

fn refusal_of(path: &Path, metadata: io::Result<Metadata>) -> Option<LaunchError> {
    match metadata {
        Ok(metadata) if metadata.is_dir() => Some(LaunchError::Folder(path.into())),
        Ok(metadata) if !metadata.is_file() => Some(LaunchError::NotExecutable(path.into())),
        // Also says no on a noexec file system.
        Ok(_) => access(path, Access::EXEC_OK).err().map(|_| LaunchError::NotExecutable(path.into())),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Some(LaunchError::NotExecutable(path.into()))
        }
        Err(_) => Some(LaunchError::NotFound { program: path.into(), in_path: false, is_here: false }),
    }
}

fn resolve(path: PathBuf, name: OsString, depth: u32, env: Env) -> Result<Executable, LaunchError> {
    let unreadable = |error| LaunchError::Unreadable { path: path.clone(), error };
    let mut file = File::open(&path).map_err(unreadable)?;
    // The kernel looks no further than this for the first line.
    let mut start = Vec::with_capacity(256);
    file.by_ref().take(256).read_to_end(&mut start).map_err(unreadable)?;
    if let Some(line) = FirstLine::parse(&start) {
        return match depth {
            0 => Err(LaunchError::Format(path)),
            _ => resolve_script(path, name, &line, depth - 1, env),
        };
    }
    if !start.starts_with(&elf::ELFMAG) {
        return Err(LaunchError::Format(path));
    }
    file.rewind().map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if let Some(why) = privilege(&path, &file, &metadata) {
        return Err(LaunchError::Unprofilable { path, why });
    }
    let loader = match inspect(&ReadCache::new(file)) {
        Some(Facts::Loader(loader)) => loader,
        Some(Facts::Obstacle(why)) => return Err(LaunchError::Unprofilable { path, why }),
        None => return Err(LaunchError::Format(path)),
    };
    if !loader.exists() {
        return Err(LaunchError::NothingToStartIt { path, needs: loader, script: false });
    }
    Ok(Executable { name, ..running(path) })
}

/// The kernel starts the interpreter, and we check that. `env`, however, only starts another program, which
/// would run without the runtime: so we do what it would do, where that is plain to see.
fn resolve_script(
    path: PathBuf,
    name: OsString,
    line: &FirstLine,
    depth: u32,
    env: Env,
) -> Result<Executable, LaunchError> {
    let missing = |needs: &OsStr| LaunchError::NothingToStartIt {
        path: path.clone(),
        needs: needs.into(),
        script: true,
    };
    let lookup = |found: Result<PathBuf, LaunchError>, needs: &OsStr| match found {
        Err(LaunchError::NotFound { .. }) => Err(missing(needs)),
        other => other,
    };
    if let Some(words) = line.behind_env().filter(|_| env == Env::Through) {
        let program = &words[0];
        let found = lookup(find(program, std::env::var_os("PATH").as_deref()), program)?;
        let mut inner = resolve(found, program.clone(), depth, env)?;
        inner.leading.extend_from_slice(&words[1..]);
        inner.leading.push(path.clone().into());
        inner.script = Some(path);
        return Ok(inner);
    }
    let interpreter = lookup(find_interpreter(&line.interpreter), &line.interpreter)?;
    let mut inner = resolve(interpreter, line.interpreter.clone(), depth, env)?;
    if inner.leading.is_empty() {
        // The kernel can do it alone.
        return Ok(Executable { command: path.clone(), name, script: Some(path), ..inner });
    }
    inner.leading.extend(line.argument.clone());
    inner.leading.push(path.clone().into());
    inner.script = Some(path);
    Ok(inner)
}

/// Unlike a user's command, an interpreter is never searched for.
fn find_interpreter(interpreter: &OsStr) -> Result<PathBuf, LaunchError> {
    let path = PathBuf::from(interpreter);
    refusal(&path).map_or(Ok(path), Err)
}

/// `#!interpreter argument`, the argument being the rest of the line, spaces and all.
#[derive(Debug, PartialEq, Eq)]
struct FirstLine {
    interpreter: OsString,
    argument: Option<OsString>,
}

impl FirstLine {
    fn parse(start: &[u8]) -> Option<Self> {
        let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = trim(line);
        let length = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
        let (interpreter, argument) = (&line[..length], trim(&line[length..]));
        let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        (!interpreter.is_empty()).then(|| Self {
            interpreter: owned(interpreter),
            argument: (!argument.is_empty()).then(|| owned(argument)),
        })
    }

    /// The words of the command that `env` would start: `env NAME`, `env -S NAME ARGUMENT…`. Nothing if the
    /// interpreter is not `env`, or is asked for anything else.
    fn behind_env(&self) -> Option<Vec<OsString>> {
        if Path::new(&self.interpreter).file_name()? != "env" {
            return None;
        }
        let argument = self.argument.as_ref()?.as_bytes();
        let words: Vec<&[u8]> = match argument.strip_prefix(b"-S") {
            Some(several) => several.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty()).collect(),
            None => vec![argument],
        };
        let plain = |byte: &u8| !is_blank(*byte) && !b"\"'\\$#".contains(byte);
        let first = words.first()?;
        if first.starts_with(b"-") || first.contains(&b'=') || !words.iter().all(|w| w.iter().all(plain)) {
            return None;
        }
        Some(words.into_iter().map(|word| OsString::from_vec(word.to_vec())).collect())
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn trim(bytes: &[u8]) -> &[u8] {
    let Some(start) = bytes.iter().position(|byte| !is_blank(*byte)) else { return &[] };
    let end = bytes.iter().rposition(|byte| !is_blank(*byte)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

/// Whether the kernel would start the program in "secure mode", in which the loader disregards
/// `LD_PRELOAD`: when it gains rights by starting (kernel: `cap_bprm_creds_from_file`).
fn privilege(path: &Path, file: &File, metadata: &Metadata) -> Option<Obstacle> {
    let no_gain = rustix::thread::no_new_privs().unwrap_or(false)
        || fstatvfs(file).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    if no_gain {
        return None;
    }
    let set_user = metadata.mode() & 0o4000 != 0 && metadata.uid() != getuid().as_raw();
    let set_group = metadata.mode() & 0o2010 == 0o2010 && metadata.gid() != getgid().as_raw();
    if set_user || set_group {
        return Some(Obstacle::SetId(path.display().to_string()));
    }
    let capable = getxattr(path, "security.capability", &mut [0_u8; 64]).is_ok_and(|length| length > 0);
    // Root has them anyway.
    (capable && !getuid().is_root()).then(|| Obstacle::Capabilities(path.display().to_string()))
}

enum Facts {
    Loader(PathBuf),
    Obstacle(Obstacle),
}

/// What the ELF header and the program headers say; nothing if they do not describe a program. Reads a few
/// hundred bytes, wherever they lie.
fn inspect<R: Read + Seek>(data: &ReadCache<R>) -> Option<Facts> {
    // Both classes begin alike: e_ident, e_type, e_machine.
    let start = data.read_bytes_at(0, 20).ok()?;
    let half = |at: usize| match start[5] {
        elf::ELFDATA2MSB => u16::from_be_bytes([start[at], start[at + 1]]),
        _ => u16::from_le_bytes([start[at], start[at + 1]]),
    };
    let (class, kind, machine) = (start[4], half(16), half(18));
    if kind != elf::ET_EXEC && kind != elf::ET_DYN {
        return None;
    }
    match (machine, class) {
        (elf::EM_X86_64, elf::ELFCLASS64) => {}
        (elf::EM_X86_64 | elf::EM_386, elf::ELFCLASS32) => {
            return Some(Facts::Obstacle(Obstacle::ThirtyTwoBit));
        }
        _ => return Some(Facts::Obstacle(Obstacle::Architecture(architecture(machine)))),
    }
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    match go(header, endian, data) {
        Some(Go::WithoutC) => return Some(Facts::Obstacle(Obstacle::Go)),
        Some(Go::StaticWithC) => return Some(Facts::Obstacle(Obstacle::StaticGoWithC)),
        Some(Go::WithC) | None => {}
    }
    for segment in header.program_headers(endian, data).ok()? {
        if let Some(loader) = segment.interpreter(endian, data).ok()? {
            return Some(from_loader(OsStr::from_bytes(loader)));
        }
    }
    Some(Facts::Obstacle(Obstacle::Static))
}

fn imports<'d, R: ReadRef<'d>>(
    endian: Endianness,
    symbols: &SymbolTable<'d, FileHeader64<Endianness>, R>,
    name: &[u8],
) -> bool {
    symbols
        .iter()
        .any(|symbol| symbol.is_undefined(endian) && symbols.symbol_name(endian, symbol) == Ok(name))
}

/// glibc's loader is `ld-linux-x86-64.so.2` wherever it lies; the LSB's is a link to it.
fn from_loader(loader: &OsStr) -> Facts {
    let file = Path::new(loader).file_name().unwrap_or_default().as_bytes();
    if file.starts_with(b"ld-musl") || file == b"linker64" {
        return Facts::Obstacle(Obstacle::Libc(loader.display().to_string()));
    }
    Facts::Loader(loader.into())
}

fn architecture(machine: u16) -> String {
    match machine {
        elf::EM_AARCH64 => "AArch64".into(),
        elf::EM_ARM => "32-bit ARM".into(),
        elf::EM_RISCV => "RISC-V".into(),
        elf::EM_PPC64 => "64-bit PowerPC".into(),
        elf::EM_S390 => "IBM Z".into(),
        elf::EM_LOONGARCH => "LoongArch".into(),
        elf::EM_MIPS => "MIPS".into(),
        elf::EM_BPF => "BPF".into(),
        other => format!("another architecture (ELF machine {other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    fn folder() -> TempDir {
        tempfile::tempdir().unwrap()
    }

    fn put(folder: &TempDir, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// This test program, with some bytes changed.
    fn altered(folder: &TempDir, name: &str, changes: &[(usize, &[u8])]) -> PathBuf {
        let mut start = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        start.truncate(4096);
        for (at, bytes) in changes {
            start[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        put(folder, name, start, 0o755)
    }

    fn failure(path: &Path) -> (i32, String) {
        let error = check(path.as_os_str()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(".\n") || message.contains("?\n"), "no advice in: {message}");
        (error.exit_code(), message)
    }

    #[test]
    fn a_program_on_the_path() {
        let sh = check(OsStr::new("sh")).unwrap();
        assert!(sh.command().is_absolute() && sh.command().ends_with("sh"));
        assert_eq!((sh.name(), sh.image(), sh.note()), (OsStr::new("sh"), sh.command(), None));
    }

    #[test]
    fn search_order() {
        let (first, second) = (folder(), folder());
        put(&first, "plain", "x", 0o644);
        let good = put(&second, "plain", "x", 0o755);
        std::fs::create_dir(first.path().join("folder")).unwrap();
        let path = OsString::from(format!("/nowhere:{}:{}", first.path().display(), second.path().display()));
        assert_eq!(find(OsStr::new("plain"), Some(&path)).unwrap(), good);
        assert!(matches!(find(OsStr::new("folder"), Some(&path)), Err(LaunchError::Folder(_))));
        let missing = find(OsStr::new("no such"), Some(&path)).unwrap_err();
        assert!(matches!(missing, LaunchError::NotFound { in_path: true, .. }), "{missing}");
        assert!(find(OsStr::new("sh"), None).is_ok());
    }

    #[test]
    fn what_is_not_there_and_what_cannot_run() {
        let folder = folder();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        put(&folder, "data", "hello", 0o755);
        put(&folder, "empty", "", 0o755);
        put(&folder, "plain", "x", 0o644);
        put(&folder, "lost", "#!/no/such/interpreter -x\n", 0o755);
        put(&folder, "lost-env", "#!/usr/bin/env no-such-program-here\n", 0o755);
        symlink("/no/such", folder.path().join("dangling")).unwrap();
        for (name, code, part) in [
            ("missing", 127, "was not found"),
            ("dangling", 127, "was not found"),
            ("folder", 126, "is a folder"),
            ("plain", 126, "chmod +x"),
            ("data", 126, "whatif run -- sh"),
            ("empty", 126, "neither"),
            ("lost", 127, "/no/such/interpreter"),
            ("lost-env", 127, "no-such-program-here"),
        ] {
            let (got, message) = failure(&folder.path().join(name));
            assert_eq!(got, code, "{name}: {message}");
            assert!(message.contains(part), "{name}: {message}");
        }
        assert_eq!(check(OsStr::new("")).unwrap_err().exit_code(), 127);
    }

    #[test]
    fn kinds_that_cannot_be_profiled() {
        let folder = folder();
        let interp = {
            let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
            bytes.windows(27).position(|w| w == b"/lib64/ld-linux-x86-64.so.2").unwrap()
        };
        assert!(interp < 4000);
        assert!(check(altered(&folder, "same", &[]).as_os_str()).is_ok());
        for (name, changes, part) in [
            ("wide", &[(4, &[1][..])][..], "32-bit"),
            ("i386", &[(4, &[1]), (18, &[3, 0])], "32-bit"),
            ("arm", &[(18, &[183, 0])], "AArch64"),
            ("big", &[(5, &[2]), (16, &[0, 2, 0, 22])], "IBM Z"),
            ("musl", &[(interp, b"/lib/ld-musl-x86_64.so.1\0")], "glibc"),
            ("bionic", &[(interp, b"/system/bin/linker64\0")], "linker64"),
            ("object", &[(16, &[1, 0])], "neither"),
        ] {
            let (code, message) = failure(&altered(&folder, name, changes));
            assert_eq!(code, 126, "{name}: {message}");
            assert!(message.contains(part), "{name}: {message}");
        }
        let (code, message) = failure(&altered(&folder, "loader", &[(interp, b"/no-such/ld.so\0")]));
        assert_eq!(code, 127);
        assert!(message.contains("/no-such/ld.so"), "{message}");
    }

    #[test]
    fn static_programs() {
        let folder = folder();
        let source = put(&folder, "x.c", "int main(void) { return 0; }", 0o644);
        let output = folder.path().join("x");
        let built =
            std::process::Command::new("cc").arg("-static").arg(source).arg("-o").arg(&output).status();
        // Not every machine has a static libc, or a compiler.
        if built.is_ok_and(|status| status.success()) {
            assert!(failure(&output).1.contains("statically"));
        }
    }

    #[test]
    fn rights_that_switch_the_loader_to_secure_mode() {
        let folder = folder();
        let path = altered(&folder, "su", &[]);
        // Our own rights are no gain.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).unwrap();
        check(path.as_os_str()).unwrap();
        // Only root can give it away.
        let nosuid = fstatvfs(File::open(&path).unwrap()).unwrap().f_flag.contains(StatVfsMountFlags::NOSUID);
        if getuid().is_root() && !nosuid {
            for (mode, user, group, gains) in [
                (0o4755, Some(77), None, true),
                (0o755, Some(77), None, false),
                (0o2755, None, Some(77), true),
                (0o2745, None, Some(77), false),
            ] {
                std::os::unix::fs::chown(&path, user.or(Some(0)), group.or(Some(0))).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
                assert_eq!(check(path.as_os_str()).is_err(), gains, "{mode:o}");
            }
        }
    }

    #[test]
    fn scripts() {
        let folder = folder();
        let direct = put(&folder, "direct", "#! /bin/sh  -e -u \nexit\n", 0o755);
        let plain = check(direct.as_os_str()).unwrap();
        assert_eq!((plain.command(), plain.image()), (direct.as_path(), Path::new("/bin/sh")));
        assert!(plain.leading_arguments().is_empty());
        assert!(plain.note().unwrap().contains("/bin/sh is profiled"));

        let env = put(&folder, "env", "#!/usr/bin/env sh\n", 0o755);
        let seen_through = check(env.as_os_str()).unwrap();
        assert_eq!(seen_through.command(), seen_through.image());
        assert!(seen_through.image().ends_with("sh"));
        assert_eq!(seen_through.name(), "sh");
        assert_eq!(seen_through.leading_arguments(), [env.clone().into_os_string()]);

        let nested = put(&folder, "nested", format!("#!{} -q\n", env.display()), 0o755);
        let nested_found = check(nested.as_os_str()).unwrap();
        assert_eq!(nested_found.leading_arguments(), [env.into(), OsString::from("-q"), nested.into()]);

        let itself = folder.path().join("itself");
        put(&folder, "itself", format!("#!{}\n", itself.display()), 0o755);
        assert_eq!(failure(&itself).0, 126);
    }

    #[test]
    fn first_lines() {
        let parsed = |line: &str| {
            FirstLine::parse(line.as_bytes())
                .map(|line| (line.interpreter, line.argument.unwrap_or_default()))
                .map(|(a, b)| (a.into_string().unwrap(), b.into_string().unwrap()))
        };
        for (line, expected) in [
            ("#!/bin/sh\n", Some(("/bin/sh", ""))),
            ("#!\t/bin/sh -a  b \nrest", Some(("/bin/sh", "-a  b"))),
            ("#!/bin/sh", Some(("/bin/sh", ""))),
            ("#! \n/bin/sh", None),
            ("# !/bin/sh\n", None),
            ("", None),
        ] {
            let expected = expected.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
            assert_eq!(parsed(line), expected, "{line:?}");
        }
        for (line, words) in [
            ("#!/usr/bin/env python3", Some("python3")),
            ("#!/usr/bin/env -S python3 -u -O", Some("python3 -u -O")),
            ("#!/usr/bin/env -Spython3", Some("python3")),
            ("#!/usr/bin/env -i python3", None),
            ("#!/usr/bin/env -S A=1 python3", None),
            ("#!/usr/bin/env -S python3 'a b'", None),
            ("#!/usr/bin/env -S -i python3", None),
            ("#!/usr/bin/env", None),
            ("#!/bin/sh python3", None),
        ] {
            let found = FirstLine::parse(line.as_bytes()).unwrap().behind_env();
            let found = found.map(|words| words.join(OsStr::new(" ")).into_string().unwrap());
            assert_eq!(found.as_deref(), words, "{line}");
        }
    }
}
