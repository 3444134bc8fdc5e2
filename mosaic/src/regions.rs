//! The code whose speed is asked about: `R0` to `R7`, each a function with a loop of its own.

use targets::run::{Arguments, ITERATIONS_PER_MS};
use targets::work;

use crate::program::{REGIONS, region_name};

#[expect(non_snake_case)]
#[inline(never)]
fn R0(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn R1(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn R2(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn R3(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn R4(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn R5(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn R6(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn R7(iterations: u64) {
    work!(iterations);
}

const FUNCTIONS: [fn(u64); REGIONS as usize] = [R0, R1, R2, R3, R4, R5, R6, R7];

/// The share of its work that each region does.
#[derive(Clone, Copy, Debug)]
pub struct Regions([f64; REGIONS as usize]);

impl Regions {
    /// As `R0=0.5` and so on say; all of it where nothing is given.
    #[must_use]
    pub fn of(arguments: &Arguments) -> Self {
        let mut factors = [1.0; REGIONS as usize];
        for (region, factor) in (0..REGIONS).zip(&mut factors) {
            *factor = arguments.number(&region_name(region), 1.0);
        }
        Self(factors)
    }

    /// Works in `region` for a time in nanoseconds, as many iterations as that is on the machine that they are calibrated on.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn work(&self, region: u8, nanos: f64) {
        let region = usize::from(region);
        let iterations = nanos / 1e6 * ITERATIONS_PER_MS * self.0[region];
        FUNCTIONS[region](iterations as u64);
    }
}
