//! Boundary of a form, as its content type names it (RFC 2046, section 5.1.1).

use super::FormFault;
use super::parameters::{Malformed, Parameters};

/// Bytes of a boundary at most, by RFC 2046.
pub(super) const BOUNDARY_BYTES_MAX: usize = 70;

/// The media type of forms that carry files.
const FORM: &[u8] = b"multipart/form-data";

/// What the parts of one form are divided by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// With the line end and the dashes before it.
    delimiter: Vec<u8>,
}

impl Boundary {
    /// The boundary that a content type names; nothing where it announces no form.
    ///
    /// ```
    /// use overdraft_wire::form::Boundary;
    ///
    /// assert!(Boundary::of(b"multipart/form-data; boundary=abc").unwrap().is_some());
    /// assert!(Boundary::of(b"application/json").unwrap().is_none());
    /// assert!(Boundary::of(b"multipart/form-data").is_err());
    /// ```
    ///
    /// # Errors
    /// [`FormFault`] where a form has no boundary, or none that can be.
    pub fn of(content_type: &[u8]) -> Result<Option<Self>, FormFault> {
        let (media_type, parameters) = Parameters::of(content_type);
        if !media_type.eq_ignore_ascii_case(FORM) {
            return Ok(None);
        }
        let mut boundary = None;
        for parameter in parameters {
            let parameter = parameter.map_err(|Malformed| FormFault::ContentType)?;
            if parameter.is("boundary") && boundary.replace(parameter.value.to_vec()).is_some() {
                return Err(FormFault::ContentType);
            }
            // Servers decode names and values by it.
            if parameter.is("charset") && !parameter.value.eq_ignore_ascii_case(b"utf-8") {
                return Err(FormFault::Charset);
            }
        }
        let boundary = boundary.ok_or(FormFault::NoBoundary)?;
        if !(1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()) {
            return Err(FormFault::BoundaryLength(boundary.len()));
        }
        if !boundary.iter().all(|byte| may_be_in(*byte)) || boundary.ends_with(b" ") {
            return Err(FormFault::BoundaryText);
        }
        Ok(Some(Self { delimiter: [b"\r\n--".as_slice(), &boundary].concat() }))
    }

    /// What stands before every part but the first, which may do without the line end.
    pub(super) fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }

    /// The same without the line end.
    pub(super) fn dashed(&self) -> &[u8] {
        &self.delimiter[2..]
    }
}

/// Whether a boundary may have this byte.
const fn may_be_in(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'\''
                | b'('
                | b')'
                | b'+'
                | b'_'
                | b','
                | b'-'
                | b'.'
                | b'/'
                | b':'
                | b'='
                | b'?'
                | b' '
        )
}
