//! Where CPython has what is needed of it, by its version: 3.11, 3.12 and 3.13. What another version has where is not guessed.
//!
//! The numbers are those of its headers (`Include/internal/pycore_runtime.h`, `pycore_interp.h`, `pycore_frame.h`, `Include/cpython/pystate.h`, `code.h`,
//! `unicodeobject.h`) on 64-bit machines, by `offsetof`. From 3.13 on, the interpreter says them itself (`_Py_DebugOffsets`).

use kernel::process_memory::ProcessMemory;
use kernel::python_frames::{Interpreter, InterpreterFrame};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In `_PyRuntime`, and so on; see [`Interpreter`].
    head: u64,
    next: u64,
    threads: u64,
    next_thread: u64,
    number: u64,
    frame: u64,
    /// How runs of frames are told apart.
    runs: Runs,
    code: u64,
    previous: u64,
    pub names: NameLayout,
}

/// How it is told which function of C executes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Python 3.11: the thread has the address of a `_PyCFrame` on the C stack, which has that of the frame, and that of the structure of the
    /// next run. The outermost frame of a run has a mark (the byte at 68).
    Structures { frame: u64, next: u64 },
    /// Behind the frames of a run there is one on the C stack, which has no code. This byte of it is 3.
    Frames { owner: u64 },
}

/// Where names are in code and in strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLayout {
    pub file: u64,
    pub qualified: u64,
    pub line: u64,
    pub length: u64,
    pub state: u64,
    /// Where the characters of ASCII begin, and of others.
    pub ascii: u64,
    pub other: u64,
}

/// Where frames have flags, and how long these are.
const FLAGS: u64 = 64;
const FLAGS_END: u64 = 72;
/// `_PyInterpreterFrame.is_entry` of 3.11.
const IS_ENTRY: u64 = 68;
/// `FRAME_OWNED_BY_CSTACK`.
const OWNED_BY_STACK: u64 = 3;

const PYTHON_3_11: Layout = Layout {
    head: 40,
    next: 0,
    threads: 16,
    next_thread: 8,
    number: 160,
    frame: 56,
    runs: Runs::Structures { frame: 8, next: 16 },
    code: 32,
    previous: 48,
    names: NameLayout { file: 112, qualified: 128, line: 72, length: 16, state: 32, ascii: 48, other: 72 },
};

const PYTHON_3_12: Layout = Layout {
    head: 40,
    next: 0,
    threads: 72,
    next_thread: 8,
    number: 144,
    frame: 56,
    runs: Runs::Frames { owner: 70 },
    code: 0,
    previous: 8,
    names: NameLayout { file: 112, qualified: 128, line: 68, length: 16, state: 32, ascii: 40, other: 56 },
};

/// In 3.12 a thread has the address of a structure as well, which has that of its frame in front.
const OF_3_12: u64 = 0;

/// Why a layout is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The process could not be read.
    Unreadable,
    /// It is of another version.
    Version,
}

impl Layout {
    /// Of the interpreter of a process that has `_PyRuntime` and `Py_Version` at these addresses.
    pub fn read(memory: &ProcessMemory, runtime: u64, version: Option<u64>) -> Result<Self, Unknown> {
        let mut said = [0; SAID * 8];
        let begins = memory.word(runtime).ok_or(Unknown::Unreadable)?;
        if begins == COOKIE {
            memory.read(runtime, &mut said).map_err(|_| Unknown::Unreadable)?;
            let words =
                std::array::from_fn(|nth| u64::from_ne_bytes(std::array::from_fn(|at| said[8 * nth + at])));
            return Self::said(&words).ok_or(Unknown::Version);
        }
        let version = memory.word(version.ok_or(Unknown::Version)?).ok_or(Unknown::Unreadable)?;
        Self::of_version(version).ok_or(Unknown::Version)
    }

    /// Of a version that does not say it: `PY_VERSION_HEX` of a release.
    pub fn of_version(version: u64) -> Option<Self> {
        match version >> 16 {
            0x030b if is_released(version) => Some(PYTHON_3_11),
            0x030c if is_released(version) => Some(PYTHON_3_12),
            _ => None,
        }
    }

    /// By `_Py_DebugOffsets`. A build without the global lock (`free_threaded`) is another one.
    fn said(words: &[u64; SAID]) -> Option<Self> {
        /// Of the beginning of a structure.
        const FAR: u64 = 1 << 20;
        let [_, version, free_threaded, .., state, length, ascii] = *words;
        if version >> 16 != 0x030d || !is_released(version) || free_threaded != 0 {
            return None;
        }
        let (owner, code, previous) = (words[33], words[30], words[29]);
        let layout = Self {
            head: words[5],
            next: words[8],
            threads: words[9],
            next_thread: words[21],
            number: words[25],
            frame: words[23],
            runs: Runs::Frames { owner },
            code,
            previous,
            names: NameLayout {
                file: words[35],
                qualified: words[37],
                line: words[39],
                length,
                state,
                ascii,
                // `PyCompactUnicodeObject` has two words more.
                other: ascii.checked_add(16)?,
            },
        };
        let NameLayout { file, qualified, line, other, .. } = layout.names;
        let all = [layout.head, layout.next, layout.threads, layout.next_thread, layout.number, layout.frame];
        let near =
            all.into_iter().chain([file, qualified, line, length, state, other]).all(|place| place < FAR);
        let in_frame = code <= FLAGS && previous <= FLAGS && (FLAGS..FLAGS_END).contains(&owner);
        (near && in_frame).then_some(layout)
    }

