//! One executable or shared library: what is at an address.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use object::elf;

use crate::address::{FileOffset, Load, Svma, bias, stated};
use crate::debug_file::{Files, hex};
use crate::debug_info::DebugInfo;
use crate::elf::Elf;
use crate::error::ImageError;
use crate::function_name::FunctionName;
use crate::go_table;
use crate::identity::identity;
use crate::inline_tree::InlineTrees;
use crate::scope::Scope;
use crate::segment::{Frame, Part, Row, Segment, split};
use crate::stubs::{Stub, stubs};
use crate::symbol_table::{Source, SymbolTable};

/// An ELF file and its debug information, understood as far as it was asked about.
pub struct Image {
    files: Files,
    symbols: OnceLock<SymbolTable>,
    stubs: OnceLock<Vec<Stub>>,
    debug_info: OnceLock<Option<DebugInfo>>,
    trees: InlineTrees,
}

impl Image {
    /// Opens an executable or shared library and locates its debug information: in the file, by
    /// build ID or debug link (below `/usr/lib/debug` and next to the file), in debuginfod's local
    /// cache. Reads headers only. (Servers of debuginfod, if they may be asked, are asked with the first question about names or lines.)
    ///
    /// # Errors
    ///
    /// [`ImageError`] if the file cannot be read, is not ELF, or its headers are damaged. Missing
    /// or damaged debug information is not an error here; see [`Image::has_line_info`] and
    /// [`Image::damage`].
    pub fn open(path: &Path) -> Result<Image, ImageError> {
        Ok(Image {
            files: Files::locate(Elf::open(path)?),
            symbols: OnceLock::new(),
            stubs: OnceLock::new(),
            debug_info: OnceLock::new(),
            trees: InlineTrees::default(),
        })
    }

    /// Reads what every question needs: the functions, and where the units are.
    pub fn prepare(&self) {
        std::thread::scope(|scope| {
            // Without a thread it is read when it is asked for.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || self.symbols());
            self.debug_info();
        });
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.files.image.path
    }

    /// The GNU build ID in lower-case hexadecimal.
    pub fn build_id(&self) -> Option<String> {
        self.files.image.headers.build_id.as_deref().map(hex)
    }

    /// What tells this build from all others: the build ID, or what stands for one where there is none. `None` if the file cannot be read.
    pub fn identity(&self) -> Option<String> {
        identity(&self.files.image)
    }

    /// Whether there is line information anywhere. Note that every Rust program has some, for the
    /// standard library; [`Image::has_line_info_in`] asks about the user's code.
    pub fn has_line_info(&self) -> bool {
        self.files.debug().is_some()
    }

    /// The file that the debug information is in: the image or a separate one.
    ///
    /// # Errors
    ///
    /// [`ImageError::NoLineInfo`], which says how to get some.
    pub fn debug_file(&self) -> Result<&Path, ImageError> {
        let missing = || ImageError::NoLineInfo { path: self.path().to_owned() };
        self.files.debug().map(|elf| elf.path.as_path()).ok_or_else(missing)
    }

    /// The first damage met so far in the debug information, if any. What could still be
    /// understood is used; say this to the user when frames are missing.
    pub fn damage(&self) -> Option<String> {
        let too_large = self.files.all().find_map(Elf::refused).map(str::to_owned);
        too_large.or_else(|| self.debug_info.get()?.as_ref()?.damage())
    }

    /// Where its function names are from.
    pub fn name_source(&self) -> Source {
        self.symbols().source()
    }

    /// Whether any function is known, by name or by address.
    pub fn has_functions(&self) -> bool {
        self.symbols().ranges().next().is_some()
    }

    /// The share of its functions that set up a frame pointer, 0 to 1, among those that are large enough to need one; `None` if
    /// there are none to tell by, or for another machine than x86-64.
    pub fn frame_pointers(&self) -> Option<f64> {
        /// `push %rbp; mov %rsp,%rbp`, within the first bytes of a function.
        const PROLOGUE: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
        const WITHIN: u64 = 24;
        const LARGE: u64 = 48;
        const ENOUGH: usize = 2000;
        let elf = self.elf();
        if elf.headers.machine != elf::EM_X86_64 || !elf.headers.is_64 {
            return None;
        }
        let (mut with, mut all) = (0, 0);
        for range in self.symbols().ranges().filter(|range| range.end - range.start >= LARGE).take(ENOUGH) {
            let Some(code) = elf.read_address(range.start, WITHIN) else { continue };
            all += 1;
            with += usize::from(code.windows(PROLOGUE.len()).any(|bytes| bytes == PROLOGUE));
        }
        (all > 0).then(|| with as f64 / all as f64)
    }

    /// Whether Rust's compiler has made some of it.
    pub fn is_rust(&self) -> bool {
        let comment = self.elf().read_section(".comment");
        comment.is_some_and(|text| text.windows(5).any(|window| window == b"rustc"))
    }

