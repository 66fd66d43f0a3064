//! Decodes ranges of packets on the GPU and delivers exactly the wanted frames as device surfaces.
//! Returns the reason if the CPU must decode a range instead. It never declares a file damaged:
//! what the hardware does not decode cleanly is decoded again on the CPU, which reports what is
//! wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use framespool_nvdec::cuda::{Device, Stream};
use framespool_nvdec::session::{AccessUnit, Codec, Session, Surface};
use framespool_nvdec::switches::Mechanism;

use super::bitstream_filter::{AccessUnitInfo, BitstreamFilter, nvdec_exclusion};
use super::range_state::RangeState;
use super::{DecodeStats, DecodeTimes, Step};
use crate::codecs::h264::FrameNumTracker;
use crate::decode::PacketReader;
use crate::decode::plan::DecodeRange;
use crate::error::{Error, Result};
use crate::ffmpeg::Packet;
use crate::index::VideoIndex;
use crate::media::ColorTags;
use crate::source::check_interrupt;
use crate::units::DecodeIndex;

/// An NVDEC session that is reused across decode ranges and videos.
pub struct HardwareDecoder {
    session: Session,
    /// With the video and the number of its extradata changes for which it was made.
    filter: Option<(Arc<VideoIndex>, usize, BitstreamFilter)>,
    packet: Packet,
    unit: Vec<u8>,
    state: Option<RangeState>,
    /// Follows the frame numbers of the decode range; H.264 only.
    frame_nums: Option<FrameNumTracker>,
    /// Color description from the headers of the decode range, for codecs whose parser does not
    /// report it.
    color: Option<ColorTags>,
    /// Work done so far.
    pub stats: DecodeStats,
    /// Time spent so far.
    pub times: DecodeTimes,
}

/// Matrix coefficients value for RGB planes (ITU-T H.273 table 4).
const RGB: u8 = 0;

/// Errors of the session calls: from the session itself, or from the callback that receives a
/// frame.
enum SessionError {
    Session(framespool_nvdec::Error),
    Callback(Error),
}

impl From<framespool_nvdec::Error> for SessionError {
    fn from(error: framespool_nvdec::Error) -> Self {
        Self::Session(error)
    }
}

