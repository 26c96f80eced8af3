//! Plots as plain SVG.
//!
//! Invariant: colours come from the page's style by class, so that a plot follows its theme; all
//! text is escaped. Deliberately absent: scripts; a value is read from its `<title>`.

use std::fmt::Write;

use super::escape;

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 28.0;
const TICKS: f64 = 4.0;

/// A stack of bars a column: one value a series.
pub(crate) struct Column {
    pub(crate) label: String,
    pub(crate) values: Vec<f64>,
}

/// A point of a scatter plot.
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Drawn large, and joined to the next one like it.
    pub(crate) is_marked: bool,
    pub(crate) title: String,
}

/// Bars over time, stacked in the order of `series`.
pub(crate) fn bars(series: &[&str], columns: &[Column], unit: &str) -> String {
    let top = nice(columns.iter().map(|c| c.values.iter().sum()).fold(0.0, f64::max));
    let mut svg = frame(top, unit);
    let step = (WIDTH - LEFT - RIGHT) / columns.len().max(1) as f64;
    let width = (step * 0.8).min(28.0);
    for (i, column) in columns.iter().enumerate() {
        let x = LEFT + step * i as f64 + (step - width) / 2.0;
        let mut below = 0.0;
        for ((n, name), value) in series.iter().enumerate().zip(&column.values) {
            if *value <= 0.0 {
                continue;
            }
            let (high, low) = (y_of(below + value, top), y_of(below, top));
            let title = format!("{}: {} {}", column.label, number(*value), name);
            let _ = write!(
                svg,
                "<rect class=\"s{n}\" x=\"{x:.1}\" y=\"{high:.1}\" width=\"{width:.1}\" \
                 height=\"{:.1}\"><title>{}</title></rect>",
                low - high,
                escape(&title)
            );
            below += value;
        }
    }
    let labels: Vec<&str> = columns.iter().map(|column| column.label.as_str()).collect();
    svg + &labels_below(&labels, step) + "</svg>"
}

/// A line a series over the same columns; a missing value is a gap.
pub(crate) fn lines(series: &[(&str, Vec<Option<f64>>)], labels: &[&str], unit: &str) -> String {
    let all = series.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let top = nice(all.fold(0.0, f64::max));
    let mut svg = frame(top, unit);
    let step = (WIDTH - LEFT - RIGHT) / labels.len().max(1) as f64;
    for (n, (name, values)) in series.iter().enumerate() {
        let mut path = String::new();
        let mut dots = String::new();
        for (i, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let (x, y) = (LEFT + step * (i as f64 + 0.5), y_of(*value, top));
            let verb = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{x:.1} {y:.1}");
            let title = format!("{}: {} {unit}, {name}", labels[i], number(*value));
            let _ = write!(
                dots,
                "<circle class=\"s{n}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"><title>{}</title>\
                 </circle>",
                escape(&title)
            );
        }
        let _ = write!(svg, "<path class=\"l{n}\" d=\"{path}\"/>{dots}");
    }
    svg + &labels_below(labels, step) + "</svg>"
}

/// Points over two measures; the marked ones are joined from left to right.
pub(crate) fn scatter(points: &[Point], title: &str) -> String {
    let right = nice(points.iter().map(|p| p.x).fold(0.0, f64::max));
    let top = nice(points.iter().map(|p| p.y).fold(0.0, f64::max));
    let mut svg = frame(top, title);
    let x_of = |x: f64| LEFT + x / right * (WIDTH - LEFT - RIGHT);
    for tick in 0..=TICKS as u32 {
        let value = right / TICKS * f64::from(tick);
        let anchor = if f64::from(tick) == TICKS { "end" } else { "middle" };
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            x_of(value),
            HEIGHT - 10.0,
            number(value)
        );
    }
    let mut marked: Vec<&Point> = points.iter().filter(|point| point.is_marked).collect();
    marked.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut path = String::new();
    for point in marked {
        let verb = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{:.1} {:.1}", x_of(point.x), y_of(point.y, top));
    }
    let _ = write!(svg, "<path class=\"l0\" d=\"{path}\"/>");
    for point in points {
        let (class, radius) = if point.is_marked { ("s0", 4.5) } else { ("s3", 2.5) };
        let _ = write!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}</title>\
             </circle>",
            x_of(point.x),
            y_of(point.y, top),
            escape(&point.title)
        );
    }
    svg + "</svg>"
}

/// Opens the drawing: grid and the scale on the left.
fn frame(top: f64, title: &str) -> String {
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for tick in 0..=TICKS as u32 {
        let value = top / TICKS * f64::from(tick);
        let y = y_of(value, top);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            number(value)
        );
    }
    let _ = write!(svg, "<title>{}</title>", escape(title));
    svg
}

/// First, middle and last label.
fn labels_below(labels: &[&str], step: f64) -> String {
    let last = labels.len().saturating_sub(1);
    let mut places = vec![(0, "start"), (last / 2, "middle"), (last, "end")];
    places.dedup_by_key(|place| place.0);
    let mut svg = String::new();
    for (i, anchor) in places {
        let Some(label) = labels.get(i) else { continue };
        let x = match anchor {
            "start" => LEFT,
            "end" => WIDTH - RIGHT,
            _ => LEFT + step * (i as f64 + 0.5),
        };
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - 10.0,
            escape(label)
        );
    }
    svg
}

fn y_of(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)
}

/// The next of 1, 2, 4, 5, 8 times a power of ten at or above `value`; 1 for nothing.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

/// Short: `12.5k`, `0.25`.
fn number(value: f64) -> String {
    let (value, suffix) = match value {
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = format!("{value:.2}");
    format!("{}{suffix}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        for (value, then) in [(0.0, 1.0), (0.83, 1.0), (1.0, 1.0), (3.1, 4.0), (4_100.0, 5_000.0)] {
            assert!((nice(value) - then).abs() < 1e-9, "{value}");
        }
        for (value, then) in [(0.25, "0.25"), (3.0, "3"), (12_500.0, "12.5k"), (2e6, "2M")] {
            assert_eq!(number(value), then);
        }
    }

    #[test]
    fn bars_stand_on_each_other_and_names_are_escaped() {
        let column = Column { label: "<d>".to_owned(), values: vec![1.0, 0.0, 3.0] };
        let svg = bars(&["a", "b", "c"], &[column], "calls");
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("&lt;d&gt;: 3 c") && !svg.contains("<d>"));
        // A scale to 4 over 202 units: a quarter, then three quarters above it.
        assert!(svg.contains("height=\"50.5\"") && svg.contains("height=\"151.5\""), "{svg}");
    }
}
