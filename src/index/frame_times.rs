//! Repairs the container's frame times, which may be missing, equal or contradict the presentation
//! order. Valid times are kept wherever possible; a stream that has a clock keeps it.

/// Maximum reorder depth (H.264 A.3.1, HEVC A.4.2): at most this many of the pictures decoded
/// before a picture are shown after it.
pub(super) const MAX_REORDER_DEPTH: usize = 16;

/// Returns increasing times of frames, given in presentation order. Equal times are moved apart by
/// one tick each. Missing times, and the fewest that contradict the order, are derived from the
/// surrounding frames: from their durations (0: unknown) where these fit, else evenly. Where times
/// restart, as in concatenated recordings, they continue from the preceding frame. `step` is the
/// frame duration if nothing else gives one.
///
/// At least one time must be given. Returns `None` if there are fewer ticks between two times than
/// frames and `crowded` is false; if it is true, the times in between push later ones forward.
pub(super) fn repair_times(
    given: &[Option<i64>],
    durations: &[i64],
    step: i64,
    crowded: bool,
) -> Option<Vec<i64>> {
    let mut kept = continue_restarted(given, durations, step);
    keep_ascending(&mut kept);
    // A single distinct time gives the beginning, but no rate.
    let begin = kept.iter().flatten().next().copied();
    if kept.iter().flatten().all(|&time| Some(time) == begin) {
        let first = kept.iter().position(Option::is_some).unwrap_or(0);
        kept[first + 1..].fill(None);
    }
    let mut times = fill_missing(&kept, durations, step);
    make_strictly_increasing(&mut times);
    let mut last = None;
    let mut stays = kept
        .iter()
        .zip(&times)
        .filter(|(time, _)| time.is_some() && last.replace(**time) != Some(**time));
    (crowded || stays.all(|(kept, time)| *kept == Some(*time))).then_some(times)
}

/// Moves each time that does not exceed its predecessor to the tick after it.
pub(super) fn make_strictly_increasing(times: &mut [i64]) {
    for n in 1..times.len() {
        times[n] = times[n].max(times[n - 1].saturating_add(1));
    }
}

/// Frames that precede a restart which goes back to their beginning. Fewer frames may as well have
/// wrong times.
const MIN_RECORDING_FRAMES: usize = 4;

/// Makes restarted times continue. A single early time is left unchanged; [`keep_ascending`]
/// removes it.
fn continue_restarted(given: &[Option<i64>], durations: &[i64], step: i64) -> Vec<Option<i64>> {
    let mut out: Vec<Option<i64>> = Vec::with_capacity(given.len());
    let mut shift = 0i64;
    // The preceding times, the latest last, and which of them is the first after the last restart.
    let (mut before, mut begin): (Vec<i64>, usize) = (Vec::new(), 0);
    for (n, time) in given.iter().enumerate() {
        let Some(time) = *time else {
            out.push(None);
            continue;
        };
        let mut time = time.saturating_add(shift);
        let recent = &before[before.len().saturating_sub(2 * MAX_REORDER_DEPTH)..];
        if let Some(&last) = recent.last().filter(|&&last| time < last) {
            let early = recent.iter().filter(|&&earlier| earlier > time).count()
                > MAX_REORDER_DEPTH
                || before.len() - begin >= MIN_RECORDING_FRAMES && time <= before[begin];
            let mut next = given[n + 1..]
                .iter()
                .flatten()
                .take(2)
                .map(|&t| t.saturating_add(shift));
            let stays = [next.next(), next.next()]
                .iter()
                .all(|next| next.is_some_and(|next| next < last));
            if early && stays {
                let length = durations
                    .get(n)
                    .copied()
                    .filter(|&d| d > 0)
                    .unwrap_or(step.max(1));
                let resumed = last.saturating_add(length);
                shift = shift.saturating_add(resumed.saturating_sub(time));
                time = resumed;
                begin = before.len();
            }
        }
        before.push(time);
        out.push(Some(time));
    }
    out
}

/// Keeps the longest increasing subsequence of times, and times equal to the neighboring ones in
/// it.
fn keep_ascending(times: &mut [Option<i64>]) {
    let places: Vec<usize> = (0..times.len()).filter(|&n| times[n].is_some()).collect();
    if places.windows(2).all(|w| times[w[0]] <= times[w[1]]) {
        return;
    }
    // For each length, the end of the subsequence with the smallest last time; and the predecessor
    // of each index.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; times.len()];
    for &n in &places {
        let length = ends.partition_point(|&end| times[end] < times[n]);
        before[n] = length.checked_sub(1).map(|i| ends[i]);
        match ends.get_mut(length) {
            Some(end) => *end = n,
            None => ends.push(n),
        }
    }
    let mut selected = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(n) = at {
        selected.push(n);
        at = before[n];
    }
    selected.reverse();
    prefer_even(times, &places, &mut selected);
    let (mut next, mut last) = (0, None);
    for &n in &places {
        if selected.get(next) == Some(&n) {
            next += 1;
        } else if times[n] < last || selected.get(next).is_none_or(|&to| times[to] < times[n]) {
            times[n] = None;
            continue;
        }
        last = times[n];
    }
}

