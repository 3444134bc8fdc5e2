//! Stacks: which function called which, where samples fell, as a tree that all runs share.

use super::{Image, SessionId};
use crate::rust_std::is_rust_std;
use crate::units::Nanos;

storage::id! {
    /// Which function of the recording's stacks.
    FunctionId
}

storage::id! {
    /// Which stack of the recording: its innermost frame.
    StackId
}

/// A function that was on a stack, in scope or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name: the same as that of the region it is, if it is one.
    pub name: String,
    /// The source file, as the debug information spells it.
    pub file: Option<String>,
    /// The file that was mapped; none for what is not code.
    pub image: Image,
}

impl Function {
    /// What the outermost frame is of a stack that is not known up to where its thread began.
    pub const TRUNCATED: &str = "[truncated]";

    /// What the image of a function is called that is no code, but the program that all frames within it ran in.
    const PROGRAM: &str = "[program]";

    /// What the outermost frame is of stacks of a program, where a recording has those of several.
    pub fn program(name: &str) -> Function {
        let image = Image { path: Function::PROGRAM.to_owned(), build_id: None };
        Function { name: name.to_owned(), file: None, image }
    }

    /// Whether it stands for a program.
    pub fn is_program(&self) -> bool {
        self.image.path == Function::PROGRAM
    }

    /// Whether it is no code of the program's author: what starts the program, or Rust's standard library.
    pub fn is_runtime(&self) -> bool {
        matches!(self.name.as_str(), "_start" | "main") || is_rust_std(&self.name, self.file.as_deref())
    }

    /// What stands for the frames that are not known of a stack.
    pub fn truncated() -> Function {
        Function { name: Function::TRUNCATED.to_owned(), ..Function::default() }
    }

    /// Whether it stands for frames that are not known.
    pub fn is_truncated(&self) -> bool {
        self.name == Function::TRUNCATED && self.image.path.is_empty()
    }
}

/// One frame of a stack. `F` is how its function is named, `P` how its caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame<F, P> {
    /// The frame that called it; `None` for the outermost.
    pub parent: Option<P>,
    /// What ran.
    pub function: F,
    /// The line that was sampled, or that made the call; `None` where that is unknown.
    pub line: Option<u32>,
    /// Whether it is part of its caller's code.
    pub inlined: bool,
}

/// A frame that the recording has.
pub type StackFrame = Frame<FunctionId, StackId>;

/// How often a stack was sampled in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSamples {
    /// The session.
    pub session: SessionId,
    /// The stack.
    pub stack: StackId,
    /// How many samples.
    pub count: u64,
    /// The CPU time they stand for.
    pub weight: Nanos,
}

/// The stacks of one session, before the recording has keys for them: positions in these lists stand for keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Every function once.
    pub functions: Vec<Function>,
    /// Every frame once, callers before what they call.
    pub frames: Vec<Frame<usize, usize>>,
    /// Samples by their innermost frame: how many, and the CPU time they stand for.
    pub samples: Vec<(usize, u64, Nanos)>,
}
