// Frames between the beginning of a thread and the program's own code: the C library's and the language's way to `main`.

const STARTS =
  /^(_start|__libc_start_(main|main_impl|call_main)|start_thread|thread_start|_*clone3?|runtime\.(goexit|mstart|mstart0|main)|ret_from_fork(_asm)?)$/;
const RUST = /^[<&]*(std|core|alloc)::|^__rust_/;
const RUST_MAIN = /^std::rt::lang_start/;

/**
 * Which frames of a tree these are; callers come before what they call. Only outermost ones are, and those that only they call. `isAbove`
 * is what stands for a program or a process, within which stacks begin; `isOwn` is the program's own code, whatever its name is like, or
 * has callers of which nothing is known.
 */
export function runtimeFrames(
  callers: (number | null)[],
  name: (nth: number) => string,
  isAbove: (nth: number) => boolean,
  isOwn: (nth: number) => boolean,
): boolean[] {
  // Rust's own `main` is called by one that the compiler makes.
  const made = new Set(callers.filter((_, nth) => RUST_MAIN.test(name(nth))));
  const found: boolean[] = [];
  callers.forEach((caller, nth) => {
    const isOutermost = caller === null || found[caller]! || isAbove(caller);
    found.push(isOutermost && (STARTS.test(name(nth)) || (RUST.test(name(nth)) && !isOwn(nth)) || made.has(nth)));
  });
  return found;
}
