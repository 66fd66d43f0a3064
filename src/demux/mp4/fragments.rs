//! Appends the samples of one track from `moof` boxes in file order, without reading `mdat`.

use mp4_atom::{Atom, Tfdt, Tfhd, Trex, Trun, TrunSamples};

use super::boxes::{TopLevelBoxes, children, find};
use super::{Movie, Mp4Sample, read_u32_be};
use crate::error::{Result, Site};
use crate::limits::{Limits, reserve};

/// Sample flags of ISO/IEC 14496-12 8.8.3.1.
const NON_SYNC: u32 = 0x0001_0000;
const DEPENDS_ON_OTHERS: u32 = 0x0100_0000;

/// Number of samples that all runs of a fragment claim to have.
pub(super) fn claimed_samples(moof: &[u8]) -> u64 {
    let Some((_, body)) = children(moof).next() else {
        return 0;
    };
    let trafs = children(body).filter(|(kind, _)| kind == b"traf");
    trafs
        .flat_map(|(_, traf)| track_runs(traf))
        .map(|trun| read_u32_be(trun, 4).unwrap_or(0))
        .map(u64::from)
        .sum()
}

fn track_runs(traf: &[u8]) -> impl Iterator<Item = &[u8]> {
    children(traf)
        .filter(|(kind, _)| kind == b"trun")
        .map(|(_, body)| body)
}

/// Appends the samples of all fragments. `false` where the file is left to libavformat.
///
/// If composition offsets are negative, as in CMAF, libavformat adds the largest one of the file to
/// all composition times of fragments, so that none is before its decoding time. (Of samples that
/// are not in fragments, it moves the decoding times. With an index of all fragments in the file, it
/// adds the largest offset so far, which is not done here: frames would be unevenly spaced.)
pub(super) fn append(
    samples: &mut Vec<Mp4Sample>,
    site: &Site,
    limits: &Limits,
    top: &TopLevelBoxes,
    movie: &Movie,
    track_id: u32,
) -> Result<bool> {
    let Some(trex) = movie.trex.iter().find(|t| t.track_id == track_id) else {
        return Ok(false);
    };
    let mut next_dts = samples.last().map_or(0, |s| s.dts + s.duration);
    let listed = samples.len();
    for (at, moof) in &top.moofs {
        // Data offset of a run that has none: the end of the previous run of this fragment.
        let mut implicit = *at;
        let Some((_, body)) = children(moof).next() else {
            return Ok(false);
        };
        for (_, traf) in children(body).filter(|(kind, _)| kind == b"traf") {
            TrackFragment::check(traf, site, limits)?;
            let Some(run) = TrackFragment::parse(traf) else {
                return Ok(false);
            };
            let base = match run.tfhd.base_data_offset {
                Some(base) => base,
                None if run.tfhd.default_base_is_moof => *at,
                None => implicit,
            };
            let mine = run.tfhd.track_id == track_id;
            let total: u64 = run.truns.iter().map(|t| t.samples.len() as u64).sum();
            if mine {
                Limits::check(
                    site,
                    "number of samples",
                    samples.len() as u64 + total,
                    limits.packets,
                )?;
                reserve(site, samples, total as usize)?;
                if run
                    .tfhd
                    .sample_description_index
                    .unwrap_or(trex.default_sample_description_index)
                    != 1
                {
                    return Ok(false);
                }
                if let Some(tfdt) = &run.tfdt {
                    let Ok(dts) = i64::try_from(tfdt.base_media_decode_time) else {
                        return Ok(false);
                    };
                    next_dts = dts;
                }
            }
            // Other tracks are walked too: their runs move the implicit base.
            let default = if mine {
                Some(trex)
            } else {
                movie.trex.iter().find(|t| t.track_id == run.tfhd.track_id)
            };
            let Some(default) = default else {
                return Ok(false);
            };
            match run.append_samples(base, default, &mut next_dts, mine.then_some(&mut *samples)) {
                Some(end) => implicit = end,
                None => return Ok(false),
            }
        }
    }
    let before_decoding = samples.iter().map(|s| s.dts.saturating_sub(s.cts));
    let largest = before_decoding.fold(0, i64::max);
    for s in &mut samples[listed..] {
        s.cts = s.cts.saturating_add(largest);
    }
    Ok(true)
}

struct TrackFragment {
    tfhd: Tfhd,
    tfdt: Option<Tfdt>,
    truns: Vec<Trun>,
}

impl TrackFragment {
    /// Checks that the runs list no more entries than the limit allows; runs whose samples are all
    /// equal list none.
    fn check(traf: &[u8], site: &Site, limits: &Limits) -> Result<()> {
        const ENTRIES: u32 = 0xf00;
        let listed = track_runs(traf)
            .filter(|trun| read_u32_be(trun, 0).is_some_and(|flags| flags & ENTRIES != 0));
        // Entries beyond the end of the box are rejected when they are parsed, and take no memory
        // before.
        let entries = listed
            .map(|trun| u64::from(read_u32_be(trun, 4).unwrap_or(0)).min(trun.len() as u64 / 4));
        Limits::check(site, "number of samples", entries.sum(), limits.packets).map(|_| ())
    }

