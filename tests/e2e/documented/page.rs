//! Shell blocks of a page: the commands that it shows, the lines that they print, the files that it has saved.
//!
//! A `console` block is run unless the line before it is `<!-- not run: REASON -->`. A block of another language is a
//! file where the line before it says "Save this as `NAME`".

/// What a page asks of its reader, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Run(Command),
    Save { name: String, text: String },
    Leave { line: usize, reason: String },
}

/// A command with the lines that the page shows below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// Where it stands, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) prints: Vec<String>,
}

/// A reason of fewer letters says nothing.
const REASON_LETTERS_MIN: usize = 10;

/// Shorter beginnings of a printed line are in too many outputs to prove anything.
const CONSTANT_LETTERS_MIN: usize = 4;

/// Reads a page.
pub(super) fn steps(page: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut before = "";
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if !line.trim().is_empty() {
                before = line;
            }
            continue;
        };
        let block: Vec<(&str, usize)> =
            lines.by_ref().take_while(|(line, _)| !line.trim_start().starts_with("```")).collect();
        match language {
            "console" => match reason(before) {
                None => steps.extend(commands(&block).into_iter().map(Step::Run)),
                Some(reason) if reason.len() >= REASON_LETTERS_MIN => {
                    steps.push(Step::Leave { line: number, reason: reason.to_owned() });
                }
                Some(reason) => return Err(format!("line {number}: `{reason}` is no reason")),
            },
            "sh" | "bash" | "shell" => {
                return Err(format!("line {number}: a block of commands is `console` here"));
            }
            _ => steps.extend(saved_as(before).map(|name| Step::Save {
                name: name.to_owned(),
                text: block.iter().fold(String::new(), |text, (line, _)| text + line + "\n"),
            })),
        }
        before = "";
    }
    Ok(steps)
}

/// Why the block after this line is not run.
fn reason(before: &str) -> Option<&str> {
    let inside = before.trim().strip_prefix("<!-- not run:")?.strip_suffix("-->")?;
    Some(inside.trim())
}

/// The name under which the block after this line is saved.
fn saved_as(before: &str) -> Option<&str> {
    before.split_once("ave this as `")?.1.split('`').next()
}

/// The commands of a block: those after `$ `, with their continuations and here-documents.
fn commands(block: &[(&str, usize)]) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    let mut lines = block.iter();
    while let Some((line, number)) = lines.next() {
        let Some(start) = line.strip_prefix("$ ") else {
            if let Some(last) = found.last_mut() {
                last.prints.push((*line).to_owned());
            }
            continue;
        };
        let mut text = start.to_owned();
        let end = start.split_once("<<").map(|(_, word)| word.trim_matches('\''));
        while text.ends_with('\\') || end.is_some_and(|end| !text.ends_with(&format!("\n{end}"))) {
            let Some((line, _)) = lines.next() else { break };
            text = text + "\n" + line;
        }
        found.push(Command { line: *number, text, prints: Vec::new() });
    }
    found
}

impl Command {
    /// Whether it is a server that keeps its terminal.
    pub(super) fn keeps_terminal(&self) -> bool {
        self.serves() && !self.text.trim_end().ends_with('&')
    }

    /// Whether it starts a server.
    pub(super) fn serves(&self) -> bool {
        ["overdraft serve", "overdraft worker", "cargo xtask up"]
            .iter()
            .any(|start| self.text.starts_with(start))
    }

    /// It without the remark at its end.
    pub(super) fn bare(&self) -> &str {
        self.text.split("  #").next().unwrap_or_default().trim_end()
    }

    /// What of the lines shown must be printed again: of each its beginning, as far as it has no figure and leaves
    /// nothing out.
    pub(super) fn constants(&self) -> impl Iterator<Item = String> {
        self.prints.iter().filter_map(|line| {
            let constant = line.split(|letter: char| letter.is_ascii_digit() || letter == '…');
            let constant = squeezed(constant.take(1).next()?);
            (constant.len() >= CONSTANT_LETTERS_MIN).then_some(constant)
        })
    }
}

/// A text with one blank for many.
pub(super) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_page_is_read_as_its_reader_does() {
    let page = "Save this as `a.yaml`:\n```yaml\nx: 1\n```\n\n```console\n$ cat > b <<END\nhello\nEND\n\
                $ overdraft serve --config a.yaml   # a remark\nMean TTFT (ms)   12.5\nP95 (ms)  1\n```\n\
                <!-- not run: needs a cluster -->\n```console\n$ helm test overdraft\n```\n";
    let steps = steps(page).unwrap();
    let [Step::Save { name, text }, Step::Run(cat), Step::Run(serve), Step::Leave { line, .. }] =
        steps.as_slice()
    else {
        panic!("{steps:?}");
    };
    assert_eq!((name.as_str(), text.as_str()), ("a.yaml", "x: 1\n"));
    assert_eq!((cat.line, cat.text.as_str()), (7, "cat > b <<END\nhello\nEND"));
    assert_eq!(serve.bare(), "overdraft serve --config a.yaml");
    assert!(serve.keeps_terminal() && !cat.keeps_terminal());
    assert_eq!(serve.constants().collect::<Vec<_>>(), ["Mean TTFT (ms)"]);
    assert_eq!(*line, 15);
}

#[test]
fn a_block_is_left_out_for_a_reason_only() {
    let left = |mark: &str| steps(&format!("{mark}\n```console\n$ true\n```\n"));
    assert!(left("<!-- not run: -->").unwrap_err().contains("is no reason"));
    assert!(matches!(left("<!-- a remark -->").unwrap()[..], [Step::Run(_)]));
    assert!(steps("```sh\ntrue\n```\n").is_err());
}
