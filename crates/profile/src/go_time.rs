//! What Go's runtime takes of the CPU time of a program in Go: its garbage collector, and the rest of it (the scheduler, the allocator, maps, channels).

use crate::model::Warning;
use crate::ranking::Profile;
use crate::stacks::CallTree;

/// Shares of the CPU time of all samples with a stack, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoTime {
    /// In the garbage collector: in code that it calls, and in what the program does for it (assists, write barriers).
    pub collector: f64,
    /// In other code of the package `runtime`.
    pub runtime: f64,
}

/// Functions of the garbage collector, by what their names begin with; what they call is its time as well. Those of its phases, the marker, the sweeper and the scavenger begin so in all versions.
const OF_COLLECTOR: [&str; 12] = [
    "runtime.gc",
    "runtime.(*gc",
    "runtime.bgsweep",
    "runtime.sweepone",
    "runtime.(*sweep",
    "runtime.bgscavenge",
    "runtime.(*scavenge",
    "runtime.scanobject",
    "runtime.scanblock",
    "runtime.greyobject",
    "runtime.markroot",
    "runtime.wbBuf",
];
/// The package, and those that are parts of it.
const OF_RUNTIME: [&str; 3] = ["runtime.", "runtime/internal/", "internal/runtime/"];

impl Profile {
    /// None for programs that are not in Go, and where no stacks were recorded.
    pub fn go_time(&self) -> Option<GoTime> {
        self.rows.warned(Warning::GOROUTINES).next()?;
        let tree = CallTree::new(&self.rows);
        if tree.all.weight.get() == 0 {
            return None;
        }
        // Callers come before what they call.
        let mut within: Vec<bool> = Vec::with_capacity(tree.calls.len());
        let (mut collector, mut runtime) = (0, 0);
        for call in &tree.calls {
            let name = &tree.functions[call.function].function.name;
            let begins = |some: &[&str]| some.iter().any(|part| name.starts_with(part));
            let collects = call.parent.is_some_and(|parent| within[parent]) || begins(&OF_COLLECTOR);
            within.push(collects);
            let own = call.own.weight.get();
            if collects {
                collector += own;
            } else if begins(&OF_RUNTIME) {
                runtime += own;
            }
        }
        let share = |part: u64| part as f64 / tree.all.weight.get() as f64;
        Some(GoTime { collector: share(collector), runtime: share(runtime) })
    }
}

impl GoTime {
    /// A sentence.
    pub fn sentence(self) -> String {
        let percent = |share: f64| match share {
            _ if share > 0.0 && share < 0.005 => "<1 %".to_owned(),
            _ => format!("{:.0} %", 100.0 * share),
        };
        format!(
            "Go's garbage collector took {} of the CPU time, the rest of its runtime {}.",
            percent(self.collector),
            percent(self.runtime)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EstimateOptions;
    use crate::model::{Frame, Function, FunctionId, Rows, SessionId, StackId, StackSamples};
    use crate::units::Nanos;

    #[test]
    fn what_the_collector_calls_is_its_time() {
        let (mut rows, options) = (Rows::default(), EstimateOptions::default());
        let session = SessionId::new(1);
        let names = ["runtime.goexit.abi0", "main.main", "runtime.mallocgc", "runtime.gcDrain", "memmove"];
        for (nth, name) in names.iter().enumerate() {
            let function = Function { name: (*name).to_owned(), ..Function::default() };
            rows.functions.insert(FunctionId::new(nth as i64 + 1), function);
        }
        // Each frame's caller, its function, and its own samples.
        for (nth, (parent, function, own)) in
            [(0, 1, 0), (1, 2, 50), (2, 3, 20), (3, 4, 10), (4, 5, 15), (2, 5, 5)].into_iter().enumerate()
        {
            let stack = StackId::new(nth as i64 + 1);
            let function = FunctionId::new(function);
            let parent = (parent > 0).then(|| StackId::new(parent));
            let frame = Frame { parent, function, line: None, inlined: false };
            rows.stacks.insert(stack, frame);
            let weight = Nanos::from_millis(own);
            rows.stack_samples.push(StackSamples { session, stack, count: own, weight });
        }
        let without = Profile::new(rows.clone(), &options);
        assert_eq!(without.go_time(), None, "nothing says that it is in Go");
        let code = Warning::GOROUTINES.to_owned();
        rows.warnings.push((session, Warning { code, message: String::new(), advice: String::new() }));
        let time = Profile::new(rows, &options).go_time().unwrap();
        assert!((time.collector - 0.25).abs() < 1e-9 && (time.runtime - 0.2).abs() < 1e-9, "{time:?}");
        assert_eq!(
            time.sentence(),
            "Go's garbage collector took 25 % of the CPU time, the rest of its runtime 20 %."
        );
    }
}
