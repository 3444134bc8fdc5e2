//! The kernel's own code: where it lies, what it is called, and which of it is waiting for work.
//!
//! Code that comes later: programs are reported by the kernel (of a whole machine). Modules are not; when they are others, when records
//! were lost, and when samples fall where nothing was, everything is read again, but not more often than once a minute, and less and
//! less often if that does not help.

use crate::images::{ImageIndex, Images};
use crate::programs::Programs;
use crate::slots::Marks;
use archive::ImageKind;
use std::collections::HashMap;
use std::io::BufReader;
use std::ops::Range;
use symbols::{Kallsyms, build_id_of_notes};
use wire::{Address, Nanos};

/// See the module. Where the kernel keeps its addresses to itself (`kernel.kptr_restrict`) there are no names.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Address of `_text`, from which the positions in its image count; zero where that is not known.
    text: u64,
    names: Kallsyms,
    idle: Vec<Range<u64>>,
    modules: Vec<Module>,
    /// Where the images of modules begin.
    bases: HashMap<ImageIndex, u64>,
    /// Code that the kernel has generated.
    pub programs: Programs,
    /// A sample fell here, where nothing is known to be.
    missed: Option<Address>,
    /// Perhaps what the kernel reported about programs was lost.
    doubtful: bool,
    /// When it may all be read again, and how long to wait then if that has not helped.
    next_look: Nanos,
    patience: Nanos,
    /// When it may be read again because it must have changed.
    next_change: Nanos,
}

