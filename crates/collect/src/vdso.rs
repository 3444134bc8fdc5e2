//! The kernel's pages in every process (vdso(7)), by which programs ask for the time without entering the kernel. All processes have those
//! that we have, but for programs of 32 bits.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use symbols::VdsoFunctions;
use wire::Address;

/// What the kernel calls it.
pub const NAME: &[u8] = b"[vdso]";
/// What we call that of programs of 32 bits.
const OF_32_BITS: &[u8] = b"[vdso32]";
/// No kernel has a larger one.
const LARGEST: u64 = 1 << 20;

/// The functions of this kernel's; none where it cannot be read.
pub fn read() -> VdsoFunctions {
    let read = || {
        let maps = kernel::maps(std::process::id()).ok()?;
        let is_it = |mapping: &&kernel::Mapping| {
            mapping.path.as_ref().is_some_and(|path| path.as_os_str().as_encoded_bytes() == NAME)
        };
        let found = maps.iter().find(is_it)?;
        let length = (found.end.0 - found.start.0).min(LARGEST);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, found.start.0).ok()?;
        Some(VdsoFunctions::of(&bytes))
    };
    read().unwrap_or_default()
}

/// The name of what is mapped at an address: another one for programs of 32 bits, which have other functions there.
pub fn name_at(path: &[u8], address: Address) -> &[u8] {
    if path == NAME && u32::try_from(address.0).is_ok() { OF_32_BITS } else { path }
}

/// Whether a path is that of one of them.
pub fn is_one(path: &[u8]) -> bool {
    path == NAME || path == OF_32_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_has_a_name() {
        if cfg!(target_arch = "x86_64") {
            let functions = read();
            let names: Vec<&str> = functions.all().map(|(_, name)| name).collect();
            assert!(names.contains(&"__vdso_clock_gettime"), "{names:?}");
            assert!(functions.build_id().len() > 8);
            for (range, name) in functions.all() {
                assert_eq!(functions.name(range.end - 1), Some(name));
            }
        }
        assert_eq!(name_at(b"[vdso]", Address(0x7fff_0000_1000)), b"[vdso]");
        assert_eq!(name_at(b"[vdso]", Address(0xf7f0_1000)), b"[vdso32]");
        assert_eq!(name_at(b"/bin/a", Address(0x1000)), b"/bin/a");
    }
}
