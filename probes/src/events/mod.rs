//! `kprobe_events`: probes made out of lines of text, and records printed as text (DV-4, spec/core.md 13).
