//! Preload: what the loader loads into the program before anything else.
//!
//! A sanitizer must be the first of all libraries: its own check ends the program otherwise ("ASan runtime does not come first in
//! initial library list"), and what it replaces would be called by ours instead of the other way round. The runtime takes out of the
//! program's `LD_PRELOAD` whatever stands up to its own name, so what is put first here does not stay there.

use super::executable::Executable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How the files of the sanitizers' libraries begin: GCC's, and clang's (`-shared-libsan`).
const SANITIZERS: [&[u8]; 8] = [
    b"libasan.so",
    b"libhwasan.so",
    b"liblsan.so",
    b"libtsan.so",
    b"libclang_rt.asan",
    b"libclang_rt.hwasan",
    b"libclang_rt.lsan",
    b"libclang_rt.tsan",
];
const OURS: &[u8] = b"libwhatif_rt";

/// The value of `LD_PRELOAD` for a program.
pub(super) fn of(executable: &Executable, runtime: &Path) -> OsString {
    let needed = symbols::Image::open(executable.image()).map(|image| image.needed()).unwrap_or_default();
    let users = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    list(runtime, &needed, &users)
}

/// The beginning of the value of `LD_PRELOAD` for a program that another one executes, before `users`, what stands there already.
pub fn first(executable: &Executable, runtime: &Path, users: &OsStr) -> OsString {
    let needed = symbols::Image::open(executable.image()).map(|image| image.needed()).unwrap_or_default();
    OsStr::from_bytes(&first_of(runtime, &needed, users).join(&b':')).to_owned()
}

/// Sanitizers first, those that the program is linked with and those that the user preloads; then ours; then the user's own as they
/// were, less any runtime of a `whatif` that we are run by. (What is there twice is loaded once.)
fn list(runtime: &Path, needed: &[String], users: &OsStr) -> OsString {
    let mut all = first_of(runtime, needed, users);
    let users = users.as_bytes().split(|byte| b": ".contains(byte));
    all.extend(users.filter(|entry| !entry.is_empty() && !file_name(entry).starts_with(OURS)));
    OsStr::from_bytes(&all.join(&b':')).to_owned()
}

/// What stands before the user's own.
fn first_of<'a>(runtime: &'a Path, needed: &'a [String], users: &'a OsStr) -> Vec<&'a [u8]> {
    let users = users.as_bytes().split(|byte| b": ".contains(byte));
    let users = users.filter(|entry| !file_name(entry).starts_with(OURS));
    let sanitizers = needed.iter().map(String::as_bytes).chain(users);
    let sanitizers =
        sanitizers.filter(|entry| SANITIZERS.iter().any(|name| file_name(entry).starts_with(name)));
    sanitizers.chain([runtime.as_os_str().as_bytes()]).collect()
}

fn file_name(entry: &[u8]) -> &[u8] {
    entry.rsplit(|byte| *byte == b'/').next().unwrap_or(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitizers_come_first_then_ours_once_then_the_users() {
        const RT: &str = "/c/libwhatif_rt-1.so";
        for (needed, users, expected) in [
            (&[][..], "", RT.to_owned()),
            (&["libc.so.6"], "/u/a.so", format!("{RT}:/u/a.so")),
            (&[], "a.so  b.so:c.so:", format!("{RT}:a.so:b.so:c.so")),
            (&[], "/x/libwhatif_rt-0.so:/u/a.so", format!("{RT}:/u/a.so")),
            (&["libasan.so.8", "libc.so.6"], "/u/a.so", format!("libasan.so.8:{RT}:/u/a.so")),
            (&["libclang_rt.asan-x86_64.so"], "", format!("libclang_rt.asan-x86_64.so:{RT}")),
            (&[], "/l/libasan.so.8:/u/a.so", format!("/l/libasan.so.8:{RT}:/l/libasan.so.8:/u/a.so")),
        ] {
            let needed: Vec<_> = needed.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(
                list(RT.as_ref(), &needed, users.as_ref()),
                OsStr::new(&expected),
                "{needed:?} {users:?}"
            );
        }
    }
}
