//! Report flags: output files, shared by `bench` and `simulate`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use overdraft_sim::report::{Report, Run};
use serde_json::Value;

use crate::fault::Fault;
use crate::format::Format;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Report")]
pub(crate) struct ReportOptions {
    /// What is printed when it is over
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    output: Format,
    /// Also writes all figures as JSON, under the names of vLLM's benchmark
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also writes one HTML page with tables and plots; it needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also writes a line for each request, as comma-separated values
    #[arg(long, value_name = "FILE")]
    requests_csv: Option<PathBuf>,
}

impl ReportOptions {
    /// Fails before the work rather than after it.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        for path in [&self.json, &self.html, &self.requests_csv].into_iter().flatten() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if folder.is_some_and(|folder| !folder.is_dir()) {
                let shown = path.display();
                return Err(Fault::input(format!("`{shown}`: its folder does not exist")));
            }
            if path.is_dir() {
                let shown = path.display();
                return Err(Fault::input(format!("`{shown}` is a folder; expected a file")));
            }
        }
        Ok(())
    }

    /// Prints what tells the history of each run from others, where a table is printed; JSON has it already.
    pub(crate) fn tell_digests(&self, report: &Report) -> Result<(), Fault> {
        if self.output == Format::Json {
            return Ok(());
        }
        let line =
            |run: &Run| format!("digest {} seed {}: {}\n", run.label, run.seed, run.digest());
        crate::config::print(&report.runs.iter().map(line).collect::<String>())
    }

    /// Prints and writes.
    pub(crate) fn tell(&self, report: &Report) -> Result<(), Fault> {
        self.write_all(report, &report.json(), "")
    }

    /// The same with more behind it: `text` on the terminal, a member of the JSON. The page has it among its
    /// settings.
    pub(crate) fn tell_with(
        &self,
        report: &Report,
        text: &str,
        name: &str,
        value: Value,
    ) -> Result<(), Fault> {
        let mut json = report.json();
        json[name] = value;
        self.write_all(report, &json, text)
    }

    fn write_all(&self, report: &Report, json: &Value, more: &str) -> Result<(), Fault> {
        let json = format!("{json:#}\n");
        if let Some(path) = &self.json {
            write(path, &json)?;
        }
        if let Some(path) = &self.html {
            write(path, &report.html())?;
        }
        if let Some(path) = &self.requests_csv {
            requests(path, report).map_err(|error| unwritten(path, &error))?;
        }
        match self.output {
            Format::Table => crate::config::print(&(report.text() + more)),
            Format::Json => crate::config::print(&json),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Fault> {
    std::fs::write(path, text).map_err(|error| unwritten(path, &error))
}

fn requests(path: &Path, report: &Report) -> io::Result<()> {
    let mut file = io::BufWriter::new(std::fs::File::create(path)?);
    report.write_requests(&mut file)?;
    file.flush()
}

fn unwritten(path: &Path, error: &io::Error) -> Fault {
    Fault::running(format!("`{}` not written: {error}", path.display()))
}
