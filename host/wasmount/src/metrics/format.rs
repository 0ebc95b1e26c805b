//! The formats of `/metrics`, and which one a client gets (RFC 9110, section 12.5.1).

/// A format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format 0.0.4: for clients that do not ask for the other one.
    Plain,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for the values of the `Accept` headers of a request. Without an acceptable one it is the plain format, as in Prometheus' libraries.
    pub(crate) fn negotiated(accept: &str) -> Self {
        let (mut open_metrics, mut plain, mut any) = (0.0, None, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut version, mut quality) = (None, 1.0_f64);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "version" => version = Some(value.trim().trim_matches('"')),
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    _ => {}
                }
            }
            match (media_type.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => {
                    open_metrics = quality.max(open_metrics);
                }
                ("text/plain", None | Some("0.0.4")) => {
                    plain = Some(quality.max(plain.unwrap_or(0.0)));
                }
                ("text/*" | "*/*", _) => any = quality.max(any),
                _ => {}
            }
        }
        match open_metrics > 0.0 && open_metrics >= plain.unwrap_or(any) {
            true => Self::OpenMetrics,
            false => Self::Plain,
        }
    }

    /// The value of `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The text in this format, from OpenMetrics without exemplars and timestamps.
    pub(super) fn of(self, open_metrics: String) -> String {
        match self {
            Self::Plain => plain(&open_metrics),
            Self::OpenMetrics => open_metrics,
        }
    }
}

/// OpenMetrics names the family of a counter without `_total`; the plain format has no families, only the names of samples, and no units.
fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        let metadata = line.strip_prefix("# ").map(|rest| {
            let mut parts = rest.splitn(3, ' ');
            [(); 3].map(|()| parts.next().unwrap_or_default())
        });
        match metadata {
            None => text.extend([line, "\n"]),
            Some(["HELP", _, meaning]) => help = meaning,
            Some(["TYPE", family, kind]) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    other => ("", other),
                };
                text.extend(["# HELP ", family, suffix, " ", help, "\n"]);
                text.extend(["# TYPE ", family, suffix, " ", kind, "\n"]);
            }
            Some(_) => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_the_accept_header() {
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let text_first =
            "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5";
        for (accept, format) in [
            ("", Format::Plain),
            ("*/*", Format::Plain),
            ("image/png", Format::Plain),
            ("text/html, text/*;q=0.8", Format::Plain),
            (text_first, Format::Plain),
            ("application/openmetrics-text;q=0", Format::Plain),
            ("application/openmetrics-text;version=0.0.1", Format::Plain),
            ("application/openmetrics-text;q=x,*/*", Format::Plain),
            (prometheus_3, Format::OpenMetrics),
            (
                "Application/OpenMetrics-Text; Version=\"1.0.0\"",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text, */*;q=0.1",
                Format::OpenMetrics,
            ),
        ] {
            assert_eq!(Format::negotiated(accept), format, "{accept}");
        }
    }

    #[test]
    fn the_plain_format_names_samples_and_not_families() {
        let open_metrics = "# HELP a How often.\n# TYPE a counter\na_total{b=\"# c\"} 1\n\
            # HELP d What.\n# TYPE d info\nd_info{e=\"f\"} 1\n\
            # HELP g_seconds How long.\n# TYPE g_seconds gauge\n# UNIT g_seconds seconds\ng_seconds 2\n# EOF\n";
        let expected = "# HELP a_total How often.\n# TYPE a_total counter\na_total{b=\"# c\"} 1\n\
            # HELP d_info What.\n# TYPE d_info gauge\nd_info{e=\"f\"} 1\n\
            # HELP g_seconds How long.\n# TYPE g_seconds gauge\ng_seconds 2\n";
        assert_eq!(Format::Plain.of(open_metrics.to_owned()), expected);
    }
}
