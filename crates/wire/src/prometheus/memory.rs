//! GPU memory metrics: the share of memory in use, from DCGM and other exporters.
//!
//! It knows the names of NVIDIA's DCGM exporter, of exporters around `nvidia-smi`, and of the node
//! exporter; the operator names the metrics of any other page. Samples are selected by labels and
//! summed, because a worker may have several devices. Only the share matters, so units need to
//! agree only within a page.
//!
//! **Invariant:** a share is computed from two samples that are both present and consistent, or not
//! at all.

use super::{Labels, PageError, lines};

/// Most samples of one name that are added up: devices of one machine.
const SAMPLES_MAX: usize = 256;

/// The names by which a page tells of memory; two of the three are enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNames {
    /// In use.
    pub used: Option<String>,
    /// Not in use.
    pub free: Option<String>,
    /// All there is.
    pub total: Option<String>,
}

impl MemoryNames {
    /// Whether they say nothing, so that those of known exporters are looked for.
    pub const fn is_empty(&self) -> bool {
        self.used.is_none() && self.free.is_none() && self.total.is_none()
    }
}

/// Used, free and total as known exporters call them, the most telling first.
const KNOWN: [[Option<&str>; 3]; 3] = [
    [Some("DCGM_FI_DEV_FB_USED"), Some("DCGM_FI_DEV_FB_FREE"), None],
    [Some("nvidia_smi_memory_used_bytes"), None, Some("nvidia_smi_memory_total_bytes")],
    [None, Some("node_memory_MemAvailable_bytes"), Some("node_memory_MemTotal_bytes")],
];

/// Why a page does not tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// It cannot be read.
    #[error(transparent)]
    Page(#[from] PageError),
    /// No known names.
    #[error(
        "the page names no memory that is known; expected `DCGM_FI_DEV_FB_USED` and `…_FREE`, \
         `nvidia_smi_memory_used_bytes` and `…_total_bytes`, or \
         `node_memory_MemAvailable_bytes` and `…_MemTotal_bytes`, with the labels that were given; \
         or give the names"
    )]
    Unknown,
    /// A name that was given is not there.
    #[error("the page has no `{name}` with the labels that were given")]
    Missing {
        /// The name.
        name: String,
    },
    /// A sample that cannot be, or two that cannot be together.
    #[error("the page's figures for memory make no sense; expected 0 <= used <= total, 0 < total")]
    Nonsense,
    /// More samples than devices fit into a machine.
    #[error("more than {SAMPLES_MAX} samples fit the labels; expected those of one worker")]
    TooMany,
}

/// The share of memory in use, in thousandths, by a page of metrics.
///
/// Only samples count that carry every one of `labels`. Without `names`, those of known exporters
/// are looked for.
///
/// # Errors
/// Says what is missing or makes no sense.
pub fn memory_permille(
    page: &[u8],
    names: &MemoryNames,
    labels: &[(String, String)],
) -> Result<u16, MemoryError> {
    let given = [&names.used, &names.free, &names.total].map(Option::as_deref);
    if !names.is_empty() {
        let sums = sums(page, given, labels)?;
        let lacking = given.iter().zip(sums).find(|(name, sum)| name.is_some() && sum.is_none());
        if let Some((Some(name), _)) = lacking {
            return Err(MemoryError::Missing { name: (*name).to_owned() });
        }
        return share(sums).ok_or(MemoryError::Nonsense);
    }
    for known in KNOWN {
        let sums = sums(page, known, labels)?;
        if known.iter().zip(sums).all(|(name, sum)| name.is_some() == sum.is_some()) {
            return share(sums).ok_or(MemoryError::Nonsense);
        }
    }
    Err(MemoryError::Unknown)
}

/// Adds up the samples of each name.
fn sums(
    page: &[u8],
    names: [Option<&str>; 3],
    wanted: &[(String, String)],
) -> Result<[Option<f64>; 3], MemoryError> {
    let mut sums = [None; 3];
    let mut samples = 0;
    for line in lines(page)? {
        let line = line?;
        let Some(index) = names.iter().position(|name| *name == Some(line.name())) else {
            continue;
        };
        let sample = line.read()?;
        if !carries(sample.labels, wanted) {
            continue;
        }
        samples += 1;
        if SAMPLES_MAX * names.len() < samples {
            return Err(MemoryError::TooMany);
        }
        *sums[index].get_or_insert(0.0) += sample.value;
    }
    Ok(sums)
}