/// The least and the most time between two times that everything is read: that takes 30 to 50 ms.
const LEAST_PATIENCE: Nanos = Nanos(60_000_000_000);
const MOST_PATIENCE: Nanos = Nanos(3_600_000_000_000);
/// The kernel's map begins no further behind `_text`, in recordings.
const FAR: u64 = 2 << 20;

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
    /// Reads `/proc/kallsyms` and `/proc/modules`. `follows`: the kernel says which programs come and go; otherwise they have no names,
    /// for they would keep them when they have gone.
    pub fn read(follows: bool) -> Self {
        let mut kernel = Self::with(symbols_of_this_machine());
        if follows {
            kernel.add_programs();
        }
        kernel.modules = modules(&modules_text());
        kernel
    }

    /// The kernel of a recording, of which records will say where it lies ([`map`](Self::map)). `is_same`: it may be the one that runs
    /// here, so that it has the same names.
    pub fn recorded(is_same: bool) -> Self {
        if is_same { Self::with(symbols_of_this_machine()) } else { Self::default() }
    }

    /// Without modules, and without what the kernel has generated.
    fn with(names: Kallsyms) -> Self {
        let is_idle =
            |name: &str| IDLE.iter().any(|idle| name.starts_with(idle)) || ALSO_IDLE.contains(&name);
        let idle = names.functions().filter(|(_, name)| is_idle(name)).map(|(range, _)| range).collect();
        Self { text: names.text(), idle, names, ..Self::default() }
    }

    fn add_programs(&mut self) {
        for (start, length, name) in self.names.generated() {
            self.programs.add(Address(start), length, name);
        }
    }

    /// A recording says that the kernel, or one of its modules, lies here.
    pub fn map(&mut self, start: Address, length: u64, path: &[u8], build_id: &[u8], images: &mut Images) {
        let range = start.0..start.0.saturating_add(length);
        if path.starts_with(b"[kernel") {
            // This machine's names say best where it begins, if it was not started to another place since.
            if !(self.text..self.text.saturating_add(FAR)).contains(&start.0) {
                *self = Self { text: start.0, modules: std::mem::take(&mut self.modules), ..Self::default() };
            }
            images.set_kernel(build_id);
        } else {
            let image = Some(images.intern(ImageKind::Kernel, path, build_id));
            let name = String::from_utf8_lossy(path).into_owned();
            self.modules.retain(|old| old.range.end <= range.start || range.end <= old.range.start);
            let place = self.modules.partition_point(|old| old.range.start < range.start);
            self.modules.insert(place, Module { range, name, image });
        }
    }

    /// Records were lost, perhaps of programs that came or went.
    pub fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// Reads it all again, if a sample fell where nothing was, if there are other modules (`listed` is `/proc/modules`), or if it is
    /// doubtful, and if it is time. Positions have no names any more that had them in a module which has gone. What is known stays
    /// when the kernel keeps its addresses to itself since.
    pub fn look_again(&mut self, now: Nanos, listed: &str, read: impl FnOnce() -> Self) {
        let missed = self.missed.filter(|_| now >= self.next_look);
        let changed = now >= self.next_change && (self.doubtful || self.has_changed(listed));
        if missed.is_none() && !changed {
            return;
        }
        let new = read();
        let is_hidden = self.text != 0 && new.text == 0 || !self.names.is_empty() && new.names.is_empty();
        self.missed = None;
        if !is_hidden {
            let (next_look, patience) = (self.next_look, self.patience);
            *self = Self { next_look, patience, next_change: now + LEAST_PATIENCE, ..new };
        }
        let helped = |missed| self.programs.find(missed).is_some() || self.module(missed).is_some();
        if is_hidden || !missed.is_none_or(helped) {
            self.patience = Nanos(2 * self.patience.0).clamp(LEAST_PATIENCE, MOST_PATIENCE);
            self.next_look = now + self.patience;
        } else if missed.is_some() {
            self.patience = LEAST_PATIENCE;
            self.next_look = now + self.patience;
        }
        if is_hidden {
            self.next_change = self.next_look;
        }
    }

    /// Whether there are other modules than before, or in other places.
    fn has_changed(&self, listed: &str) -> bool {
        let new = modules(listed);
        let key = |module: &Module| (module.range.clone(), module.name.clone());
        // None: their places are hidden.
        !new.is_empty() && !new.iter().map(key).eq(self.modules.iter().map(key))
    }

    /// The image of an address, and the position in it.
    pub fn locate(&mut self, address: Address, images: &mut Images) -> (ImageIndex, u64) {
        if let Some(place) = self.module(address) {
            let module = &mut self.modules[place];
            let image = *module.image.get_or_insert_with(|| {
                let notes = format!("/sys/module/{}/notes/.note.gnu.build-id", module.name);
                let build_id = std::fs::read(notes).ok().and_then(|notes| build_id_of_notes(&notes));
                let name = format!("[{}]", module.name);
                images.intern(ImageKind::Kernel, name.as_bytes(), &build_id.unwrap_or_default())
            });
            self.bases.insert(image, module.range.start);
            return (image, address.0 - module.range.start);
        }
        if self.names.end() > self.text && !(self.text..self.names.end()).contains(&address.0) {
            self.missed = Some(address);
        }
        match self.text {
            // The kernel's address must not be revealed.
            0 => (Images::KERNEL, 0),
            text => (Images::KERNEL, address.0.wrapping_sub(text)),
        }
    }

    fn module(&self, address: Address) -> Option<usize> {
        let place = self.modules.partition_point(|module| module.range.end <= address.0);
        self.modules.get(place)?.range.contains(&address.0).then_some(place)
    }

    /// Marks the images of modules.
    pub fn mark(&self, images: &mut Marks) {
        self.modules.iter().filter_map(|module| module.image).for_each(|image| images.set(image.0));
    }

    /// The name of the function at a position.
    pub fn name(&self, image: ImageIndex, offset: u64) -> Option<&str> {
        let base = self.bases.get(&image).copied().unwrap_or(self.text);
        if base == 0 {
            return None;
        }
        let (address, end) = (base.wrapping_add(offset), self.names.end());
        // Beyond its end there may be code that came later.
        if image == Images::KERNEL && end > self.text && address >= end {
            return None;
        }
        let (start, name) = self.names.before(address)?;
        // A function of other code, before the module, does not count.
        (start >= base).then_some(name)
    }

    /// The code by which threads wait for others, as `/proc/PID/wchan` leaves it out; nothing where that is unknown.
    pub fn scheduler(&self) -> Range<u64> {
        self.names.scheduler()
    }

    /// Whether a CPU that is here (in its idle process) has nothing to do. Without names: always.
    pub fn is_idle(&self, address: Address) -> bool {
        self.names.is_empty() || self.idle.iter().any(|range| range.contains(&address.0))
    }
}

