//! The fleets that are simulated.

use super::world::{Blocks, Noise, Truth, USUAL, World};

/// A fleet with a name.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub world: World,
}

const FEW: Blocks = Blocks::Each(5);
const UNBALANCED: Blocks = Blocks::Between(5, 500);

/// Ten thousand hosts: how much they differ, how many blocks they have, and what is not as textbooks have it.
pub const LARGE: &[Scenario] = &[
    Scenario { name: "alike", world: World { tau: 0.0, ..USUAL } },
    Scenario { name: "differ a little", world: World { tau: 0.02, ..USUAL } },
    Scenario { name: "differ", world: USUAL },
    Scenario { name: "differ much", world: World { tau: 0.18, ..USUAL } },
    Scenario { name: "alike, 5 blocks", world: World { tau: 0.0, blocks: FEW, ..USUAL } },
    Scenario { name: "differ, 5 blocks", world: World { blocks: FEW, ..USUAL } },
    Scenario { name: "alike, unbalanced", world: World { tau: 0.0, blocks: UNBALANCED, ..USUAL } },
    Scenario { name: "differ, unbalanced", world: World { blocks: UNBALANCED, ..USUAL } },
    Scenario {
        name: "alike, unlike noise",
        world: World { tau: 0.0, blocks: UNBALANCED, unlike: 0.5, ..USUAL },
    },
    Scenario { name: "differ, unlike noise", world: World { blocks: UNBALANCED, unlike: 0.5, ..USUAL } },
    Scenario {
        name: "alike, heavy tails",
        world: World { tau: 0.0, blocks: Blocks::Each(10), noise: Noise::Heavy, ..USUAL },
    },
    Scenario {
        name: "differ, heavy tails",
        world: World { blocks: UNBALANCED, noise: Noise::Heavy, ..USUAL },
    },
    Scenario { name: "alike, slow windows", world: World { tau: 0.0, noise: Noise::Skewed, ..USUAL } },
    Scenario {
        name: "differ, slow windows",
        world: World { blocks: UNBALANCED, noise: Noise::Skewed, ..USUAL },
    },
    Scenario { name: "slow windows, 5 blocks", world: World { blocks: FEW, noise: Noise::Skewed, ..USUAL } },
    Scenario {
        name: "slow windows, 10 blocks",
        world: World { blocks: Blocks::Each(10), noise: Noise::Skewed, ..USUAL },
    },
    Scenario {
        name: "truth: two kinds",
        world: World { blocks: UNBALANCED, truth: Truth::TwoKinds, ..USUAL },
    },
    Scenario {
        name: "truth: heavy tails",
        world: World { blocks: UNBALANCED, truth: Truth::Heavy, ..USUAL },
    },
    Scenario {
        name: "busy are worth more",
        world: World { blocks: UNBALANCED, truth: Truth::WithBlocks, ..USUAL },
    },
];

/// Smaller fleets, each with these.
pub const SMALL: &[Scenario] = &[
    Scenario { name: "alike", world: World { tau: 0.0, ..USUAL } },
    Scenario { name: "differ", world: USUAL },
    Scenario { name: "alike, unbalanced", world: World { tau: 0.0, blocks: UNBALANCED, ..USUAL } },
    Scenario { name: "differ, unbalanced", world: World { blocks: UNBALANCED, ..USUAL } },
    Scenario { name: "differ, 5 blocks", world: World { blocks: FEW, ..USUAL } },
    Scenario {
        name: "differ, heavy tails",
        world: World { blocks: UNBALANCED, noise: Noise::Heavy, ..USUAL },
    },
];

/// Sizes of smaller fleets.
pub const SIZES: &[usize] = &[2, 3, 5, 10, 30, 100, 1000];
