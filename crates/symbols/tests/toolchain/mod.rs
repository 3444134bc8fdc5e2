//! Compiles the programs that the tests are about, where the compilers are installed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use symbols::{Scope, ScopeOptions};

/// Writes `source` to a file below `directory` and compiles it there. `None`, with a printed
/// reason, if the compiler is missing; a compiler that fails is a failed test.
pub fn compile(
    directory: &Path,
    compiler: &str,
    source: (&str, &str),
    arguments: &[&str],
) -> Option<PathBuf> {
    let (name, text) = source;
    std::fs::write(directory.join(name), text).unwrap();
    let program = format!("{}.{}", name.replace('.', "-"), arguments.join(""));
    let program = directory.join(program.replace('/', "_"));
    let mut command = Command::new(compiler);
    command.current_dir(directory).args(arguments).arg(name).arg("-o").arg(&program);
    run(&mut command).then_some(program)
}

/// Runs a tool; false, with a printed reason, if it is not installed.
pub fn run(command: &mut Command) -> bool {
    match command.output() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            eprintln!("skipped: {:?} is not installed for us: {error}", command.get_program());
            false
        }
        Err(error) => panic!("{command:?}: {error}"),
        Ok(output) => {
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

/// The line (from 1) on which `source` says `marker`.
pub fn line_of(source: &str, marker: &str) -> u32 {
    let at = source.lines().position(|line| line.contains(marker));
    at.unwrap_or_else(|| panic!("no `{marker}` in the source")) as u32 + 1
}

/// Every file but the standard libraries.
pub fn default_scope() -> Scope {
    Scope::new(ScopeOptions::default()).unwrap()
}

/// Two functions, one of which is inlined into the other and loops.
pub const C: &str = r#"
#include <stdlib.h>
static inline __attribute__((always_inline)) unsigned mix(unsigned x) {
    x ^= x << 13; /* mix 1 */
    x ^= x >> 17; /* mix 2 */
    return x * 2654435761u;
}
__attribute__((noinline)) unsigned work(unsigned rounds) {
    unsigned x = rounds;
    for (unsigned i = 0; i < rounds; i++)
        x = mix(x + i); /* call of mix */
    return x;
}
int main(int argc, char **argv) {
    return work(argc > 1 ? atoi(argv[1]) : 10) & 1; /* call of work */
}
"#;

/// Templates, a namespace, a static function, a lambda, operators, and `std::sort` inlined.
pub const CPP: &str = r#"
#include <algorithm>
#include <vector>
namespace shop {
template <typename T> struct Shelf {
    std::vector<T> goods;
    __attribute__((noinline)) T total(T start) const {
        T sum = start;
        for (auto g : goods) sum += g; /* adding */
        return sum;
    }
    bool operator<(const Shelf &other) const { return goods.size() < other.goods.size(); }
};
static inline __attribute__((always_inline)) int weight(int x) {
    return (x * 31) % 101; /* weighing */
}
__attribute__((noinline)) void tidy(std::vector<int> &goods) {
    std::sort(goods.begin(), goods.end(), [](int a, int b) { /* sorting */
        return weight(a) < weight(b); /* comparing */
    });
}
}
int main(int argc, char **) {
    shop::Shelf<int> a;
    for (int i = 0; i < 100; i++) a.goods.push_back((i * 7919) % 100 + argc); /* pushing */
    shop::tidy(a.goods);
    shop::Shelf<double> b;
    b.goods.push_back(argc);
    return int(a.total(1)) + int(b.total(2.0)) > 7;
}
"#;

/// Generics, closures, a trait, and iterators of the standard library inlined into our loop.
pub const RUST: &str = r#"
mod shop {
    pub trait Price { fn price(&self) -> u64; }
    pub struct Item(pub u64);
    impl Price for Item {
        #[inline(always)]
        fn price(&self) -> u64 { self.0.wrapping_mul(3) } // pricing
    }
    #[inline(never)]
    pub fn total<T: Price>(items: &[T]) -> u64 {
        items.iter().map(|item| item.price()).filter(|p| p % 2 == 0).sum() // summing
    }
    #[inline(never)]
    pub fn sorted(mut keys: Vec<u64>) -> Vec<u64> {
        keys.sort_unstable_by_key(|k| k.wrapping_mul(7)); // sorting
        keys.push(keys.len() as u64); // pushing
        keys
    }
}
fn main() {
    let n = std::env::args().count() as u64 * 100;
    let items: Vec<_> = (0..n).map(shop::Item).collect();
    let keys = shop::sorted((0..n).rev().collect());
    println!("{} {}", shop::total(&items), keys.len());
}
"#;
