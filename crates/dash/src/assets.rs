//! Static assets: the built page, in the binary.
//!
//! `crates/dash/web` has the sources; `cargo xtask dashboard` builds them into `crates/dash/dist`, which
//! is committed so that cargo alone builds the binary.

/// What a browser may load and do: nothing inline, nothing from elsewhere, no frame around it.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors \
    'none'; require-trusted-types-for 'script'";

/// One file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// What it is called below `/dashboard/`; the page itself has no name.
    pub name: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
}

/// Every file of the page.
pub const ASSETS: &[Asset] = &[
    Asset {
        name: "",
        content_type: "text/html; charset=utf-8",
        bytes: include_bytes!("../dist/index.html"),
    },
    Asset {
        name: "dashboard.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../dist/dashboard.js"),
    },
    Asset {
        name: "dashboard.css",
        content_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../dist/dashboard.css"),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        bytes: include_bytes!("../dist/icon.svg"),
    },
    Asset {
        name: "licenses.txt",
        content_type: "text/plain; charset=utf-8",
        bytes: include_bytes!("../dist/licenses.txt"),
    },
];

/// The file of that name.
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> &'static str {
        std::str::from_utf8(asset(name).unwrap().bytes).unwrap()
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_has_nothing_inline() {
        let page = text("");
        assert!(page.contains("dashboard.js") && page.contains("dashboard.css"));
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("//"));
        assert!(!page.contains(" style=") && !page.contains("<style") && !page.contains("onload"));
        for tag in page.split("<script").skip(1) {
            let (attributes, rest) = tag.split_once('>').unwrap();
            assert!(attributes.contains("src=") && rest.starts_with("</script>"), "{tag}");
        }
    }

    #[test]
    fn the_style_sheet_loads_nothing() {
        let sheet = text("dashboard.css");
        assert!(!sheet.contains("@import") && !sheet.contains("url(http"));
    }

    #[test]
    fn the_licence_of_the_chart_library_is_told() {
        assert!(text("licenses.txt").contains("uPlot") && text("licenses.txt").contains("MIT"));
    }
}
