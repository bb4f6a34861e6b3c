//! Hits over time in bounded memory: [`Flow`] counts all of them in columns whose width doubles when they are full, and
//! [`Hits`] keeps single ones, every second one of them when they are too many.

/// Columns of the timeline.
pub const COLUMNS: usize = 240;
/// The largest number of single hits that are kept.
const MOST_HITS: usize = 20_000;

/// Counts of hits by time, for each CPU and task.
#[derive(Debug)]
pub struct Flow {
    /// The time at which the first column begins: the earliest hit, or a little before.
    start: Option<u64>,
    /// Nanoseconds in a column.
    width: u64,
    /// For each CPU and for each task, its columns.
    pub cpus: Vec<Vec<u32>>,
    pub tasks: Vec<Vec<u32>>,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { start: None, width: 1, cpus: Vec::new(), tasks: Vec::new() }
    }
}

impl Flow {
    /// Counts a hit.
    pub fn add(&mut self, time: u64, cpu: usize, task: usize) {
        let start = match self.start {
            Some(start) if time < start => self.begin_earlier(start, start - time),
            start => start.unwrap_or(time),
        };
        self.start = Some(start);
        let time = time.saturating_sub(start);
        while time / self.width >= COLUMNS as u64 {
            self.widen();
        }
        let column = usize::try_from(time / self.width).unwrap_or(0);
        for (rows, row) in [(&mut self.cpus, cpu), (&mut self.tasks, task)] {
            rows.resize_with(rows.len().max(row + 1), || vec![0; COLUMNS]);
            if let Some(count) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
                *count = count.saturating_add(1);
            }
        }
    }

    /// Makes columns cover twice as much time.
    fn widen(&mut self) {
        self.width *= 2;
        for row in self.cpus.iter_mut().chain(&mut self.tasks) {
            halve(row);
        }
    }

    /// Moves all columns to the right, so that the first one is `gap` nanoseconds earlier. Records of several CPUs are not
    /// in the order of time. Returns the new start.
    fn begin_earlier(&mut self, start: u64, gap: u64) -> u64 {
        loop {
            let rows = || self.cpus.iter().chain(&self.tasks);
            let used = rows().filter_map(|row| row.iter().rposition(|count| *count > 0)).max().map_or(0, |last| last + 1);
            let columns = gap.div_ceil(self.width);
            if columns.saturating_add(used as u64) <= COLUMNS as u64 {
                for row in self.cpus.iter_mut().chain(&mut self.tasks) {
                    row.rotate_right(columns as usize);
                }
                return start.saturating_sub(columns.saturating_mul(self.width));
            }
            self.widen();
        }
    }

    /// The time at which the first column begins.
    pub fn start(&self) -> u64 {
        self.start.unwrap_or(0)
    }

    /// The time that all columns cover.
    pub fn span(&self) -> u64 {
        self.width.saturating_mul(COLUMNS as u64)
    }
}

/// Adds up pairs of columns.
fn halve(row: &mut [u32]) {
    for column in 0..row.len() {
        let pair = [2 * column, 2 * column + 1].map(|from| row.get(from).copied().unwrap_or(0));
        if let Some(count) = row.get_mut(column) {
            *count = pair[0].saturating_add(pair[1]);
        }
    }
}

/// A single hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneHit {
    /// Guest time in nanoseconds.
    pub time: u64,
    pub cpu: u16,
    /// The number of the task's row.
    pub task: u16,
    /// The number of the event.
    pub event: u16,
}

/// Single hits, evenly thinned out.
#[derive(Debug)]
pub struct Hits {
    pub kept: Vec<OneHit>,
    /// One of this many hits is kept.
    pub each: u64,
    count: u64,
}

impl Default for Hits {
    fn default() -> Hits {
        Hits { kept: Vec::new(), each: 1, count: 0 }
    }
}

impl Hits {
    /// Keeps the hit, if it is its turn.
    pub fn add(&mut self, time: u64, cpu: usize, task: usize, event: usize) {
        let number = self.count;
        self.count += 1;
        if !number.is_multiple_of(self.each) {
            return;
        }
        if self.kept.len() >= MOST_HITS {
            let mut turn = false;
            self.kept.retain(|_| {
                turn = !turn;
                turn
            });
            self.each *= 2;
            if !number.is_multiple_of(self.each) {
                return;
            }
        }
        let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        self.kept.push(OneHit { time, cpu: short(cpu), task: short(task), event: short(event) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AN-4: no hit is lost from the counts, however long the run, and few are kept one by one.
    #[test]
    fn all_hits_are_counted_and_few_are_kept() {
        let (mut flow, mut hits) = (Flow::default(), Hits::default());
        for number in 0..1_000_000u64 {
            let time = number * 977;
            flow.add(time, (number % 2) as usize, (number % 3) as usize);
            hits.add(time, (number % 2) as usize, (number % 3) as usize, 0);
        }
        let sum = |rows: &[Vec<u32>]| rows.iter().flatten().map(|count| u64::from(*count)).sum::<u64>();
        assert_eq!((sum(&flow.cpus), sum(&flow.tasks), flow.cpus.len(), flow.tasks.len()), (1_000_000, 1_000_000, 2, 3));
        assert!(flow.span() >= 977_000_000 && flow.span() < 4 * 977_000_000);
        assert!((MOST_HITS / 2..=MOST_HITS).contains(&hits.kept.len()), "{}", hits.kept.len());
        assert!(hits.kept.iter().enumerate().all(|(number, hit)| hit.time == number as u64 * hits.each * 977));
    }

    /// AN-4: the columns begin with the earliest hit, and hits that come out of order are in the right column.
    #[test]
    fn columns_begin_with_the_earliest_hit() {
        let times = [5_000_000, 5_000_300, 4_999_990, 5_009_000, 4_000_000, 4_000_001];
        let mut flow = Flow::default();
        times.iter().for_each(|time| flow.add(*time, 0, 0));
        let (start, width) = (flow.start(), flow.span() / COLUMNS as u64);
        assert!(start <= 4_000_000 && 4_000_000 - start < width && flow.span() < 4 * 1_009_000, "{start} {width}");
        let mut expected = vec![0; COLUMNS];
        times.iter().for_each(|time| expected[((time - start) / width) as usize] += 1);
        assert_eq!(flow.cpus, [expected]);
    }

    /// AN-4: the first and the last moment of time are counted too.
    #[test]
    fn the_latest_time_is_counted() {
        let mut flow = Flow::default();
        for time in [u64::MAX, 0, u64::MAX, 1] {
            flow.add(time, 0, 0);
        }
        assert_eq!(flow.cpus.iter().flatten().sum::<u32>(), 4);
    }
}