    fn parse(traf: &[u8]) -> Option<Self> {
        let tfhd = Tfhd::decode_body(&mut find(traf, b"tfhd")?).ok()?;
        let tfdt = match find(traf, b"tfdt") {
            Some(mut body) => Some(Tfdt::decode_body(&mut body).ok()?),
            None => None,
        };
        let mut truns = Vec::new();
        for mut body in track_runs(traf) {
            truns.push(Trun::decode_body(&mut body).ok()?);
        }
        Some(Self { tfhd, tfdt, truns })
    }

    /// Appends the samples of these runs to `out`, if given; returns the offset at which their data
    /// ends.
    fn append_samples(
        &self,
        base: u64,
        default: &Trex,
        next_dts: &mut i64,
        mut out: Option<&mut Vec<Mp4Sample>>,
    ) -> Option<u64> {
        let mut offset = base;
        for trun in &self.truns {
            if let Some(shift) = trun.data_offset {
                offset = base.checked_add_signed(i64::from(shift))?;
            }
            let Some(out) = out.as_deref_mut() else {
                offset = offset.checked_add(self.run_bytes(trun, default)?)?;
                continue;
            };
            for entry in trun.samples.iter() {
                let size = entry
                    .size
                    .or(self.tfhd.default_sample_size)
                    .unwrap_or(default.default_sample_size);
                let pick = |own: Option<u32>, fragment: Option<u32>, track: u32| {
                    own.or(fragment).unwrap_or(track)
                };
                let duration = i64::from(pick(
                    entry.duration,
                    self.tfhd.default_sample_duration,
                    default.default_sample_duration,
                ));
                let flags = pick(
                    entry.flags,
                    self.tfhd.default_sample_flags,
                    default.default_sample_flags,
                );
                out.push(Mp4Sample {
                    offset,
                    size,
                    dts: *next_dts,
                    // Signed in every version, as in `ctts`.
                    cts: next_dts.checked_add(i64::from(entry.cts.unwrap_or(0) as i32))?,
                    duration,
                    key: flags & (NON_SYNC | DEPENDS_ON_OTHERS) == 0,
                });
                *next_dts = next_dts.checked_add(duration)?;
                offset = offset.checked_add(u64::from(size))?;
            }
        }
        Some(offset)
    }

    /// Number of bytes of a run of another track. Samples that are all equal are not iterated: a
    /// run of twenty bytes may claim four billion of them, and no limit applies to other tracks.
    fn run_bytes(&self, trun: &Trun, default: &Trex) -> Option<u64> {
        let default_size = u64::from(
            self.tfhd
                .default_sample_size
                .unwrap_or(default.default_sample_size),
        );
        match &trun.samples {
            TrunSamples::Inherited { count, .. } => Some(u64::from(*count) * default_size),
            TrunSamples::Explicit(entries) => entries.iter().try_fold(0u64, |sum, entry| {
                sum.checked_add(entry.size.map_or(default_size, u64::from))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterating over these samples would take hours.
    #[test]
    fn track_runs_of_other_tracks_are_skipped() {
        let tfhd = Tfhd {
            track_id: 2,
            default_sample_size: Some(3),
            ..Tfhd::default()
        };
        let claims = Trun {
            samples: TrunSamples::Inherited {
                count: u32::MAX,
                first_flags: None,
            },
            ..Trun::default()
        };
        let run = TrackFragment {
            tfhd,
            tfdt: None,
            truns: vec![claims; 1000],
        };
        let end = run.append_samples(10, &Trex::default(), &mut 0, None);
        assert_eq!(end, Some(10 + 1000 * 3 * u64::from(u32::MAX)));
    }

    #[test]
    fn skipped_track_runs_have_the_right_end() {
        let entry = |size| mp4_atom::TrunEntry {
            size,
            ..Default::default()
        };
        let tfhd = Tfhd {
            track_id: 2,
            default_sample_size: Some(7),
            ..Tfhd::default()
        };
        let listed = vec![entry(Some(5)), entry(Some(0)), entry(None)];
        let truns = vec![
            Trun {
                data_offset: Some(100),
                samples: TrunSamples::Explicit(listed),
            },
            Trun {
                data_offset: None,
                samples: TrunSamples::Inherited {
                    count: 4,
                    first_flags: None,
                },
            },
        ];
        let run = TrackFragment {
            tfhd,
            tfdt: None,
            truns,
        };
        let mut own = Vec::new();
        let walked = run.append_samples(1000, &Trex::default(), &mut 0, Some(&mut own));
        assert_eq!(
            run.append_samples(1000, &Trex::default(), &mut 0, None),
            walked
        );
        assert_eq!((walked, own.len()), (Some(1100 + 5 + 7 + 4 * 7), 7));
    }
}