    /// Whether Go's compiler has made it.
    pub fn is_go(&self) -> bool {
        go_table::SECTIONS.iter().any(|name| self.elf().has_section(name))
    }

    /// Whether these bytes are among its constants.
    pub fn has_constant(&self, bytes: &[u8]) -> bool {
        let sections = [".rodata", ".rodata.str1.1", ".data.rel.ro"];
        let mut read = sections.iter().filter_map(|name| self.elf().read_section(name));
        read.any(|section| section.windows(bytes.len()).any(|window| window == bytes))
    }

    /// The names of the libraries that it asks for by itself (`DT_NEEDED`).
    pub fn needed(&self) -> Vec<String> {
        self.elf().needed()
    }

    /// Whether one of these functions is among those that it asks its libraries for, or that it offers itself; `None` if it is
    /// static, so that this cannot be told.
    pub fn has_dynamic_name(&self, names: &[&str]) -> Option<bool> {
        self.elf().has_dynamic_name(names)
    }

    /// The `PT_LOAD` program headers, in file order.
    pub fn loads(&self) -> &[Load] {
        &self.files.image.headers.loads
    }

    /// The machine that its code is for (`e_machine`, elf(5)): 62 is x86-64.
    pub fn machine(&self) -> u16 {
        self.files.image.headers.machine
    }

    /// The stated address of what is at `offset` in the file; code is preferred where pieces share a page. `None` if it
    /// is not loaded.
    pub fn stated(&self, offset: FileOffset) -> Option<Svma> {
        stated(self.loads(), offset).map(|(_, address)| address)
    }

    /// Where in the file the byte at a stated address is. `None` if it is not in the file.
    pub fn file_offset(&self, address: Svma) -> Option<FileOffset> {
        let inside =
            |load: &&Load| address.0.checked_sub(load.address.0).is_some_and(|at| at < load.file_size);
        let load = self.loads().iter().filter(inside).min_by_key(|load| !load.executable)?;
        Some(FileOffset(load.offset.0 + (address.0 - load.address.0)))
    }

    /// The bytes at a range of stated addresses. `None` if they are not all in the file.
    pub fn bytes(&self, range: &Range<Svma>) -> Option<Vec<u8>> {
        self.elf().read_address(range.start.0, range.end.0.checked_sub(range.start.0)?)
    }

    /// The load bias of a process that has mapped this image's code: process address minus stated
    /// address. `mapping_start` is the process address and `mapping_offset` the file offset of an
    /// *executable* mapping, as in `/proc/<pid>/maps` or a perf mmap record. (Data and code may
    /// share a page of the file, and then only the kind of mapping tells which is meant.)
    ///
    /// `None` if no program header covers the offset: another file, or one that has been replaced.
    pub fn bias(&self, mapping_start: u64, mapping_offset: FileOffset) -> Option<u64> {
        let page = match self.files.image.headers.machine {
            elf::EM_X86_64 | elf::EM_386 => 4 << 10,
            // Up to 64 KiB on aarch64 and ppc64.
            _ => 64 << 10,
        };
        bias(self.loads(), page, mapping_start, mapping_offset)
    }

    /// The out-of-line function that contains `address`: a sized function of the symbol table,
    /// otherwise one of the debug information (for a function in several pieces, the piece).
    pub fn container(&self, address: Svma) -> Option<Range<Svma>> {
        let Svma(address) = address;
        let by_symbol = self.symbols().containing(address).map(|entry| entry.range.clone());
        let by_debug_info = || {
            let info = self.debug_info()?;
            let units = info.units_at(address..address.checked_add(1)?);
            let function = |unit: usize| Some(info.subprograms(unit).containing(address)?.range.clone());
            units.into_iter().find_map(function)
        };
        let range = by_symbol.or_else(by_debug_info)?;
        Some(Svma(range.start)..Svma(range.end))
    }