    /// For the program that reads the frames of a process.
    pub fn interpreter(&self, runtime: u64, namespace: (u64, u64)) -> Interpreter {
        let indirect = match self.runs {
            Runs::Structures { frame, .. } => Some(frame),
            Runs::Frames { .. } if *self == PYTHON_3_12 => Some(OF_3_12),
            Runs::Frames { .. } => None,
        };
        let Self { head, next, threads, next_thread, number, frame, code, previous, .. } = *self;
        let head = runtime.wrapping_add(head);
        Interpreter { head, next, threads, next_thread, number, frame, indirect, code, previous, namespace }
    }

    /// Where runs of frames end, and which function of C executes them.
    pub fn runs(&self) -> Runs {
        self.runs
    }
}

impl Runs {
    /// Whether a frame is the last one of its run.
    pub fn is_last(self, frame: &InterpreterFrame) -> bool {
        let byte = |place: u64| frame.flags >> (8 * (place - FLAGS)) & 0xff;
        match self {
            Self::Structures { .. } => byte(IS_ENTRY) & 1 != 0,
            Self::Frames { owner } => byte(owner) == OWNED_BY_STACK,
        }
    }
}

/// Neither alpha, beta nor candidate: those differ from one another.
fn is_released(version: u64) -> bool {
    version >> 32 == 0 && version >> 4 & 0xf == 0xf
}

/// `xdebugpy`.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// Words of `_Py_DebugOffsets` of 3.13, up to the last one that is needed.
const SAID: usize = 71;

#[cfg(test)]
mod tests {
    use super::*;

    /// What 3.13.0 says of itself.
    fn said() -> [u64; SAID] {
        let mut words = [0; SAID];
        for (nth, word) in [
            (0, COOKIE),
            (1, 0x030d_00f0),
            (5, 632),
            (8, 7264),
            (9, 7344),
            (21, 8),
            (23, 72),
            (25, 160),
            (29, 8),
            (30, 0),
            (33, 70),
            (35, 112),
            (37, 128),
            (39, 68),
            (68, 32),
            (69, 16),
            (70, 40),
        ] {
            words[nth] = word;
        }
        words
    }

    #[test]
    fn versions_that_are_not_known_have_no_layout() {
        for known in [0x030b_00f0, 0x030b_02f0, 0x030b_0ef0, 0x030c_01f0] {
            assert!(Layout::of_version(known).is_some(), "{known:x}");
        }
        // 3.10, 3.13 (which says it itself), 3.11 alpha and candidate, 3.14, nonsense.
        for unknown in
            [0x030a_00f0, 0x030d_00f0, 0x030b_00a1, 0x030b_00c2, 0x030e_00f0, 0, u64::MAX, 0x1_030b_02f0]
        {
            assert_eq!(Layout::of_version(unknown), None, "{unknown:x}");
        }
    }

    #[test]
    fn what_an_interpreter_says_is_taken_if_it_is_possible() {
        let layout = Layout::said(&said()).unwrap();
        let like_3_12 =
            NameLayout { file: 112, qualified: 128, line: 68, length: 16, state: 32, ascii: 40, other: 56 };
        assert_eq!((layout.names, layout.runs), (like_3_12, Runs::Frames { owner: 70 }));
        let interpreter = layout.interpreter(0x1000, (4, 5));
        assert_eq!((interpreter.head, interpreter.number, interpreter.indirect), (0x1000 + 632, 160, None));
        // Another version, a candidate, without the global lock, distances that lead away from what is described.
        for (nth, word) in [
            (1, 0x030e_00f0),
            (1, 0x030d_00c1),
            (2, 1),
            (5, 1 << 20),
            (25, u64::MAX),
            (29, 65),
            (30, u64::MAX),
            (33, 63),
            (33, 72),
            (37, 1 << 40),
            (70, u64::MAX),
        ] {
            let mut words = said();
            words[nth] = word;
            assert_eq!(Layout::said(&words), None, "{nth}: {word:x}");
        }
    }

    #[test]
    fn the_last_frame_of_a_run_is_told_by_its_flags() {
        let frame = |flags| InterpreterFrame { address: 0, code: 0, flags };
        let (old, new) = (PYTHON_3_11.runs, PYTHON_3_12.runs);
        // As they were read from running interpreters: `stacktop`, `is_entry` and `owner`; `stacktop`, `return_offset` and `owner`.
        assert!(old.is_last(&frame(1 << 32 | 5)) && !old.is_last(&frame(5)));
        assert!(new.is_last(&frame(3 << 48 | 5)) && !new.is_last(&frame(1 << 48 | 4 << 32 | 5)));
        assert!(!new.is_last(&frame(0)));
    }
}
