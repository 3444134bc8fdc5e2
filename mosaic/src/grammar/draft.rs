//! A program that is being drawn.

use std::collections::BTreeSet;

use crate::dice::Dice;
use crate::program::{Actor, Object, Program, REST, Step};

/// What there is of a program so far.
pub struct Draft {
    /// Where all choices come from.
    pub dice: Dice,
    program: Program,
    /// The regions that the program works in.
    palette: Vec<u8>,
    /// The measured actor's loop.
    measured: Vec<Step>,
}

impl Draft {
    pub fn new(mut dice: Dice) -> Self {
        let regions = dice.between(2, 6);
        // Those that come first are drawn more often, so that programs have regions at several places.
        let palette = (0..REST).take(usize::try_from(regions).unwrap_or(2)).collect();
        Self { dice, program: Program::default(), palette, measured: Vec::new() }
    }

    /// A region of the program.
    pub fn region(&mut self) -> u8 {
        let one = self.dice.index(self.palette.len());
        let other = self.dice.index(self.palette.len());
        self.palette[if self.dice.chance(30) { one.min(other) } else { one }]
    }

    /// A region that is none of `others`, if the program has one.
    pub fn region_beside(&mut self, others: &[u8]) -> u8 {
        let left: Vec<u8> = self.palette.iter().copied().filter(|region| !others.contains(region)).collect();
        if left.is_empty() { self.region() } else { self.dice.pick(&left) }
    }

    /// Adds an object and returns its number.
    pub fn object(&mut self, object: Object) -> usize {
        self.program.objects.push(object);
        self.program.objects.len() - 1
    }

    /// Adds so many actors in a process. Those without steps are none.
    pub fn actor(&mut self, process: u32, copies: u64, steps: Vec<Step>) {
        let copies = u32::try_from(copies).unwrap_or(1).max(1);
        self.program.actors.push(Actor { process, copies, steps });
    }

    /// Lets the measured actor do more in its loop.
    pub fn measured(&mut self, steps: Vec<Step>) {
        self.measured.extend(steps);
    }

    /// Says what the program is made of.
    pub fn shape(&mut self, name: &str) {
        self.program.shapes.insert(name.to_owned());
    }

    /// The number of the next process.
    pub fn next_process(&self) -> u32 {
        self.program.actors.iter().map(|actor| actor.process).max().unwrap_or(0) + 1
    }

    /// The actors of the first process, whose loops may have further steps. The measured one is `None`.
    pub fn loops(&mut self) -> Vec<Option<usize>> {
        let others = self.program.actors.iter().enumerate();
        let others = others.filter(|(_, actor)| actor.process == 0).map(|(number, _)| Some(number));
        others.chain([None]).collect()
    }

    /// The loop of an actor.
    pub fn steps_of(&mut self, actor: Option<usize>) -> &mut Vec<Step> {
        match actor {
            Some(actor) => &mut self.program.actors[actor].steps,
            None => &mut self.measured,
        }
    }

    /// The program: the measured actor is its first.
    pub fn finish(self) -> Program {
        let Self { mut program, mut measured, .. } = self;
        measured.push(Step::Visit);
        program.actors.insert(0, Actor { process: 0, copies: 1, steps: measured });
        // Objects that no actor was given.
        let used: BTreeSet<usize> = program.steps().flat_map(Step::objects).collect();
        debug_assert_eq!(used.len(), program.objects.len());
        program
    }
}
