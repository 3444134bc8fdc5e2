//! The kernel's own code: where it lies, what it is called, and which of it is waiting for work.

use crate::images::{ImageIndex, Images};
use profile::continuous::ImageKind;
use std::collections::HashMap;
use std::io::BufReader;
use std::ops::Range;
use wire::Address;

/// See the module. Where the kernel keeps its addresses to itself (`kernel.kptr_restrict`) there are no names.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Address of `_text`, from which the positions in its image count.
    text: u64,
    /// Address behind the last of its functions.
    end: u64,
    /// Of every function, in order: distance from `text`, and where its name begins in `names`.
    functions: Vec<(u32, u32)>,
    /// Names, each followed by a zero.
    names: Vec<u8>,
    idle: Vec<Range<u64>>,
    modules: Vec<Module>,
    /// Where the images of modules begin.
    bases: HashMap<ImageIndex, u64>,
}

#[derive(Debug)]
struct Module {
    range: Range<u64>,
    name: String,
    image: Option<ImageIndex>,
}

/// What CPUs do that have nothing to do, by the beginnings of the functions' names.
const IDLE: [&str; 13] = [
    "acpi_idle",
    "acpi_safe_halt",
    "arch_cpu_idle",
    "cpu_idle_poll",
    "cpu_startup_entry",
    "cpuidle_",
    "default_idle",
    "do_idle",
    "haltpoll_enter_idle",
    "intel_idle",
    "mwait_idle",
    "native_safe_halt",
    "poll_idle",
];
const ALSO_IDLE: [&str; 3] = ["pv_native_safe_halt", "cpu_do_idle", "psci_cpu_suspend_enter"];

impl Kernel {
    /// Reads `/proc/kallsyms` and `/proc/modules`.
    pub fn read() -> Self {
        let mut kernel = Self::default();
        if let Ok(file) = std::fs::File::open("/proc/kallsyms") {
            kernel.read_symbols(BufReader::new(file));
        }
        kernel.read_modules(&std::fs::read_to_string("/proc/modules").unwrap_or_default());
        kernel
    }

    /// Lines of address, type, name, and perhaps module in brackets.
    fn read_symbols(&mut self, mut lines: impl std::io::BufRead) {
        let mut line = String::new();
        let mut far = Vec::new();
        while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
            let mut words = line.split_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            if let (Some(address @ 1..), Some("t" | "T" | "w" | "W"), Some(name)) =
                (address, words.next(), words.next())
            {
                match name {
                    "_text" => self.text = address,
                    "_etext" | "_einittext" => self.end = self.end.max(address),
                    _ => {}
                }
                far.push((address, self.names.len() as u32));
                self.names.extend(name.bytes());
                self.names.push(0);
            }
            line.clear();
        }
        // Of several names at one address the first one counts.
        far.sort_by_key(|(address, _)| *address);
        far.dedup_by_key(|(address, _)| *address);
        for (place, (start, name)) in far.iter().enumerate() {
            let name = self.text_at(*name);
            if IDLE.iter().any(|idle| name.starts_with(idle)) || ALSO_IDLE.contains(&name) {
                let end = far.get(place + 1).map_or(start + 64, |(next, _)| *next);
                self.idle.push(*start..end);
            }
        }
        let distance = |address: u64| u32::try_from(address.checked_sub(self.text)?).ok();
        self.functions =
            far.iter().filter_map(|(address, name)| Some((distance(*address)?, *name))).collect();
        self.functions.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    /// Lines of name, size, and later the address.
    fn read_modules(&mut self, text: &str) {
        let module = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let start = u64::from_str_radix(words.get(5)?.trim_start_matches("0x"), 16).ok()?;
            let range = start..start + words.get(1)?.parse::<u64>().ok()?;
            (start > 0).then(|| Module { range, name: words[0].to_owned(), image: None })
        };
        self.modules = text.lines().filter_map(module).collect();
        self.modules.sort_by_key(|module| module.range.start);
    }

    /// The image of an address, and the position in it.
    pub fn locate(&mut self, address: Address, images: &mut Images) -> (ImageIndex, u64) {
        let place = self.modules.partition_point(|module| module.range.end <= address.0);
        if let Some(module) = self.modules.get_mut(place).filter(|module| module.range.contains(&address.0)) {
            let image = *module.image.get_or_insert_with(|| {
                let notes = format!("/sys/module/{}/notes/.note.gnu.build-id", module.name);
                let build_id = std::fs::read(notes).ok().and_then(|notes| build_id(&notes));
                let name = format!("[{}]", module.name);
                images.intern(ImageKind::Kernel, name.as_bytes(), &build_id.unwrap_or_default())
            });
            self.bases.insert(image, module.range.start);
            return (image, address.0 - module.range.start);
        }
        match self.text {
            // Nobody should learn where the kernel lies.
            0 => (Images::KERNEL, 0),
            text => (Images::KERNEL, address.0.wrapping_sub(text)),
        }
    }

    /// The name of the function at a position.
    pub fn name(&self, image: ImageIndex, offset: u64) -> Option<&str> {
        let base = self.bases.get(&image).copied().unwrap_or(self.text);
        if base == 0 {
            return None;
        }
        // Beyond its end there may be code that came later.
        if image == Images::KERNEL && self.end > self.text && base.wrapping_add(offset) >= self.end {
            return None;
        }
        let distance = u32::try_from(base.wrapping_add(offset).wrapping_sub(self.text)).ok()?;
        let place = self.functions.partition_point(|(start, _)| *start <= distance).checked_sub(1)?;
        Some(self.text_at(self.functions[place].1))
    }

    /// Whether a CPU that is here (in its idle process) has nothing to do. Without names: always.
    pub fn is_idle(&self, address: Address) -> bool {
        self.functions.is_empty() || self.idle.iter().any(|range| range.contains(&address.0))
    }

    fn text_at(&self, start: u32) -> &str {
        let rest = &self.names[start as usize..];
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        std::str::from_utf8(&rest[..end]).unwrap_or("")
    }
}

