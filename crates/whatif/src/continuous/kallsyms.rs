//! Names of the running kernel, as far as it tells (`/proc/kallsyms`).

/// Its symbols, ascending by address.
#[derive(Debug, Default)]
pub struct Kallsyms {
    symbols: Vec<(u64, String)>,
    text: Option<u64>,
}

impl Kallsyms {
    /// What this kernel tells; `None` if it hides its addresses.
    pub fn of_this_machine() -> Option<Kallsyms> {
        Kallsyms::parse(&std::fs::read_to_string("/proc/kallsyms").ok()?)
    }

    fn parse(listing: &str) -> Option<Kallsyms> {
        let mut names = Kallsyms::default();
        for line in listing.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            if name == "_text" {
                names.text = Some(address);
            }
            names.symbols.push((address, name.to_owned()));
        }
        names.symbols.sort_by_key(|(address, _)| *address);
        (!names.symbols.is_empty()).then_some(names)
    }

    /// The address of `_text`.
    pub fn text(&self) -> Option<u64> {
        self.text
    }

    /// The function at an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(start, _)| *start <= address);
        self.symbols.get(after.checked_sub(1)?).map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address() {
        let names = Kallsyms::parse(
            "ffffffff81000000 T _text\nffffffff81000040 t do_work\nffffffff81000050 D data\nffffffff81000100 W weak\n",
        )
        .unwrap();
        assert_eq!(names.text(), Some(0xffff_ffff_8100_0000));
        assert_eq!(names.name(0xffff_ffff_8100_0060), Some("do_work"));
        assert_eq!(names.name(0xffff_ffff_8100_0100), Some("weak"));
        assert_eq!(names.name(1), None);
        assert!(Kallsyms::parse("0000000000000000 T _text\n").is_none());
    }
}
