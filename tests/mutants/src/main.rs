//! Tries every change that cargo-mutants lists, in one build of the library.
//!
//! cargo-mutants builds the library once for each change, which takes most of a minute; the tests that can notice it take a second
//! or two. So all changes are built into one copy of the library, in which `TILEWRIGHT_MUTANT` chooses the
//! one that is in force.
//!
//! `mutants LIST COPY`: `LIST` is what `cargo mutants --list --json` says of the working folder, `COPY` a copy of that folder.
//! What no test notices is printed, one a line. `TILEWRIGHT_SHARD=0/40` tries a 40th, `TILEWRIGHT_MUTANT=17,18` those alone;
//! `TILEWRIGHT_TESTS=quick` leaves out the tests that take long.

mod sites;

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use sites::{Change, with_changes};

/// What the library asks which change is in force.
const CHOSEN: &str = r#"
mod mutant {
    pub(crate) fn chosen(id: usize) -> bool {
        static CHOSEN: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
            std::env::var("TILEWRIGHT_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0)
        });
        *CHOSEN == id
    }
}
"#;

/// Processor seconds that a quick test takes at the most.
const QUICK: f32 = 0.3;

fn main() {
    let [_, list, copy] = &env::args().collect::<Vec<_>>()[..] else { panic!("usage: mutants LIST COPY") };
    let changes = read(list);
    let (left_out, program) = build(&changes, copy);
    let tests = Tests::measure(copy, program);
    let (mut tried, mut missed) = (0, Vec::new());
    for change in asked_for(&changes).filter(|change| !left_out.contains(&change.id)) {
        let is_missed = tests.all_pass(change);
        println!("{} {} {}", if is_missed { "missed" } else { "noticed" }, change.id, change.name);
        tried += 1;
        missed.extend(is_missed.then_some(change));
    }
    println!(
        "\n{} changes, {} left out; {tried} tried, {} missed:",
        changes.len(),
        left_out.len(),
        missed.len()
    );
    missed.iter().for_each(|change| println!("{}", change.name));
}

fn read(list: &str) -> Vec<Change> {
    let text = fs::read_to_string(list).expect("a list of changes");
    let all: Vec<Value> = serde_json::from_str(&text).expect("a list of changes");
    let change = |(i, change): (usize, &Value)| {
        let text = |key: &str| change[key].as_str().unwrap_or_default().to_owned();
        let place = |end: &str| {
            let [line, column] = ["line", "column"].map(|key| change["span"][end][key].as_u64().unwrap_or(0));
            (line as usize, column as usize)
        };
        let (name, file, genre) = (text("name"), text("file"), text("genre"));
        Change { id: i + 1, name, file, genre, text: text("replacement"), span: ["start", "end"].map(place) }
    };
    all.iter().enumerate().map(change).collect()
}

/// Those that the environment asks for.
fn asked_for(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let numbers = |name: &str, between: char| -> Option<Vec<usize>> {
        let text = env::var(name).ok()?;
        Some(text.split(between).map(|n| n.parse().expect(name)).collect())
    };
    let shard = numbers("TILEWRIGHT_SHARD", '/').unwrap_or(vec![0, 1]);
    let only = numbers("TILEWRIGHT_MUTANT", ',');
    let asked = move |change: &Change| {
        only.as_ref().map_or(change.id % shard[1] == shard[0], |only| only.contains(&change.id))
    };
    changes.iter().filter(move |change| asked(change))
}

/// Builds the tests of the library with all changes that compile: which do not, and the program.
fn build(changes: &[Change], copy: &str) -> (HashSet<usize>, String) {
    let mut files: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    changes.iter().for_each(|change| files.entry(&change.file).or_default().push(change));
    let library = fs::read_to_string("src/lib.rs").expect("the library");
    fs::write(format!("{copy}/src/lib.rs"), library + CHOSEN).expect("the copy");
    let mut left_out = HashSet::new();
    loop {
        for (file, changes) in &files {
            let changes: Vec<_> =
                changes.iter().copied().filter(|change| !left_out.contains(&change.id)).collect();
            let source = fs::read_to_string(file).expect("a source of the list");
            let (text, placed) = with_changes(&source, &changes);
            fs::write(format!("{copy}/{file}"), text).expect("the copy");
            left_out.extend(changes.iter().map(|change| change.id).filter(|id| !placed.contains(id)));
        }
        let at_fault = at_fault(copy);
        println!(
            "{} changes do not compile, or cannot be chosen beside the others",
            left_out.len() + at_fault.len()
        );
        if at_fault.is_empty() {
            break;
        }
        left_out.extend(at_fault);
    }
    let built = cargo(copy, &["test", "--no-run"]);
    let tests = built.iter().find_map(|message| message["executable"].as_str());
    (left_out, tests.expect("the copy with all changes that compile does not compile").to_owned())
}