    /// The name of the section that is loaded at a stated address; none where the file has no sections.
    pub fn section(&self, address: Svma) -> Option<String> {
        self.elf().section_at(address.0).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The stated addresses of that section.
    pub fn section_range(&self, address: Svma) -> Option<Range<Svma>> {
        self.elf().section_around(address.0).map(|range| Svma(range.start)..Svma(range.end))
    }

    /// Whether any symbol, of a function or not, is at one of these stated addresses.
    pub fn has_label(&self, range: &Range<Svma>) -> bool {
        let range = range.start.0..range.end.0;
        self.files.all().any(|elf| SymbolTable::has_label(elf, &range))
    }

    /// The functions of the symbol table, and those that unwinding tells of where that has few, which overlap a range of stated addresses.
    pub fn functions_in(&self, range: &Range<Svma>) -> Vec<Range<Svma>> {
        let overlaps = |one: &Range<u64>| one.start < range.end.0 && range.start.0 < one.end;
        let found = self.symbols().ranges().filter(overlaps);
        found.map(|one| Svma(one.start)..Svma(one.end)).collect()
    }

    /// Cuts `container` (usually from [`Image::container`]) into maximal ranges with the same
    /// frames. Together the segments cover it, in order, without gaps. Parses only the
    /// compilation units that have code in it.
    pub fn segments(&self, container: Range<Svma>, scope: &Scope) -> Vec<Segment> {
        let symbols = self.symbols();
        let symbol = symbols.containing(container.start.0).map(|entry| symbols.name(entry));
        self.split(container, symbol, scope)
    }

    /// The same where the symbol table has this to say.
    fn split(&self, container: Range<Svma>, symbol: Option<FunctionName>, scope: &Scope) -> Vec<Segment> {
        let range = container.start.0..container.end.0;
        let (parts, rows) = self.debug_info().map(|info| read(info, &self.trees, &range)).unwrap_or_default();
        split(range, &parts, &rows, symbol.as_ref(), scope)
    }

    /// The frames at one address, innermost first; empty if nothing is known. For a return address
    /// ask about the byte before it.
    pub fn frames(&self, address: Svma, scope: &Scope) -> Vec<Frame> {
        let Some(end) = address.0.checked_add(1) else { return Vec::new() };
        only(self.segments(address..Svma(end), scope))
    }

    /// The same without the names that functions are given here if they have none (`program+0x1180`): those functions are
    /// [unknown](FunctionName::is_unknown). For callers that keep names: a debug file with the real ones may come later.
    pub fn named_frames(&self, address: Svma, scope: &Scope) -> Vec<Frame> {
        let Some(end) = address.0.checked_add(1) else { return Vec::new() };
        only(self.split(address..Svma(end), self.symbol(address), scope))
    }

    /// The name that the symbol table has for the function that contains `address`, or the function that a stub there calls; none if
    /// that is only called by its address.
    pub fn symbol(&self, address: Svma) -> Option<FunctionName> {
        let entry = self.symbols().containing(address.0);
        entry.and_then(|entry| self.symbols().real_name(entry)).or_else(|| self.stub(address))
    }

    fn stub(&self, Svma(address): Svma) -> Option<FunctionName> {
        let stubs = self.stubs.get_or_init(|| stubs(self.elf()));
        let after = stubs.partition_point(|stub| stub.range.start <= address);
        let stub = stubs.get(after.checked_sub(1)?).filter(|stub| stub.range.contains(&address))?;
        Some(FunctionName::of_stub(&stub.name))
    }

    pub(crate) fn elf(&self) -> &Elf {
        &self.files.image
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn symbols(&self) -> &SymbolTable {
        self.symbols.get_or_init(|| {
            let files: Vec<&Elf> = self.files.with_symbols().collect();
            let table = SymbolTable::read(files.into_iter());
            if table.source() == Source::Symbols {
                return table;
            }
            let name = self.path().file_name().unwrap_or_default().to_string_lossy();
            table.with_unnamed(&name, self.functions_by_unwinding().into_iter())
        })
    }

    pub(crate) fn debug_info(&self) -> Option<&DebugInfo> {
        self.debug_info.get_or_init(|| DebugInfo::read(&self.files)).as_ref()
    }
}

/// The frames of one address.
fn only(segments: Vec<Segment>) -> Vec<Frame> {
    segments.into_iter().next().map_or_else(Vec::new, |segment| segment.frames)
}

/// What the debug information has in `range`: functions that do not overlap, and rows, sorted.
fn read(info: &DebugInfo, trees: &InlineTrees, range: &Range<u64>) -> (Vec<Part>, Vec<Row>) {
    let clip = |piece: &Range<u64>| piece.start.max(range.start)..piece.end.min(range.end);
    let mut parts: Vec<(Range<u64>, usize, usize)> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for unit in info.units_at(range.clone()) {
        let functions = info.subprograms(unit).overlapping(range.clone());
        parts.extend(functions.map(|entry| (clip(&entry.range), unit, entry.value)));
        let lines = info.lines(unit);
        rows.extend(lines.spans(range.clone()).iter().map(|span| Row {
            range: clip(&(span.start..span.end)),
            file: lines.file_of(span).cloned(),
            line: span.line(),
        }));
    }
    // Functions with identical code may have been folded into one: the first one keeps it.
    parts.sort_by_key(|(part, unit, die)| (part.start, *unit, *die));
    let mut taken = 0;
    parts.retain(|(part, ..)| {
        let free = part.start >= taken;
        taken = if free { part.end } else { taken };
        free
    });
    rows.sort_by_key(|row| row.range.start);
    let mut taken = 0;
    rows.retain_mut(|row| {
        row.range.start = row.range.start.max(taken);
        taken = taken.max(row.range.end);
        row.range.start < row.range.end
    });
    let parts = parts.into_iter().map(|(range, unit, die)| Part { range, tree: trees.of(info, unit, die) });
    (parts.collect(), rows)
}
