//! Paths of tracing files.

/// Places where tracefs and debugfs are mounted.
const MOUNTS: &[&str] = &["/sys/kernel/tracing/", "/sys/kernel/debug/tracing/", "/debug/tracing/", "./"];
/// The folder of the files about kprobes.
const KPROBES: &[&str] = &["/sys/kernel/debug/kprobes/", "../kprobes/", "/debug/kprobes/"];

/// A file. Without a group it is about all events, without an event about all events of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are Linux's files
pub enum Path<'a> {
    KprobeEvents,
    Profile,
    TracingOn,
    Trace,
    Snapshot,
    ErrorLog,
    Readme,
    CurrentTracer,
    ProbesList,
    ProbesEnabled,
    Blacklist,
    Enable { group: Option<&'a str>, event: Option<&'a str> },
    Filter { group: Option<&'a str>, event: Option<&'a str> },
    Trigger { group: &'a str, event: &'a str },
    Hist { group: &'a str, event: &'a str },
    Format { group: &'a str, event: &'a str },
    Id { group: &'a str, event: &'a str },
}

impl<'a> Path<'a> {
    /// The file of an absolute path, or of one that begins in the tracing folder.
    pub fn parse(path: &'a str) -> Option<Path<'a>> {
        if let Some(file) = KPROBES.iter().find_map(|folder| path.strip_prefix(folder)) {
            return match file {
                "list" => Some(Path::ProbesList),
                "enabled" => Some(Path::ProbesEnabled),
                "blacklist" => Some(Path::Blacklist),
                _ => None,
            };
        }
        let path = MOUNTS.iter().find_map(|mount| path.strip_prefix(mount)).unwrap_or(path);
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, event) = match parts[..] {
            ["kprobe_events" | "dynamic_events"] => return Some(Path::KprobeEvents),
            ["kprobe_profile"] => return Some(Path::Profile),
            ["tracing_on"] => return Some(Path::TracingOn),
            ["trace"] => return Some(Path::Trace),
            ["snapshot"] => return Some(Path::Snapshot),
            ["error_log"] => return Some(Path::ErrorLog),
            ["README"] => return Some(Path::Readme),
            ["current_tracer"] => return Some(Path::CurrentTracer),
            ["events", "enable"] => return Some(Path::Enable { group: None, event: None }),
            ["events", group, "enable"] => return Some(Path::Enable { group: Some(group), event: None }),
            ["events", group, "filter"] => return Some(Path::Filter { group: Some(group), event: None }),
            ["events", group, event, _] => (group, event),
            _ => return None,
        };
        match parts.last() {
            Some(&"enable") => Some(Path::Enable { group: Some(group), event: Some(event) }),
            Some(&"filter") => Some(Path::Filter { group: Some(group), event: Some(event) }),
            Some(&"trigger") => Some(Path::Trigger { group, event }),
            Some(&"hist") => Some(Path::Hist { group, event }),
            Some(&"format") => Some(Path::Format { group, event }),
            Some(&"id") => Some(Path::Id { group, event }),
            _ => None,
        }
    }

    /// Whether a path names a file of tracefs or of debugfs' folder kprobes.
    pub fn is_one(path: &str) -> bool {
        Path::parse(path).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: absolute and relative paths name the same files.
    #[test]
    fn paths_name_files() {
        let cases = [
            ("kprobe_events", Some(Path::KprobeEvents)),
            ("/sys/kernel/tracing/kprobe_events", Some(Path::KprobeEvents)),
            ("/sys/kernel/debug/tracing/events//enable", Some(Path::Enable { group: None, event: None })),
            ("events/kprobes/enable", Some(Path::Enable { group: Some("kprobes"), event: None })),
            ("./events/kprobes/open/trigger", Some(Path::Trigger { group: "kprobes", event: "open" })),
            ("events/kprobes/open/hist", Some(Path::Hist { group: "kprobes", event: "open" })),
            ("/sys/kernel/debug/kprobes/list", Some(Path::ProbesList)),
            ("events/kprobes/open", None),
            ("events/kprobes/open/else", None),
            ("/etc/passwd", None),
            ("", None),
        ];
        for (path, expected) in cases {
            assert_eq!(Path::parse(path), expected, "{path}");
        }
    }
}
