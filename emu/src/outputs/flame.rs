//! A flame graph of folded stacks as SVG: one rectangle for each frame under the same callers. Its width is the share
//! of the records. The root is at the bottom; a browser shows name, count and share of a rectangle as its tooltip.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The drawing's width, in pixels.
const WIDTH: f64 = 1200.0;
/// The height of a frame, in pixels.
const ROW: usize = 17;
/// The space around the frames, in pixels.
const MARGIN: usize = 10;
/// The height of the title, in pixels.
const TITLE: usize = 24;
/// Narrower rectangles are not drawn, in pixels.
const LEAST_WIDTH: f64 = 0.1;
/// The width of a letter, in pixels.
const LETTER: f64 = 7.0;

/// A frame and the frames that it called.
#[derive(Default)]
struct Node<'a> {
    count: u64,
    calls: BTreeMap<&'a str, Node<'a>>,
}

/// Draws folded stacks and their counts.
pub fn draw(stacks: &BTreeMap<String, u64>) -> String {
    let mut root = Node::default();
    let mut deepest = 1;
    for (stack, count) in stacks {
        root.count += count;
        let mut node = &mut root;
        for (depth, frame) in stack.split(';').enumerate() {
            node = node.calls.entry(frame).or_default();
            node.count += count;
            deepest = deepest.max(depth + 2);
        }
    }
    let height = TITLE + deepest * ROW + 2 * MARGIN;
    let mut svg = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"flame graph\">\n\
         <style>rect {{ stroke: #fff; stroke-width: 0.5 }} rect:hover {{ stroke: #000 }} text {{ font: 11px monospace; pointer-events: none }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#f8f8f8\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\">{total} records; the width of a frame is its share of them</text>\n",
        width = WIDTH as usize + 2 * MARGIN,
        total = root.count,
    );
    let scale = WIDTH / root.count.max(1) as f64;
    let drawing = Drawing { scale, total: root.count, height };
    // Iterative: stacks of a damaged guest may be as deep as the record allows.
    let mut open = vec![("all", &root, 0_u64, 0_usize)];
    while let Some((name, node, start, depth)) = open.pop() {
        if !drawing.frame(&mut svg, name, node.count, start, depth) {
            continue;
        }
        let mut at = start;
        for (name, node) in &node.calls {
            open.push((name, node, at, depth + 1));
            at += node.count;
        }
    }
    svg + "</svg>\n"
}

struct Drawing {
    scale: f64,
    total: u64,
    height: usize,
}

impl Drawing {
    /// Draws one frame. Returns false if it is too narrow to be seen.
    fn frame(&self, svg: &mut String, name: &str, count: u64, start: u64, depth: usize) -> bool {
        let width = count as f64 * self.scale;
        if width < LEAST_WIDTH {
            return false;
        }
        let x = MARGIN as f64 + start as f64 * self.scale;
        let y = self.height - MARGIN - (depth + 1) * ROW;
        let share = count as f64 * 100.0 / self.total.max(1) as f64;
        let shown = escaped(name);
        let _ = writeln!(
            svg,
            "<g><title>{shown} ({count} records, {share:.2}%)</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{ROW}\" \
             fill=\"{}\"/>{}</g>",
            colour(name),
            label(name, width, x, y),
        );
        true
    }
}

/// The frame's name, cut to the rectangle's width.
fn label(name: &str, width: f64, x: f64, y: usize) -> String {
    let fits = ((width - 4.0) / LETTER).max(0.0) as usize;
    let text: String = match name.chars().count() {
        length if length <= fits => name.into(),
        _ if fits < 3 => return String::new(),
        _ => name.chars().take(fits - 2).chain("..".chars()).collect(),
    };
    format!("<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 2.0, y + ROW - 5, escaped(&text))
}

/// A warm colour that depends on the name alone, so that pictures of two runs can be compared.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let (green, blue) = (hash % 150 + 80, hash / 150 % 60);
    format!("#{:02x}{green:02x}{blue:02x}", 220 + hash / 9000 % 36)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widths(svg: &str) -> Vec<(String, f64)> {
        let frames = svg.lines().filter(|line| line.starts_with("<g>"));
        let between = |line: &str, from: &str, to: &str| {
            line.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map_or(String::new(), |(text, _)| text.to_string())
        };
        frames.map(|line| (between(line, "<title>", " ("), between(line, " width=\"", "\"").parse().unwrap_or(0.0))).collect()
    }

    /// DV-4: a frame is as wide as its share, equal callers are merged, and names cannot break the file.
    #[test]
    fn frames_are_as_wide_as_their_share() {
        let stacks: BTreeMap<String, u64> =
            [("sh;a;b", 3), ("sh;a", 1), ("sh;<c>&\"", 4)].map(|(stack, count)| (stack.to_string(), count)).into();
        let svg = draw(&stacks);
        let mut found = widths(&svg);
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [("&lt;c&gt;&amp;&quot;", 600.0), ("a", 600.0), ("all", 1200.0), ("b", 450.0), ("sh", 1200.0)];
        assert_eq!(found, expected.map(|(name, width)| (name.to_string(), width)));
        assert!(svg.starts_with("<?xml") && svg.ends_with("</svg>\n"), "{svg}");
    }

    /// DV-4: no stack at all is a picture too.
    #[test]
    fn an_empty_graph_is_drawn() {
        assert_eq!(widths(&draw(&BTreeMap::new())), []);
        assert!(draw(&BTreeMap::new()).contains("0 records"));
    }
}
