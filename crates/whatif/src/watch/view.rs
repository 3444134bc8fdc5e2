//! View: what the user looks at, and how keys change it.

use super::key::Action;
use super::listing::Order;
use profile::{RegionId, Target};

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    #[default]
    Table,
    /// The curve of the selected region.
    Curve,
    Warnings,
    Help,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pub shows: Shown,
    pub order: Order,
    /// What names have to contain.
    pub filter: String,
    /// Whether it is being written.
    pub typing: bool,
    /// The region that was chosen; before that the first of the table is selected, whichever that is.
    pub selected: Option<RegionId>,
    /// The point that was chosen.
    pub target: Option<Target>,
    /// The first line of a text that is longer than the screen.
    pub scroll: usize,
}

/// What can be chosen from at the moment.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The rows of the table.
    pub regions: &'a [RegionId],
    pub points: &'a [Target],
    /// How many rows are visible at once.
    pub page: usize,
    /// How far a text can be scrolled.
    pub scroll: usize,
}

impl View {
    /// The row that is selected.
    pub fn row(&self, regions: &[RegionId]) -> usize {
        let chosen = self.selected.and_then(|selected| regions.iter().position(|region| *region == selected));
        chosen.unwrap_or(0)
    }

    /// The point that is shown.
    pub fn point(&self, points: &[Target]) -> Option<Target> {
        self.target.filter(|target| points.contains(target)).or(points.first().copied())
    }

    /// What a key does; [`Action::Quit`] and [`Action::Stop`] are for others.
    pub fn apply(&mut self, action: Action, choice: Choice<'_>) {
        match action {
            Action::Up => self.step(-1, choice),
            Action::Down => self.step(1, choice),
            Action::PageUp => self.step(-(choice.page.max(1) as isize), choice),
            Action::PageDown => self.step(choice.page.max(1) as isize, choice),
            Action::First => self.step(isize::MIN / 2, choice),
            Action::Last => self.step(isize::MAX / 2, choice),
            Action::Open if self.shows == Shown::Table => self.show(Shown::Curve),
            Action::Open => {}
            Action::Back if self.shows != Shown::Table => self.show(Shown::Table),
            Action::Back => {
                self.typing = false;
                self.filter.clear();
            }
            Action::Filter => {
                self.show(Shown::Table);
                self.typing = true;
            }
            Action::Letter(letter) => self.filter.push(letter),
            Action::Erase => drop(self.filter.pop()),
            Action::Done => self.typing = false,
            Action::NextOrder => self.order = self.order.next(),
            Action::NextPoint => {
                let shown = self.point(choice.points);
                let now = choice.points.iter().position(|point| Some(*point) == shown);
                self.target = now.map(|now| choice.points[(now + 1) % choice.points.len()]);
            }
            Action::Warnings => self.toggle(Shown::Warnings),
            Action::Help => self.toggle(Shown::Help),
            Action::Stop | Action::Quit => {}
        }
    }

    fn show(&mut self, what: Shown) {
        self.shows = what;
        self.scroll = 0;
        self.typing = false;
    }

    fn toggle(&mut self, what: Shown) {
        self.show(if self.shows == what { Shown::Table } else { what });
    }

    /// So many rows, or lines, further.
    fn step(&mut self, by: isize, choice: Choice<'_>) {
        match self.shows {
            Shown::Table | Shown::Curve => {
                let last = choice.regions.len().saturating_sub(1);
                let row = self.row(choice.regions).saturating_add_signed(by).min(last);
                self.selected = choice.regions.get(row).copied();
            }
            Shown::Warnings | Shown::Help => {
                self.scroll = self.scroll.saturating_add_signed(by).min(choice.scroll);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::PointId;

    /// The view after these keys, with five regions, three of them on the screen, and two points.
    fn after(actions: &[Action]) -> View {
        let regions: Vec<RegionId> = (1..=5).map(RegionId::new).collect();
        let points = [1, 2].map(|id| Target::Throughput(PointId::new(id)));
        let mut view = View::default();
        for action in actions {
            view.apply(*action, Choice { regions: &regions, points: &points, page: 3, scroll: 4 });
        }
        view
    }

    #[test]
    fn keys_move_the_selection() {
        use Action::{Down, First, Last, Open, PageDown, PageUp, Up};
        for (actions, selected) in [
            (&[Down][..], 2),
            (&[Up], 1),
            (&[Down, Down, Up], 2),
            (&[PageDown], 4),
            (&[PageDown, PageDown], 5),
            (&[Last, Down], 5),
            (&[Last, PageUp], 2),
            (&[Last, First], 1),
            (&[Open, Down], 2), // the next curve
        ] {
            assert_eq!(after(actions).selected, Some(RegionId::new(selected)), "{actions:?}");
        }
        assert_eq!(after(&[]).selected, None);
    }

    #[test]
    fn the_selection_stays_on_its_region() {
        let view = after(&[Action::Down]);
        assert_eq!(view.row(&[3, 1, 2].map(RegionId::new)), 2);
        assert_eq!(view.row(&[RegionId::new(9)]), 0);
        let mut view = View::default();
        view.apply(Action::Down, Choice { regions: &[], points: &[], page: 0, scroll: 0 });
        view.apply(Action::NextPoint, Choice { regions: &[], points: &[], page: 0, scroll: 0 });
        assert_eq!(view, View::default());
    }

    #[test]
    fn keys_change_what_is_shown() {
        use Action::{
            Back, Done, Down, Erase, Filter, Help, Last, Letter, NextOrder, NextPoint, Open, Warnings,
        };
        let shown = |actions: &[Action]| after(actions).shows;
        assert_eq!(shown(&[Open]), Shown::Curve);
        assert_eq!(shown(&[Open, Back]), Shown::Table);
        assert_eq!(shown(&[Open, Help]), Shown::Help);
        assert_eq!(shown(&[Help, Help]), Shown::Table);
        assert_eq!(shown(&[Help, Warnings]), Shown::Warnings);
        assert_eq!(shown(&[Help, Filter]), Shown::Table);
        assert_eq!((after(&[Help, Down]).scroll, after(&[Help, Last]).scroll), (1, 4));
        assert_eq!(after(&[Help, Last, Warnings]).scroll, 0);

        let filter = [Filter, Letter('a'), Letter('b'), Erase];
        let view = after(&filter);
        assert_eq!((view.filter.as_str(), view.typing), ("a", true));
        let view = after(&[&filter[..], &[Done]].concat());
        assert_eq!((view.filter.as_str(), view.typing), ("a", false));
        let view = after(&[&filter[..], &[Done, Open, Back]].concat());
        assert_eq!(view.filter, "a");
        let view = after(&[&filter[..], &[Back]].concat());
        assert_eq!((view.filter.as_str(), view.typing), ("", false));

        assert_eq!(after(&[NextOrder]).order, Order::Share);
        assert_eq!(after(&[NextOrder; 4]).order, Order::Worth);
        let point = |id| Some(Target::Throughput(PointId::new(id)));
        assert_eq!((after(&[NextPoint]).target, after(&[NextPoint; 2]).target), (point(2), point(1)));
    }
}
