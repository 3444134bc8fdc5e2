//! Simulated fleets whose truth is known.

use fastrand::Rng;
use profile::Nanos;
use profile::meta_analysis::{BlockTerm, HostId, HostSlope, VersionId};

use crate::interval::count;

const DAY: Nanos = Nanos::new(86_400_000_000_000);

/// A true slope is no further from the mean than this, in standard deviations: nothing can gain more than all.
const FURTHEST: f64 = 5.0;

/// How many blocks a host has made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blocks {
    /// As many on each host.
    Each(usize),
    /// From the first to the second, evenly on a logarithmic scale.
    Between(usize, usize),
}

/// How the visits of a window differ from what they should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    Normal,
    /// Student's t with three degrees of freedom.
    Heavy,
    /// Normal, and one window in ten loses up to four fifths of its visits.
    Skewed,
}

/// How the true slopes of hosts lie around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Truth {
    Normal,
    /// Student's t with three degrees of freedom.
    Heavy,
    /// One host in five is of another kind, far below the others.
    TwoKinds,
    /// Hosts with more blocks are worth more.
    WithBlocks,
}

/// A fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    pub hosts: usize,
    pub blocks: Blocks,
    /// The standard deviation of a window's visits, as a share of them.
    pub deviation: f64,
    /// By how much that differs from host to host: the standard deviation of its logarithm.
    pub unlike: f64,
    pub noise: Noise,
    /// The mean of the true slopes.
    pub mean: f64,
    /// Their standard deviation.
    pub tau: f64,
    pub truth: Truth,
}

/// What most fleets have in common: a region worth 20 % of the time, windows that differ by 15 %.
pub const USUAL: World = World {
    hosts: 10_000,
    blocks: Blocks::Each(35),
    deviation: 0.15,
    unlike: 0.0,
    noise: Noise::Normal,
    mean: 0.2,
    tau: 0.1,
    truth: Truth::Normal,
};

/// A standard normal number, by Marsaglia's polar method.
pub fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.f64() - 1.0, 2.0 * rng.f64() - 1.0);
        let square = x * x + y * y;
        if square < 1.0 && square > 0.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Student's t with three degrees of freedom, over its standard deviation √3.
fn heavy(rng: &mut Rng) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / squares.sqrt()
}

impl Noise {
    /// What the visits of a window are multiplied by.
    fn factor(self, deviation: f64, rng: &mut Rng) -> f64 {
        let off = match self {
            Self::Heavy => heavy(rng),
            Self::Normal | Self::Skewed => normal(rng),
        };
        let lost = if self == Self::Skewed && rng.u8(0..10) == 0 { 0.8 * rng.f64() } else { 0.0 };
        (1.0 + deviation * off).max(0.02) * (1.0 - lost)
    }
}

impl Blocks {
    /// Of one host.
    fn draw(self, rng: &mut Rng) -> usize {
        match self {
            Self::Each(blocks) => blocks,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Self::Between(least, most) => {
                let (least, most) = (count(least), count(most));
                (least * (most / least).powf(rng.f64())).round() as usize
            }
        }
    }

    /// Where so many lie, on a scale of mean 0 and standard deviation 1.
    fn place(self, blocks: usize) -> f64 {
        match self {
            Self::Each(_) => 0.0,
            Self::Between(least, most) => {
                let place = (count(blocks) / count(least)).ln() / (count(most) / count(least)).ln();
                (place - 0.5) * 12.0_f64.sqrt()
            }
        }
    }
}

/// A host: its number of blocks and its true slope.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub blocks: usize,
    pub slope: f64,
}

impl World {
    pub fn host(&self, rng: &mut Rng) -> Host {
        let blocks = self.blocks.draw(rng);
        let away = match self.truth {
            Truth::Normal => normal(rng),
            Truth::Heavy => loop {
                let away = heavy(rng);
                if away.abs() < FURTHEST {
                    break away;
                }
            },
            // Mean 0 and variance 1.
            Truth::TwoKinds => [-2.0, 0.5, 0.5, 0.5, 0.5][rng.usize(0..5)],
            Truth::WithBlocks => self.blocks.place(blocks),
        };
        Host { blocks, slope: self.mean + self.tau * away }
    }

    /// What a host measures in a day.
    pub fn measured(&self, (host, version): (i64, i64), of: Host, rng: &mut Rng) -> HostSlope {
        let deviation = self.deviation * (self.unlike * normal(rng)).exp();
        let block = || {
            let speedup = 0.2 * f64::from(rng.u8(1..=5));
            let expected = self.noise.factor(deviation, rng);
            let visits = self.noise.factor(deviation, rng) / (1.0 - of.slope * speedup);
            let size = speedup * speedup;
            BlockTerm { over: speedup * (visits - expected), under: size * visits, size }
        };
        let blocks: Vec<BlockTerm> = std::iter::repeat_with(block).take(of.blocks).collect();
        HostSlope::of_blocks(HostId::new(host), VersionId::new(version), &blocks, DAY)
    }

    /// A fleet for a day, all with one version.
    pub fn fleet(&self, rng: &mut Rng) -> Vec<HostSlope> {
        (0..)
            .take(self.hosts)
            .map(|number| {
                let host = self.host(rng);
                self.measured((number, 1), host, rng)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;

    #[test]
    fn slopes_have_the_mean_and_the_deviation_that_they_should() {
        let mut rng = Rng::with_seed(1);
        for truth in [Truth::Normal, Truth::Heavy, Truth::TwoKinds, Truth::WithBlocks] {
            let world = World { truth, blocks: Blocks::Between(5, 500), ..USUAL };
            let slopes: Vec<f64> = (0..20_000).map(|_| world.host(&mut rng).slope).collect();
            let mean = Interval::of_mean(&slopes);
            assert!((mean.estimate - 0.2).abs() < 0.004, "{truth:?}: {mean:?}");
            let deviation = mean.half_width() / 1.96 * 20_000.0_f64.sqrt();
            // What lies further out than five deviations is missing.
            assert!((deviation - 0.1).abs() < 0.02, "{truth:?}: {deviation}");
        }
    }

    #[test]
    fn without_noise_the_slope_is_the_true_one() {
        let mut rng = Rng::with_seed(2);
        let world = World { deviation: 0.0, ..USUAL };
        let host = Host { blocks: 9, slope: 0.37 };
        let measured = world.measured((1, 1), host, &mut rng);
        assert!((measured.slope - 0.37).abs() < 1e-9 && measured.variance < 1e-12, "{measured:?}");
    }
}
