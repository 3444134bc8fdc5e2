//! Listing: which regions are shown, and in which order.

use profile::{PointEstimate, Profile, RegionEstimate, Target, printable};

/// One row: a region, and what it does to the point that is shown.
pub type Row<'a> = (&'a RegionEstimate, &'a PointEstimate);

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// What is worth most, as in the report.
    #[default]
    Worth,
    /// What takes most of the time.
    Share,
    /// What is known from most experiments.
    Experiments,
    Name,
}

impl Order {
    pub fn next(self) -> Order {
        match self {
            Order::Worth => Order::Share,
            Order::Share => Order::Experiments,
            Order::Experiments => Order::Name,
            Order::Name => Order::Worth,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Order::Worth => "worth",
            Order::Share => "share",
            Order::Experiments => "experiments",
            Order::Name => "name",
        }
    }
}

/// The regions whose names contain `filter`, in whatever case.
pub fn listing<'a>(profile: &'a Profile, target: Target, order: Order, filter: &str) -> Vec<Row<'a>> {
    let mut rows = profile.ranked(target);
    let wanted = filter.to_lowercase();
    if !wanted.is_empty() {
        rows.retain(|(region, _)| name(profile, region).to_lowercase().contains(&wanted));
    }
    // Sorting keeps what is worth more before what is worth less.
    match order {
        Order::Worth => {}
        Order::Share => {
            rows.sort_by(|(a, _), (b, _)| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)))
        }
        Order::Experiments => rows.sort_by_key(|(_, estimate)| std::cmp::Reverse(estimate.blocks)),
        Order::Name => rows.sort_by_cached_key(|(region, _)| name(profile, region)),
    }
    rows
}

/// As it is shown.
fn name(profile: &Profile, region: &RegionEstimate) -> String {
    printable(&profile.label(profile.region(region))).into_owned()
}