/// Of several increasing subsequences of the same length that differ in one time, selects the one
/// whose time is most even with its neighbors.
fn prefer_even(times: &[Option<i64>], places: &[usize], selected: &mut [usize]) {
    let time = |n: usize| i128::from(times[n].unwrap_or(0));
    let (Some(&first), Some(&last)) = (selected.first(), selected.last()) else {
        return;
    };
    if selected.len() < 3 {
        return;
    }
    // Twice the pace times the number of frames, to compare without rounding.
    let (span, frames) = (time(last) - time(first), (last - first) as i128);
    for at in 0..selected.len() {
        let (before, after) = (
            at.checked_sub(1).map(|at| selected[at]),
            selected.get(at + 1).copied(),
        );
        let unevenness = |n: usize| -> i128 {
            let off = |from: usize, to: usize| {
                ((time(to) - time(from)) * frames - span * (to - from) as i128).abs()
            };
            before.map_or(0, |before| off(before, n)) + after.map_or(0, |after| off(n, after))
        };
        let fits = |n: &&usize| {
            before.is_none_or(|before| before < **n && time(before) < time(**n))
                && after.is_none_or(|after| **n < after && time(**n) < time(after))
        };
        let start = before.map_or(0, |before| places.partition_point(|&n| n <= before));
        let end = after.map_or(places.len(), |after| places.partition_point(|&n| n < after));
        let best = places[start..end]
            .iter()
            .filter(fits)
            .min_by_key(|&&n| (unevenness(n), n != selected[at]));
        if let Some(&best) = best {
            selected[at] = best;
        }
    }
}