impl HardwareDecoder {
    /// # Errors
    /// `Gpu` if no stream can be created on the device.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        Ok(Self {
            session: Session::new(device)?,
            filter: None,
            packet: Packet::new(),
            unit: Vec::new(),
            state: None,
            frame_nums: None,
            color: None,
            stats: DecodeStats::default(),
            times: DecodeTimes::default(),
        })
    }

    /// The CUDA stream on which its surfaces may be read.
    pub fn stream(&self) -> &Arc<Stream> {
        self.session.stream()
    }

    /// Begins a decode range; a range in progress is abandoned.
    ///
    /// # Errors
    /// `Unsupported` for a stream that falls back to the CPU, `Gpu` if the driver fails.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, range: DecodeRange) -> Result<()> {
        self.stop();
        let changes = index.extradata_changes(range.start);
        if self
            .filter
            .as_ref()
            .is_none_or(|(of, at, _)| !Arc::ptr_eq(of, index) || *at != changes)
        {
            let filter =
                BitstreamFilter::new(index, range.start).map_err(|what| Error::Unsupported {
                    site: index.site.clone(),
                    what: format!("on the GPU, {what}"),
                })?;
            self.filter = Some((index.clone(), changes, filter));
        }
        let (.., filter) = self.filter.as_ref().expect("made above");
        // NVIDIA's parser waits for a key frame.
        let first = &index.packets[range.start.as_usize()];
        let has_no_key_frame = filter.codec == Codec::Vp9 && !first.is_closed_sync();
        let no_key_frame =
            || has_no_key_frame.then_some("on the GPU, VP9 that begins without a key frame");
        if let Some(what) = nvdec_exclusion(index).or_else(no_key_frame) {
            return Err(Error::Unsupported {
                site: index.site.clone(),
                what: what.to_owned(),
            });
        }
        self.session
            .begin(filter.codec, &filter.headers)
            .map_err(|error| match error {
                framespool_nvdec::Error::Unsupported { reason: what } => Error::Unsupported {
                    site: index.site.clone(),
                    what,
                },
                other => other.into(),
            })?;
        self.stats.decode_ranges += 1;
        self.color = filter.color;
        let extradata = &index.params_at(range.start).extradata;
        self.frame_nums = (filter.codec == Codec::H264).then(|| FrameNumTracker::new(extradata));
        self.state = Some(RangeState::new(
            index.clone(),
            range,
            !index.changes_parameters,
            false,
        ));
        Ok(())
    }

    /// Whether the pictures of the stream are identified by counting the displayed ones.
    pub fn identifies_by_count(&self) -> bool {
        self.filter
            .as_ref()
            .is_some_and(|(.., filter)| !filter.codec.reorders())
    }

    /// Wanted packets whose frames have not been delivered, of the decode range in progress or of
    /// the one that failed last.
    pub fn missing(&self) -> Vec<DecodeIndex> {
        self.state
            .as_ref()
            .map_or(Vec::new(), |state| state.missing().to_vec())
    }

    /// Processes one packet of the decode range. After [`Step::Done`] the range is over; after an
    /// error, [`missing`](Self::missing) returns the packets not delivered, and
    /// [`stop`](Self::stop) must be called.
    ///
    /// # Errors
    /// Any error from reading or `on_frame`; `Decode` and `Unsupported` for what the hardware
    /// cannot decode, which may only mean that the CPU must decode it.
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        on_frame: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let Some(mut state) = self.state.take() else {
            return Ok(Step::Done);
        };
        let before = self.session.stats();
        let step = check_interrupt().and_then(|()| self.step_inner(&mut state, reader, on_frame));
        let after = self.session.stats();
        self.stats.late_decode_statuses += after.maps_for_status + after.late_statuses
            - before.maps_for_status
            - before.late_statuses;
        if !matches!(step, Ok(Step::Done)) {
            self.state = Some(state);
        }
        step
    }

    fn step_inner(
        &mut self,
        state: &mut RangeState,
        reader: &mut PacketReader,
        on_frame: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let Some(at) = state.next() else {
            return self.finish(state, on_frame);
        };
        let begun = Instant::now();
        state.analyze_references(at, reader)?;
        if let Some(error) = state.missing_data_error(at) {
            return Err(error); // the CPU decoder determines which pictures can still be decoded
        }
        // A marked leading picture of the random access point may refer to pictures before that
        // point, and no trailing picture refers to it: it need not even be parsed.
        let is_leading = state.is_leading(at);
        if is_leading && state.codec().marks_leading_pictures() {
            self.stats.packets_skipped += 1;
            return Ok(Step::More);
        }
        let over = state.can_skip_read(at);
        state
            .read(at, reader, &mut self.packet)
            .map_err(|error| match error {
                Error::Interrupted => error,
                // The CPU decoder may not need this packet, or reports what is wrong with it.
                other => Error::Decode {
                    site: state.index.site_of_packet(at),
                    reason: other.to_string(),
                },
            })?;
        if self.packet.data().is_empty() {
            return Ok(Step::More);
        }
        let can_skip = over || state.can_skip_decode(at, self.packet.data());
        let skip = can_skip && Mechanism::Skipping.is_enabled();
        let wanted = state.wants(at);
        let decode = wanted || !(skip || is_leading);
        let (.., filter) = self
            .filter
            .as_ref()
            .expect("set when the decode pass started");
        let unit_info = filter.filter_packet(self.packet.data(), &mut self.unit);
        self.apply_unit_info(&unit_info, &state.index)?;
        let damaged = |reason: String| Error::Decode {
            site: state.index.site_of_packet(at),
            reason,
        };
        let is_second_field = state.index.packets[at.as_usize()].is_second_field();
        // The hardware replaces missing references and damaged blocks silently.
        let is_single_frame = match &mut self.frame_nums {
            Some(frame_nums) => frame_nums
                .push(self.packet.data(), is_second_field)
                .map_err(damaged)?,
            None => false,
        };
        if decode && unit_info.is_damaged {
            return Err(damaged(
                "a NAL unit contains bytes that no encoder writes: data are overwritten or missing"
                    .to_owned(),
            ));
        }
        let have = Instant::now();
        self.times.reading += have - begun;
        if !is_second_field {
            *if decode {
                &mut self.stats.frames_decoded
            } else {
                &mut self.stats.packets_skipped
            } += 1;
        }
        let unit = AccessUnit {
            data: &self.unit,
            id: at.0,
            timestamp: state.index.packets[at.as_usize()].order,
            wanted,
            decode,
            single_frame: unit_info.is_single_frame || is_single_frame,
            num_displayed: unit_info.num_shown,
        };
        let mut transforming = Duration::ZERO;
        let stats = &mut self.stats;
        let color = self.color;
        let fed = self.session.feed(&unit, &mut |id, surface| {
            deliver_frame(
                state,
                id,
                &with_color(surface, color),
                on_frame,
                stats,
                &mut transforming,
            )
        });
        self.times.transforming += transforming;
        self.times.decoding += have.elapsed().saturating_sub(transforming);
        fed.map_err(|error| to_error(state, at, error))?;
        Ok(Step::More)
    }

    fn finish(
        &mut self,
        state: &mut RangeState,
        on_frame: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let begun = Instant::now();
        let mut transforming = Duration::ZERO;
        let stats = &mut self.stats;
        let color = self.color;
        let finished = self.session.finish(&mut |id, surface| {
            deliver_frame(
                state,
                id,
                &with_color(surface, color),
                on_frame,
                stats,
                &mut transforming,
            )
        });
        self.times.transforming += transforming;
        self.times.decoding += begun.elapsed().saturating_sub(transforming);
        finished.map_err(|error| to_error(state, state.last(), error))?;
        state.finish().map(|()| Step::Done)
    }

    /// Records the properties that an access unit declares.
    ///
    /// # Errors
    /// `Unsupported` for properties that the surfaces of a hardware decoder do not report.
    fn apply_unit_info(&mut self, unit_info: &AccessUnitInfo, index: &VideoIndex) -> Result<()> {
        let refuse = |what: &str| {
            Err(Error::Unsupported {
                site: index.site.clone(),
                what: what.to_owned(),
            })
        };
        if unit_info.is_resized {
            return refuse("on the GPU, frames whose display size differs from their coded size");
        }
        if let Some(what) = unit_info.unreported {
            return refuse(&format!("{what} is not decoded by this GPU"));
        }
        if let Some(what) = unit_info.excluded {
            return refuse(&format!("on the GPU, {what}"));
        }
        let Some(now) = unit_info.color else {
            return Ok(());
        };
        if now.matrix == RGB {
            return refuse("on the GPU, RGB planes");
        }
        if self.color.is_some_and(|before| before != now) {
            return refuse("on the GPU, a color space that changes within the stream");
        }
        self.color = Some(now);
        Ok(())
    }

    /// Abandons the decode range in progress, if any.
    pub fn stop(&mut self) {
        if self.state.take().is_some() {
            self.session.stop();
        }
    }
}