/// The changes that do not compile: those on the lines of the errors, or else on the lines that errors point to besides.
fn at_fault(copy: &str) -> HashSet<usize> {
    let mut found = HashSet::new();
    for error in cargo(copy, &["check"]).iter().map(|line| &line["message"]).filter(|m| m["level"] == "error")
    {
        let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (own, notes) = (array(&error["spans"]), array(&error["children"]));
        let all: Vec<_> = notes.iter().flat_map(|note| array(&note["spans"])).chain(own.clone()).collect();
        let primary: Vec<_> = own.into_iter().filter(|span| span["is_primary"] == true).collect();
        let exactly = on_lines(copy, &primary, 1);
        found.extend(if exactly.is_empty() { on_lines(copy, &all, 2) } else { exactly });
    }
    found
}

/// The changes on the first lines of spans.
fn on_lines(copy: &str, spans: &[Value], most: usize) -> Vec<usize> {
    let mut found = Vec::new();
    for span in spans {
        let file = format!("{copy}/{}", span["file_name"].as_str().unwrap_or_default());
        let [first, last] = ["line_start", "line_end"].map(|key| span[key].as_u64().unwrap_or(1) as usize);
        let text = fs::read_to_string(file).unwrap_or_default();
        for line in text.lines().skip(first - 1).take((last - first + 1).min(most)) {
            let ids = line.split("mutant::chosen(").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(ids.filter_map(|id| id.parse::<usize>().ok()));
        }
    }
    found
}

/// What cargo says of the library of the copy.
fn cargo(copy: &str, arguments: &[&str]) -> Vec<Value> {
    let mut cargo = Command::new("cargo");
    // Tests many thousand times over: optimised a little.
    cargo.args(arguments).args(["--config", "profile.dev.package.tilewright.opt-level=1"]);
    cargo.args(["--quiet", "-p", "tilewright", "--lib", "--message-format=json"]);
    let said = cargo.current_dir(copy).stderr(Stdio::null()).output().expect("cargo").stdout;
    String::from_utf8_lossy(&said).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The tests of the library, and how long each takes.
struct Tests<'a> {
    copy: &'a str,
    program: String,
    /// Names, and processor seconds without a change.
    all: Vec<(String, f32)>,
}

impl Tests<'_> {
    fn measure(copy: &str, program: String) -> Tests<'_> {
        let listed = Command::new(&program).arg("--list").output().expect("the tests").stdout;
        let listed = String::from_utf8_lossy(&listed);
        let mut tests = Tests { copy, program, all: Vec::new() };
        for name in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
            let (passed, seconds) = tests.run(0, &[(name.to_owned(), 1000.0)]);
            assert!(passed, "{name} fails without a change");
            tests.all.push((name.to_owned(), seconds));
        }
        tests
    }

    /// Whether all tests pass with a change: first the quick ones of its own module, then all of those, then the others.
    fn all_pass(&self, change: &Change) -> bool {
        let file = change.file.trim_start_matches("src/").trim_end_matches(".rs");
        let module = file.split('/').take(2).collect::<Vec<_>>().join("::");
        let (quick, slow): (Vec<_>, Vec<_>) =
            self.all.iter().cloned().partition(|(_, seconds)| *seconds < QUICK);
        let (own, others) = quick.into_iter().partition(|(name, _)| name.starts_with(&module));
        let only_quick = env::var_os("TILEWRIGHT_TESTS").is_some_and(|tests| tests == "quick");
        let groups: [Vec<_>; 3] = [own, others, if only_quick { Vec::new() } else { slow }];
        groups.iter().all(|group| group.is_empty() || self.run(change.id, group).0)
    }

    /// Whether some tests pass with a change, in several times the processor seconds that they take, and in 4 GiB; and how
    /// many they took.
    fn run(&self, id: usize, tests: &[(String, f32)]) -> (bool, f32) {
        let seconds = 2 + 4 * tests.iter().map(|(_, seconds)| seconds).sum::<f32>() as u32;
        let script = format!(
            "ulimit -t {seconds} -v 4194304
            \"$0\" --test-threads=1 --quiet --exact \"$@\" >/dev/null 2>&1
            passed=$? && times && exit $passed"
        );
        let mut run = Command::new("bash");
        run.args(["-c", &script, &self.program]).args(tests.iter().map(|(name, _)| name));
        run.current_dir(self.copy).env("TILEWRIGHT_MUTANT", id.to_string()).env("PROPTEST_RNG_SEED", "1");
        // What fails need not be made smaller.
        run.env("PROPTEST_MAX_SHRINK_ITERS", "0");
        let output = run.stderr(Stdio::null()).output().expect("bash");
        // The second line of `times` is of what has ended: minutes and seconds.
        let times = String::from_utf8_lossy(&output.stdout);
        let user = times.lines().nth(1).and_then(|line| line.split_whitespace().next()?.split_once('m'));
        let seconds = user.and_then(|(minutes, seconds)| {
            Some(60.0 * minutes.parse::<f32>().ok()? + seconds.trim_end_matches('s').parse::<f32>().ok()?)
        });
        (output.status.success(), seconds.expect("what bash says of times"))
    }
}