/// Fills in missing times from the surrounding ones, which do not decrease.
fn fill_missing(kept: &[Option<i64>], durations: &[i64], step: i64) -> Vec<i64> {
    let given: Vec<(usize, i64)> = kept
        .iter()
        .enumerate()
        .filter_map(|(n, t)| Some((n, (*t)?)))
        .collect();
    let (Some(&(first, begin)), Some(&(last, end))) = (given.first(), given.last()) else {
        return (0..kept.len() as i64)
            .map(|n| n.saturating_mul(step.max(1)))
            .collect();
    };
    let pace = if last > first {
        end.saturating_sub(begin) / (last - first) as i64
    } else {
        step
    };
    let length = |n: usize| {
        durations
            .get(n)
            .copied()
            .filter(|&d| d > 0)
            .unwrap_or(pace.max(1))
    };
    let mut times: Vec<i64> = kept.iter().map(|time| time.unwrap_or(0)).collect();
    for n in (0..first).rev() {
        times[n] = times[n + 1].saturating_sub(length(n));
    }
    for pair in given.windows(2) {
        let [(from, begin), (to, end)] = *pair else {
            continue;
        };
        for n in from + 1..to {
            times[n] = times[n - 1].saturating_add(length(n - 1));
        }
        if to > from + 1 && times[to - 1] >= end {
            let (gap, frames) = (i128::from(end) - i128::from(begin), (to - from) as i128);
            for (place, time) in times[from + 1..to].iter_mut().enumerate() {
                // The result is between two 64-bit numbers.
                *time = (i128::from(begin) + gap * (place as i128 + 1) / frames) as i64;
            }
        }
    }
    for n in last + 1..times.len() {
        times[n] = times[n - 1].saturating_add(length(n - 1));
    }
    times
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_durations(given: &[Option<i64>], duration: i64) -> Vec<i64> {
        repair_times(given, &vec![duration; given.len()], 40, true).unwrap()
    }

    fn all(times: &[i64]) -> Vec<Option<i64>> {
        times.iter().copied().map(Some).collect()
    }

    #[test]
    fn equal_times_move_by_a_tick_and_others_stay() {
        assert_eq!(
            with_durations(&all(&[0, 40, 40, 80, 120]), 40),
            [0, 40, 41, 80, 120]
        );
        assert_eq!(
            with_durations(&all(&[0, 40, 40, 40, 41, 80]), 0),
            [0, 40, 41, 42, 43, 80]
        );
        let crowded = |times: &[i64]| repair_times(&all(times), &[0; 6], 40, false).is_none();
        assert!(
            crowded(&[0, 40, 40, 40, 41, 80]) && crowded(&[0, 1, 1, 2]),
            "others would move"
        );
        assert!(
            !crowded(&[0, 40, 40, 40, 43, 80]) && !crowded(&[0, 1, 1, 3]) && !crowded(&[0, 1, 1])
        );
    }

    #[test]
    fn missing_time_is_interpolated() {
        assert_eq!(
            with_durations(&[None, Some(40), None, None, Some(160), None], 40),
            [0, 40, 80, 120, 160, 200]
        );
        assert_eq!(
            with_durations(&[Some(0), None, None, Some(60)], 40),
            [0, 20, 40, 60],
            "durations are too long"
        );
        assert_eq!(
            with_durations(&[Some(0), None, Some(90)], 40),
            [0, 40, 90],
            "a gap"
        );
        assert_eq!(
            with_durations(&[Some(0), Some(30), None], 0),
            [0, 30, 60],
            "the stream's own pace"
        );
        assert_eq!(
            with_durations(&[None, Some(7), None], 0),
            [-33, 7, 47],
            "nothing but a stated rate"
        );
    }

    #[test]
    fn contradictory_time_is_replaced() {
        assert_eq!(
            with_durations(&all(&[0, 40, 0, 120, 160]), 40),
            [0, 40, 80, 120, 160]
        );
        assert_eq!(
            with_durations(&all(&[0, 40, 9999, 120, 160]), 40),
            [0, 40, 80, 120, 160]
        );
        assert_eq!(
            with_durations(&all(&[0, 40, 40, 0, 120]), 40),
            [0, 40, 41, 80, 120]
        );
        let mut long: Vec<Option<i64>> = (0..100).map(|n| Some(n * 40)).collect();
        long[60] = Some(0);
        assert_eq!(
            with_durations(&long, 40),
            (0..100).map(|n| n * 40).collect::<Vec<_>>(),
            "no new start"
        );
    }

    #[test]
    fn of_two_contradictory_times_the_uneven_one_is_replaced() {
        let even: Vec<i64> = (2..12).map(|n| n * 40).collect();
        for wrong in [41, 1, 79] {
            let mut given = even.clone();
            given[1] = wrong;
            assert_eq!(
                with_durations(&all(&given), 40),
                even,
                "the second is {wrong}"
            );
        }
        let mut given = even.clone();
        given[9] = 399; // before the last but one
        assert_eq!(with_durations(&all(&given), 40), even);
    }

    #[test]
    fn restarting_times_are_continued() {
        let twice: Vec<Option<i64>> = (0..60).map(|n| Some(n % 30 * 40)).collect();
        assert_eq!(
            with_durations(&twice, 40),
            (0..60).map(|n| n * 40).collect::<Vec<_>>()
        );
        let short: Vec<i64> = (0..5).chain(0..5).map(|n| n * 40).collect();
        assert_eq!(
            with_durations(&all(&short), 40),
            (0..10).map(|n| n * 40).collect::<Vec<_>>(),
            "short parts"
        );
        assert_eq!(
            with_durations(&all(&short[2..]), 40)[..4],
            [-120, -80, -40, 0],
            "three frames are not a part"
        );
    }

    #[test]
    fn constant_time_is_ignored() {
        assert_eq!(with_durations(&[Some(5); 4], 0), [5, 45, 85, 125]);
        assert_eq!(with_durations(&[Some(5)], 0), [5]);
    }

    proptest! {
        #[test]
        fn increasing_times_are_unchanged(
            given in prop::collection::vec(prop::option::weighted(0.8, -50i64..50), 1..60),
            durations in prop::collection::vec(-1i64..4, 60),
        ) {
            let mut given = given;
            given[0].get_or_insert(0);
            let durations = &durations[..given.len()];
            let times = repair_times(&given, durations, 1, true).unwrap();
            prop_assert_eq!(times.len(), given.len());
            prop_assert!(times.windows(2).all(|w| w[0] < w[1]), "{:?}", times);
            let mut sorted: Vec<i64> = given.iter().flatten().copied().collect();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(repair_times(&all(&sorted), durations, 1, false), Some(sorted));
        }

        #[test]
        fn extreme_times_do_not_overflow(
            given in prop::collection::vec(prop::option::of(any::<i64>()), 1..40),
            durations in prop::collection::vec(any::<i64>(), 40),
            step in any::<i64>(),
        ) {
            let mut given = given;
            given[0].get_or_insert(i64::MAX);
            let times = repair_times(&given, &durations[..given.len()], step, true).unwrap();
            prop_assert!(times.is_sorted(), "{:?}", times);
        }
    }
}