/// The surface with the color description from the headers of the stream, if they were parsed.
fn with_color(surface: &Surface, color: Option<ColorTags>) -> Surface {
    match color {
        None => *surface,
        Some(ColorTags {
            primaries,
            transfer,
            matrix,
            full_range,
        }) => Surface {
            primaries,
            transfer,
            matrix,
            full_range,
            ..*surface
        },
    }
}

fn deliver_frame(
    state: &mut RangeState,
    id: u32,
    surface: &Surface,
    on_frame: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    stats: &mut DecodeStats,
    transforming: &mut Duration,
) -> Result<(), SessionError> {
    let at = DecodeIndex(id);
    if !state.wants(at) {
        return Ok(());
    }
    let begun = Instant::now();
    let taken = on_frame(at, surface);
    *transforming += begun.elapsed();
    taken.map_err(SessionError::Callback)?;
    // Only now: a frame whose transforms failed is still missing, and the CPU decodes it.
    state.mark_delivered(at);
    stats.frames_used += 1;
    Ok(())
}

/// Converts an error of a session call to the error of the decode range. `at`: the packet sent
/// last.
fn to_error(state: &RangeState, at: DecodeIndex, error: SessionError) -> Error {
    use framespool_nvdec::Error as Nvdec;
    let error = match error {
        SessionError::Callback(error) => return error,
        SessionError::Session(error) => error,
    };
    let packet = match error {
        Nvdec::DamagedPicture { id, .. } | Nvdec::MissingPicture { id, .. } => DecodeIndex(id),
        _ => at,
    };
    match error {
        Nvdec::Unsupported { reason } => Error::Unsupported {
            site: state.index.site.clone(),
            what: reason,
        },
        // It is unknown since when pictures have been mistaken for one another: decoding only the
        // missing ones is not enough.
        error @ Nvdec::Mismatch { .. } => Error::Internal {
            site: state.index.site_of_packet(packet),
            reason: error.to_string(),
        },
        error if error.is_about_stream() => Error::Decode {
            site: state.index.site_of_packet(packet),
            reason: error.to_string(),
        },
        error => error.into(),
    }
}