fn carries(labels: Labels<'_>, wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|(name, value)| labels.value(name).is_some_and(|found| found == *value))
}

/// The share in thousandths, rounded down.
fn share([used, free, total]: [Option<f64>; 3]) -> Option<u16> {
    let total = total.or_else(|| Some(used? + free?))?;
    let used = used.or_else(|| Some(total - free?))?;
    let sane = 0.0 <= used && used <= total && 0.0 < total && total.is_finite();
    // Found by halving, so that no float becomes a whole number by a cast.
    let (mut low, mut high) = (0_u16, 1_000_u16);
    while sane && low < high {
        let middle = low + (high - low).div_ceil(2);
        if f64::from(middle) * total <= used * 1_000.0 { low = middle } else { high = middle - 1 }
    }
    sane.then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(used: &str, free: &str, total: &str) -> MemoryNames {
        let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        MemoryNames { used: name(used), free: name(free), total: name(total) }
    }

    #[track_caller]
    fn check(page: &str, labels: &[(&str, &str)], expected: Result<u16, &str>) {
        let labels: Vec<(String, String)> =
            labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let told = memory_permille(page.as_bytes(), &MemoryNames::default(), &labels);
        match (told, expected) {
            (Ok(told), Ok(expected)) => assert_eq!(told, expected),
            (Err(error), Err(word)) => assert!(error.to_string().contains(word), "{error}"),
            (told, _) => panic!("{told:?}"),
        }
    }

    const DCGM: &str = "# TYPE DCGM_FI_DEV_FB_USED gauge\n\
        DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"a\"} 20000\n\
        DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"a\"} 60000\n\
        DCGM_FI_DEV_FB_FREE{gpu=\"1\",UUID=\"b\"} 72000\n\
        DCGM_FI_DEV_FB_USED{gpu=\"1\",UUID=\"b\"} 8000\n";

    #[test]
    fn known_exporters_are_read_by_their_names() {
        check(DCGM, &[("gpu", "0")], Ok(750));
        check(DCGM, &[("UUID", "b")], Ok(100));
        check(DCGM, &[], Ok(425));
        let smi = "nvidia_smi_memory_used_bytes{uuid=\"x\"} 4.2e+10\n\
                   nvidia_smi_memory_total_bytes{uuid=\"x\"} 8.4e+10\n";
        check(smi, &[], Ok(500));
        let node = "node_memory_MemAvailable_bytes 25\nnode_memory_MemTotal_bytes 100\n";
        check(node, &[], Ok(750));
        check(&format!("{node}{DCGM}"), &[("gpu", "1")], Ok(100));
    }

    #[test]
    fn a_page_that_does_not_tell_is_refused() {
        check(DCGM, &[("gpu", "7")], Err("no memory that is known"));
        check("up 1\n", &[], Err("no memory that is known"));
        check("<html>", &[], Err("HTML"));
        let nonsense = |used: &str, total: &str| {
            let page = format!(
                "nvidia_smi_memory_used_bytes {used}\nnvidia_smi_memory_total_bytes {total}\n"
            );
            check(&page, &[], Err("make no sense"));
        };
        for (used, total) in [("-1", "5"), ("6", "5"), ("NaN", "5"), ("0", "0"), ("1", "+Inf")] {
            nonsense(used, total);
        }
    }

    #[test]
    fn names_that_were_given_are_the_only_ones_looked_for() {
        let page = format!("{DCGM}mem_used 30\nmem_free 10\nmem_all 40\n");
        let told = |names| memory_permille(page.as_bytes(), &names, &[]);
        assert_eq!(told(names("mem_used", "mem_free", "")), Ok(750));
        assert_eq!(told(names("mem_used", "", "mem_all")), Ok(750));
        assert_eq!(told(names("", "mem_free", "mem_all")), Ok(750));
        let missing = told(names("mem_used", "", "mem_total"));
        assert_eq!(missing, Err(MemoryError::Missing { name: "mem_total".to_owned() }));
    }

    #[test]
    fn shares_are_rounded_down_and_exact_at_the_ends() {
        let of = |used, total| share([Some(used), None, Some(total)]);
        assert_eq!([of(0.0, 3.0), of(3.0, 3.0), of(2.0, 3.0)], [Some(0), Some(1_000), Some(666)]);
    }
}
