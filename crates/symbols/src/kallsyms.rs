//! The functions of the running kernel, as it lists them in `/proc/kallsyms`: a line for each symbol with address, type, name, and the
//! module in brackets if it belongs to one. What the collector makes of it as the kernel goes on changing is in `collect::kernel_code`.

use std::io::BufRead;
use std::ops::Range;

/// The functions of the kernel and of its modules. Where the kernel keeps its addresses to itself (`kernel.kptr_restrict`) there are none.
#[derive(Debug, Default)]
pub struct Kallsyms {
    text: u64,
    end: u64,
    scheduler: Range<u64>,
    /// Of every function, in order: distance from `text`, and where its name begins in `names`.
    functions: Vec<(u32, u32)>,
    /// Names, each followed by a zero.
    names: Vec<u8>,
    /// Code that the kernel has generated: first address and name, in order.
    generated: Vec<(u64, String)>,
}

/// Modules of the list that are none: what is in them comes and goes by itself.
const GENERATED: [&str; 3] = ["[bpf]", "[__builtin__ftrace]", "[__builtin__kprobes]"];
/// The length that the last function is taken to have, in bytes.
const LAST: u64 = 64;
/// Generated code may be as long as this, in bytes, where its length is unknown.
const LONGEST: u64 = 1 << 16;

impl Kallsyms {
    /// Reads the list; a line that is not understood is passed over.
    pub fn read(mut lines: impl BufRead) -> Kallsyms {
        let mut all = Kallsyms::default();
        let (mut line, mut far) = (String::new(), Vec::new());
        while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
            all.take(&line, &mut far);
            line.clear();
        }
        // Of several names at one address the first one counts.
        far.sort_by_key(|(address, _)| *address);
        far.dedup_by_key(|(address, _)| *address);
        let distance = |address: u64| u32::try_from(address.checked_sub(all.text)?).ok();
        all.functions =
            far.into_iter().filter_map(|(address, name)| Some((distance(address)?, name))).collect();
        all.functions.shrink_to_fit();
        all.names.shrink_to_fit();
        all.generated.sort();
        all
    }

    /// Takes a line; functions are put into `far` by their addresses.
    fn take(&mut self, line: &str, far: &mut Vec<(u64, u32)>) {
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let (Some(address @ 1..), Some("t" | "T" | "w" | "W"), Some(name)) =
            (address, words.next(), words.next())
        else {
            return;
        };
        match name {
            "_text" => self.text = address,
            "__sched_text_start" => self.scheduler.start = address,
            "__sched_text_end" => self.scheduler.end = address,
            "_etext" | "_einittext" => self.end = self.end.max(address),
            _ => {}
        }
        if words.next().is_some_and(|module| GENERATED.contains(&module)) {
            self.generated.push((address, name.to_owned()));
            return;
        }
        far.push((address, self.names.len() as u32));
        self.names.extend(name.bytes());
        self.names.push(0);
    }

    /// Where the code is that waits for others; empty if that is not known.
    pub fn scheduler(&self) -> Range<u64> {
        self.scheduler.clone()
    }

    /// The address of `_text`, from which positions in the kernel count; zero if it is not known.
    pub fn text(&self) -> u64 {
        self.text
    }

    /// The address behind the last function of the kernel without its modules; zero if it is not known.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether no function is known.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The functions of the kernel and of its modules in the order of their addresses, each up to the next one.
    pub fn functions(&self) -> impl Iterator<Item = (Range<u64>, &str)> {
        let starts = self.functions.iter().map(|(distance, _)| self.text + u64::from(*distance));
        let ends = starts.clone().skip(1).map(Some).chain([None]);
        starts.zip(ends).zip(&self.functions).map(|((start, end), (_, name))| {
            (start..end.unwrap_or_else(|| start.saturating_add(LAST)), self.name(*name))
        })
    }

    /// The last function that begins at or before an address: where, and its name.
    pub fn before(&self, address: u64) -> Option<(u64, &str)> {
        let distance = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let place = self.functions.partition_point(|(start, _)| *start <= distance).checked_sub(1)?;
        let (start, name) = self.functions[place];
        Some((self.text + u64::from(start), self.name(name)))
    }

    /// Code that the kernel has generated (BPF programs, trampolines): first address, length as far as it can be known, and name.
    pub fn generated(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        let ends = self.generated.iter().skip(1).map(|(next, _)| *next).chain([u64::MAX]);
        self.generated
            .iter()
            .zip(ends)
            .map(|((start, name), end)| (*start, (end - start).min(LONGEST), &**name))
    }

    fn name(&self, start: u32) -> &str {
        let rest = &self.names[start as usize..];
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        std::str::from_utf8(&rest[..end]).unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address() {
        let listing = "ffffffff81000000 T _text\nffffffff81000040 t do_work\nffffffff81000050 D data\n\
            ffffffff81000100 W weak\nffffffff81000100 T again\nffffffff81000200 T _etext\n";
        let names = Kallsyms::read(listing.as_bytes());
        assert_eq!((names.text(), names.end()), (0xffff_ffff_8100_0000, 0xffff_ffff_8100_0200));
        let name = |address| names.before(address).map(|(_, name)| name);
        assert_eq!(name(0xffff_ffff_8100_0060), Some("do_work"));
        assert_eq!(name(0xffff_ffff_8100_0100), Some("weak"));
        assert_eq!(name(1), None);
        let weak = names.functions().nth(2).unwrap();
        assert_eq!(weak, (0xffff_ffff_8100_0100..0xffff_ffff_8100_0200, "weak"));
        assert_eq!(names.functions().last().unwrap().0.end, 0xffff_ffff_8100_0240);
        assert!(Kallsyms::read(&b"0000000000000000 T _text\n"[..]).is_empty());
    }

    #[test]
    fn generated_code_is_kept_apart() {
        let listing = "ffffffff81000000 T _text\nffffffffa0200040 t bpf_prog_2_b\t[bpf]\n\
            ffffffffa0200000 t bpf_prog_1_a\t[bpf]\nffffffffa0001010 t in_module\t[fancy]\n";
        let names = Kallsyms::read(listing.as_bytes());
        let generated: Vec<_> = names.generated().collect();
        assert_eq!(
            generated,
            [(0xffff_ffff_a020_0000, 0x40, "bpf_prog_1_a"), (0xffff_ffff_a020_0040, LONGEST, "bpf_prog_2_b")]
        );
        assert_eq!(names.before(0xffff_ffff_a020_0050), Some((0xffff_ffff_a000_1010, "in_module")));
    }
}
