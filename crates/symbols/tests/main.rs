//! Names and lines of programs that are compiled here. One program for all of it, because each would be linked by itself.

mod compiled;
mod damage;
mod hostile;
mod process;
mod second_opinion;
mod separate;
mod system_library;
mod toolchain;
