//! Line reader: numbered lines of a file, with a bound on their length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer};

use super::error::{Fault, WorkloadError};

/// Bytes of a line at most: a prompt of a million tokens in blocks of 64 is far below.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of a file that is read whole at most.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The lines of a file that are not empty.
#[derive(Debug)]
pub(super) struct Lines {
    file: PathBuf,
    reader: BufReader<File>,
    /// The number of the last line that was read.
    number: u64,
}

impl Lines {
    pub(super) fn open(file: &Path, expected: &'static str) -> Result<Self, WorkloadError> {
        match File::open(file) {
            Ok(opened) => {
                Ok(Self { file: file.to_owned(), reader: BufReader::new(opened), number: 0 })
            }
            Err(error) => Err(WorkloadError::Unreadable { file: file.to_owned(), error, expected }),
        }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Puts file and line to what is wrong with the line that was read last.
    pub(super) fn fault(&self, fault: Fault) -> WorkloadError {
        fault.at(&self.file, self.number)
    }

    /// The next line that is not empty.
    pub(super) fn next_line(&mut self) -> Option<Result<String, WorkloadError>> {
        loop {
            let mut bytes = Vec::new();
            let mut bounded = (&mut self.reader).take(LINE_BYTES_MAX);
            self.number += 1;
            match bounded.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    let file = self.file.clone();
                    let expected = "text";
                    return Some(Err(WorkloadError::Unreadable { file, error, expected }));
                }
            }
            if crate::float_conversion::length(bytes.len()) == LINE_BYTES_MAX
                && !bytes.ends_with(b"\n")
            {
                let head = String::from_utf8_lossy(&bytes[..80]).into_owned();
                let expected = format!("lines of up to {LINE_BYTES_MAX} bytes");
                return Some(Err(self.fault(Fault::new(&head, "does not end", expected))));
            }
            let Ok(text) = String::from_utf8(bytes) else {
                return Some(Err(self.fault(Fault::new("�", "is no text", "UTF-8"))));
            };
            let text = text.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() {
                return Some(Ok(text.to_owned()));
            }
        }
    }
}

/// A whole number in any spelling: tools write 600 as `600.0`.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    let expected = &"a whole number of at most 32 bits";
    let wrong = || D::Error::invalid_value(Unexpected::Float(number), expected);
    is_whole.then(|| crate::float_conversion::whole32(number)).ok_or_else(wrong)
}

/// A whole file.
pub(super) fn read(file: &Path, expected: &'static str) -> Result<String, WorkloadError> {
    let unreadable = |error| WorkloadError::Unreadable { file: file.to_owned(), error, expected };
    let mut text = String::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// The files of a folder whose names end so, by name; a path that is a file is itself.
pub(super) fn files(
    path: &Path,
    ending: &str,
    expected: &'static str,
) -> Result<Vec<PathBuf>, WorkloadError> {
    let unreadable = |error| WorkloadError::Unreadable { file: path.to_owned(), error, expected };
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_name().to_string_lossy().ends_with(ending) {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    if found.is_empty() {
        return Err(WorkloadError::Empty { file: path.to_owned(), expected });
    }
    Ok(found)
}