/// The kernel's build ID.
pub fn kernel_build_id() -> Vec<u8> {
    std::fs::read("/sys/kernel/notes").ok().and_then(|notes| build_id(&notes)).unwrap_or_default()
}

/// The build ID among ELF notes: of name `GNU` and type 3.
fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]) as usize)
    };
    loop {
        let (name, content, kind) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
        let begin = 12 + name.next_multiple_of(4);
        let bytes = rest.get(begin..begin.checked_add(content)?)?;
        if kind == 3 && rest.get(12..15) == Some(b"GNU") {
            return Some(bytes.to_vec());
        }
        rest = rest.get(begin + content.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t helper\n\
        ffffffff81000200 T default_idle\nffffffff81000240 T after\nffffffff81000300 d data\n\
        ffffffffa0001010 t in_module\t[fancy]\n";

    fn kernel() -> Kernel {
        let mut kernel = Kernel::default();
        kernel.read_symbols(SYMBOLS.as_bytes());
        kernel.read_modules(
            "fancy 8192 0 - Live 0xffffffffa0001000\nother 4096 1 fancy, Live 0xffffffffa0008000\n",
        );
        kernel
    }

    #[test]
    fn positions_have_images_and_names() {
        let (mut kernel, mut images) = (kernel(), Images::new(&[]));
        let mut name = |address| {
            let (image, offset) = kernel.locate(Address(address), &mut images);
            (images.get(image).path.clone(), offset, kernel.name(image, offset).unwrap().to_owned())
        };
        let of = |image: &str, offset, name: &str| (image.to_owned(), offset, name.to_owned());
        assert_eq!(name(0xffff_ffff_8100_0001), of("[kernel]", 1, "_text"));
        assert_eq!(name(0xffff_ffff_8100_01ff), of("[kernel]", 0x1ff, "helper"));
        assert_eq!(name(0xffff_ffff_a000_1020), of("[fancy]", 0x20, "in_module"));
        assert!(kernel.is_idle(Address(0xffff_ffff_8100_0210)));
        assert!(!kernel.is_idle(Address(0xffff_ffff_8100_0240)));
        // Nobody knows.
        assert!(Kernel::default().is_idle(Address(0xffff_ffff_8100_0240)));
    }

    #[test]
    fn a_build_id_is_found_among_notes() {
        let note = |kind: u32, name: &[u8; 4], content: &[u8]| {
            let words = [4_u32, content.len() as u32, kind].map(u32::to_ne_bytes).concat();
            [&words[..], name, content].concat()
        };
        let notes = [note(1, b"Xen\0", &[9; 8]), note(3, b"GNU\0", &[1, 2, 3, 4])].concat();
        assert_eq!(build_id(&notes), Some(vec![1, 2, 3, 4]));
        for length in 0..notes.len() {
            assert_eq!(build_id(&notes[..length]), None);
        }
    }
}
