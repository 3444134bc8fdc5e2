//! A program of the mosaic, as what is measured.

use std::path::PathBuf;

use anyhow::{Context, Result};
use mosaic::Program;
use mosaic::program::{POINT, region_name};
use serde::{Deserialize, Serialize};

use crate::subject::{Subject, in_workspace};

/// A program, and what is asked about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// `seed=17`, or what a shrunk program is called.
    pub name: String,
    /// As `mosaic program=` reads it; nothing if the name says it all.
    text: Option<String>,
    /// The kinds of things in it.
    pub kinds: Vec<String>,
    /// The regions that are asked about.
    pub regions: Vec<String>,
}

impl Piece {
    /// The program that `seed` is, with so many regions at most.
    pub fn of_seed(seed: u64, regions: usize) -> Self {
        let program = mosaic::draw(seed);
        let regions = program.asked(regions).into_iter().map(region_name).collect();
        Self { name: format!("seed={seed}"), text: None, kinds: kinds(&program), regions }
    }

    /// A program that no seed is, with one region.
    pub fn of_program(name: String, program: &Program, region: &str) -> Self {
        Self { name, text: Some(program.text()), kinds: kinds(program), regions: vec![region.to_owned()] }
    }

    /// The program itself.
    pub fn program(&self) -> Result<Program> {
        match &self.text {
            Some(text) => Program::parse(text).context("a program that mosaic wrote"),
            None => {
                let seed = self.name.strip_prefix("seed=").and_then(|seed| seed.parse().ok());
                Ok(mosaic::draw(seed.with_context(|| format!("'{}' is no seed", self.name))?))
            }
        }
    }
}

fn kinds(program: &Program) -> Vec<String> {
    program.kinds().into_iter().map(str::to_owned).collect()
}

impl Subject for Piece {
    fn name(&self) -> &str {
        &self.name
    }

    fn program(&self) -> Result<PathBuf> {
        Ok(targets::build::profile_folder()?.join("mosaic"))
    }

    fn arguments(&self) -> Vec<String> {
        vec![self.text.as_ref().map_or_else(|| self.name.clone(), |text| format!("program={text}"))]
    }

    fn point(&self) -> &str {
        POINT
    }

    fn regions(&self) -> Vec<&str> {
        self.regions.iter().map(String::as_str).collect()
    }

    fn source(&self) -> PathBuf {
        in_workspace("mosaic/src/regions.rs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_its_program() {
        let seed = Piece::of_seed(3, 3);
        assert_eq!(seed.program().unwrap(), mosaic::draw(3));
        assert_eq!(seed.arguments(), ["seed=3"]);
        let shrunk = Piece::of_program("seed=3 shrunk".to_owned(), &mosaic::draw(3), "R1");
        assert_eq!(shrunk.program().unwrap(), mosaic::draw(3));
        assert!(shrunk.arguments()[0].starts_with("program={"), "{shrunk:?}");
        assert!(seed.source().is_file());
    }
}