/// What this machine's kernel says of its functions; nothing where it keeps them to itself.
fn symbols_of_this_machine() -> Kallsyms {
    std::fs::File::open("/proc/kallsyms")
        .map(BufReader::new)
        .map_or_else(|_| Kallsyms::default(), Kallsyms::read)
}

/// `/proc/modules`.
pub fn modules_text() -> String {
    std::fs::read_to_string("/proc/modules").unwrap_or_default()
}

/// Lines of name, size, and later the address.
fn modules(listed: &str) -> Vec<Module> {
    let module = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let start = u64::from_str_radix(words.get(5)?.trim_start_matches("0x"), 16).ok()?;
        let range = start..start + words.get(1)?.parse::<u64>().ok()?;
        (start > 0).then(|| Module { range, name: words[0].to_owned(), image: None })
    };
    let mut modules: Vec<Module> = listed.lines().filter_map(module).collect();
    modules.sort_by_key(|module| module.range.start);
    modules
}

/// The kernel's build ID.
pub fn kernel_build_id() -> Vec<u8> {
    std::fs::read("/sys/kernel/notes").ok().and_then(|notes| build_id_of_notes(&notes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t helper\n\
        ffffffff81000200 T default_idle\nffffffff81000240 T after\nffffffff81000300 d data\n\
        ffffffffa0001010 t in_module\t[fancy]\n";

    const MODULES: &str =
        "fancy 8192 0 - Live 0xffffffffa0001000\nother 4096 1 fancy, Live 0xffffffffa0008000\n";

    fn kernel() -> Kernel {
        let mut kernel = Kernel::with(Kallsyms::read(SYMBOLS.as_bytes()));
        kernel.modules = modules(MODULES);
        kernel
    }

    fn kernel_that_ends() -> Kernel {
        let symbols = format!("{SYMBOLS}ffffffff81000300 T _etext\n");
        let mut kernel = Kernel::with(Kallsyms::read(symbols.as_bytes()));
        kernel.modules = modules(MODULES);
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
        // Unknown.
        assert!(Kernel::default().is_idle(Address(0xffff_ffff_8100_0240)));
    }

    #[test]
    fn code_that_was_loaded_later_is_found() {
        const LATER: &str = "ffffffff81000000 T _text\nffffffff81000300 T _etext\nffffffffa0100010 t late\t[late]\n\
            ffffffffa0200000 t bpf_prog_1_a\t[bpf]\nffffffffa0200040 t bpf_prog_2_b\t[bpf]\n";
        const LATE: &str = "late 4096 0 - Live 0xffffffffa0100000\n";
        let later = || {
            let mut kernel = Kernel::with(Kallsyms::read(LATER.as_bytes()));
            kernel.add_programs();
            kernel.modules = modules(LATE);
            kernel
        };
        let never = || -> Kernel { panic!("nothing was missed, or it is too soon") };
        let (module, program) = (Address(0xffff_ffff_a010_0020), Address(0xffff_ffff_a020_0050));
        let mut images = Images::new(&[]);
        let mut kernel = kernel_that_ends();
        kernel.look_again(second(1000), MODULES, never);
        assert_eq!(kernel.locate(module, &mut images).0, Images::KERNEL);
        kernel.look_again(second(1000), MODULES, later);
        let (image, offset) = kernel.locate(module, &mut images);
        assert_eq!((images.get(image).path.as_str(), kernel.name(image, offset)), ("[late]", Some("late")));
        assert_eq!(kernel.name(image, 1), None, "what lies before it is of another one");
        assert_eq!(kernel.programs.find(program), Some("bpf_prog_2_b"));
        // It will never be known what is here: it is looked for less and less.
        let mut looks = Vec::new();
        for minute in 0..600 {
            kernel.locate(Address(0xffff_ffff_b000_0000), &mut images);
            kernel.look_again(second(1001 + 60 * minute), LATE, || {
                looks.push(minute);
                later()
            });
        }
        assert_eq!(looks, [1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543]);
    }

    fn second(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_module_in_the_place_of_another_one_is_seen() {
        const OTHERS: &str =
            "plain 8192 0 - Live 0xffffffffa0001000\nother 4096 0 - Live 0xffffffffa0008000\n";
        let others = || {
            let mut kernel = kernel();
            kernel.modules = modules(OTHERS);
            kernel
        };
        let never = || -> Kernel { panic!("nothing is different, or it is too soon") };
        let (mut kernel, mut images) = (kernel(), Images::new(&[]));
        let mut name = |kernel: &mut Kernel| {
            let (image, _) = kernel.locate(Address(0xffff_ffff_a000_1020), &mut images);
            images.get(image).path.clone()
        };
        assert_eq!(name(&mut kernel), "[fancy]");
        // How many use it does not matter.
        kernel.look_again(second(1000), &MODULES.replace(" 0 - ", " 7 - "), never);
        kernel.look_again(second(1000), OTHERS, others);
        assert_eq!(name(&mut kernel), "[plain]");
        kernel.look_again(second(1001), MODULES, never);
        kernel.look_again(second(1001), "plain 8192 0 - Live 0x0000000000000000\n", never);
        kernel.look_again(second(1060), MODULES, super::tests::kernel);
        assert_eq!(name(&mut kernel), "[fancy]");
    }

    #[test]
    fn what_is_doubtful_is_read_again() {
        let (start, mut reads) = (Address(0xffff_ffff_a020_0000), 0);
        let mut kernel = kernel();
        kernel.programs.add(start, 64, "has_gone");
        for seconds in 1000..1180 {
            kernel.doubt();
            kernel.look_again(second(seconds), MODULES, || {
                reads += 1;
                super::tests::kernel()
            });
            assert_eq!(kernel.programs.find(start), None);
        }
        assert_eq!(reads, 3, "once a minute");
        kernel.look_again(second(2000), MODULES, super::tests::kernel);
        kernel.look_again(second(3000), MODULES, || panic!("nothing is doubtful any more"));
    }

    #[test]
    fn names_stay_when_the_kernel_hides_its_addresses() {
        let (mut kernel, mut images) = (kernel_that_ends(), Images::new(&[]));
        let function = Address(0xffff_ffff_8100_01ff);
        let mut reads = Vec::new();
        for minute in 0..20 {
            kernel.doubt();
            kernel.locate(Address(0xffff_ffff_b000_0000), &mut images);
            kernel.look_again(second(1000 + 60 * minute), "", || {
                reads.push(minute);
                Kernel::default()
            });
            let (image, offset) = kernel.locate(function, &mut images);
            assert_eq!(kernel.name(image, offset), Some("helper"));
            assert_eq!(kernel.modules.len(), 2);
        }
        assert_eq!(reads, [0, 1, 3, 7, 15], "it does not help");
    }

    #[test]
    fn a_recording_says_where_its_kernel_lies() {
        let text = 0xffff_ffff_8100_0000;
        // Beside `_text`, as perf has it; another kernel, or another place: the names are not those of the recording.
        for (start, offset, name) in [(text + 0x100, 0x210, Some("default_idle")), (text + FAR, 0x10, None)] {
            let (mut kernel, mut images) = (kernel(), Images::new(&[]));
            kernel.modules.clear();
            kernel.map(Address(start), 0x10_0000, b"[kernel.kallsyms]_text", &[0xab], &mut images);
            let address = if name.is_some() { text + 0x210 } else { start + 0x10 };
            let (image, position) = kernel.locate(Address(address), &mut images);
            assert_eq!((image, position, kernel.name(image, position)), (Images::KERNEL, offset, name));
            assert_eq!(images.get(image).build_id, "ab");
            // A module takes the place of another one.
            for path in ["/lib/modules/old.ko", "/lib/modules/fancy.ko"] {
                kernel.map(Address(0xffff_ffff_a000_1000), 0x1000, path.as_bytes(), &[1], &mut images);
            }
            let (image, position) = kernel.locate(Address(0xffff_ffff_a000_1020), &mut images);
            assert_eq!((images.get(image).path.as_str(), position), ("/lib/modules/fancy.ko", 0x20));
            assert_eq!(kernel.name(image, position), name.map(|_| "in_module"));
            assert_eq!(kernel.modules.len(), 1);
        }
        let (mut kernel, mut images) = (Kernel::recorded(false), Images::new(&[]));
        assert_eq!(kernel.locate(Address(text), &mut images), (Images::KERNEL, 0), "it said nothing");
    }
}
