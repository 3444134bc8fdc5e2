//! Interpreters: programs whose work is another program's, which they read. What can be judged of that, and the command for it.

use crate::shell;

/// A program that runs programs of a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The language.
    pub language: &'static str,
    /// What its name begins with, before a version.
    name: &'static str,
    /// The option that gives names to the code which it makes of the program, where there is one.
    names: Option<&'static str>,
    /// A place that it comes to once for each unit of work, and what that is.
    point: Option<(&'static str, &'static str)>,
}

const fn without_names(name: &'static str, language: &'static str) -> Interpreter {
    Interpreter { language, name, names: None, point: None }
}

/// Node's event loop asks for events once in each turn.
const fn node(name: &'static str) -> Interpreter {
    Interpreter {
        language: "JavaScript",
        name,
        names: Some("--perf-basic-prof"),
        point: Some(("fn:uv__io_poll", "one turn of the event loop")),
    }
}

const KNOWN: [Interpreter; 7] = [
    without_names("python", "Python"),
    node("node"),
    node("nodejs"),
    without_names("perl", "Perl"),
    without_names("ruby", "Ruby"),
    without_names("php", "PHP"),
    without_names("lua", "Lua"),
];

impl Interpreter {
    /// The interpreter that the program with this path is: `/usr/bin/python3.11` is Python's.
    pub fn of(program: &str) -> Option<Interpreter> {
        let file = program.rsplit('/').next().unwrap_or(program);
        let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || ".-".contains(c));
        KNOWN.into_iter().find(|known| file.strip_prefix(known.name).is_some_and(is_version))
    }

    /// What can be judged, and what a unit of work is: a sentence without a full stop.
    pub fn judged(self) -> String {
        let Interpreter { language, name, .. } = self;
        match self.names.zip(self.point) {
            Some((names, (place, unit))) => {
                format!(
                    "{name} gives names to {language} functions only with {names}, and {unit} can count as a unit of work (-p {place})"
                )
            }
            None => {
                let but = if language == "Python" { " but with -X perf (Python 3.12 and later)" } else { "" };
                format!(
                    "{name} is an interpreter: whatif can judge its own functions, which are written in C, and no {language} function{but}"
                )
            }
        }
    }

    /// The command that measures something, of the same program. `program`: as it was typed, or as it was started.
    pub fn command(self, program: &[String]) -> String {
        let mut words: Vec<&str> = vec!["whatif", "run"];
        match self.point {
            Some((place, _)) => words.extend(["--duration", "30", "-p", place]),
            None => words.push("--end-to-end"),
        }
        words.push("--");
        let (first, rest) =
            program.split_first().map_or(("", program), |(first, rest)| (first.as_str(), rest));
        words.push(first);
        // Behind a wrapper it is not known where the option belongs.
        let names = self.names.filter(|_| Interpreter::of(first) == Some(self));
        words.extend(names.filter(|names| !rest.iter().any(|word| word == names)));
        words.extend(rest.iter().map(String::as_str));
        shell::command(words)
    }

    /// Whether the code that it makes of the program has names.
    pub fn has_names(self, arguments: &[String]) -> bool {
        let is_option = |names: &str| {
            // It has variants: --perf-basic-prof-only-functions.
            arguments.iter().any(|word| word.replace('_', "-").starts_with(names))
        };
        let is_perf = |pair: &[String]| pair[0] == "-X" && pair[1] == "perf";
        match self.names {
            Some(names) => is_option(names),
            None => self.language == "Python" && (is_option("-Xperf") || arguments.windows(2).any(is_perf)),
        }
    }

    /// What that command is for.
    pub fn purpose(self) -> &'static str {
        match self.point {
            Some(_) => "count turns of the event loop",
            None => "if the program ends by itself, judge it by how long it takes (--end-to-end)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_known_by_their_files() {
        for (program, expected) in [
            ("/usr/bin/python3.11", Some("Python")),
            ("python", Some("Python")),
            ("/usr/bin/node", Some("JavaScript")),
            ("nodejs", Some("JavaScript")),
            ("perl5.36", Some("Perl")),
            ("python-config", None),
            ("luajit", None),
            ("/opt/python3/bin/server", None),
            ("", None),
        ] {
            assert_eq!(Interpreter::of(program).map(|known| known.language), expected, "{program}");
        }
    }

    #[test]
    fn its_command_can_be_typed() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command = |text: &str| Interpreter::of(&words(text)[0]).unwrap().command(&words(text));
        assert_eq!(command("python3 work.py"), "whatif run --end-to-end -- python3 work.py");
        let expected = "whatif run --duration 30 -p fn:uv__io_poll -- node --perf-basic-prof work.js";
        assert_eq!(command("node work.js"), expected);
        assert_eq!(command("node --perf-basic-prof work.js"), expected);
        let (python, node) = (Interpreter::of("python3.12").unwrap(), Interpreter::of("node").unwrap());
        let has_names = |known: Interpreter, text: &str| known.has_names(&words(text));
        assert!(has_names(python, "-X perf work.py") && has_names(python, "-Xperf work.py"));
        assert!(
            has_names(node, "--perf-basic-prof-only-functions x.js")
                && has_names(node, "--perf_basic_prof x.js")
        );
        assert!(!has_names(python, "work.py -X other") && !has_names(node, "x.js"));
        let behind = node.command(&words("taskset -c 1 node work.js"));
        assert_eq!(behind, "whatif run --duration 30 -p fn:uv__io_poll -- taskset -c 1 node work.js");
    }
}
