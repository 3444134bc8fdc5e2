//! A curve in one line of text: the gain over the speedup.

use profile::Dot;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Below zero: it hangs from the line above.
const NEGATIVE: char = '▔';

/// The gains of `dots` in `width` columns, the first for the smallest speedups and the last for 100 %,
/// as a share of `top`. A column without any gain is a space.
pub(super) fn draw(dots: &[Dot], width: usize, top: f64) -> String {
    let column = |speedup: f64| ((speedup * width as f64).ceil() as usize).clamp(1, width) - 1;
    let mut sums = vec![(0.0, 0.0); width];
    for dot in dots.iter().filter(|dot| !dot.speedup.is_zero()) {
        if let Some(gain) = dot.gain {
            let (sum, weight) = &mut sums[column(dot.speedup.fraction())];
            *sum += gain.value * dot.windows as f64;
            *weight += dot.windows as f64;
        }
    }
    sums.into_iter()
        .map(|(sum, weight)| match sum / weight / top * LEVELS.len() as f64 {
            _ if weight == 0.0 => ' ',
            eighths if eighths < -0.5 => NEGATIVE,
            eighths => LEVELS[(eighths.round().max(1.0) as usize).min(LEVELS.len()) - 1],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Estimate, Speedup};

    fn dot(percent: u16, value: f64) -> Dot {
        let gain = Some(Estimate { value, se: 0.0, lo: value, hi: value });
        Dot { speedup: Speedup::from_percent(percent).unwrap(), raw: Some(value), gain, windows: 1 }
    }

    #[test]
    fn gains_become_blocks() {
        let dots = [dot(0, 9.0), dot(25, 0.125), dot(50, 0.25), dot(55, 0.75), dot(70, 0.25), dot(100, 1.0)];
        assert_eq!(draw(&dots, 4, 1.0), "▁▂▄█");
        assert_eq!(draw(&[dot(25, 0.0), dot(100, -0.3)], 4, 1.0), "▁  ▔");
        assert_eq!(draw(&[], 3, 1.0), "   ");
    }
}
