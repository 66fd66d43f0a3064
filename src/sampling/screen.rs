//! In: a frame's number or a moment, either of which may lie outside of the video.
//! Out: the frame that is meant, or how far outside it lies.
//! Never: decides what is shown instead.

use super::Footage;

/// Where an entry of a clip falls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spot {
    /// On this frame.
    Real(u32),
    /// Before the first frame or past the last one.
    Outside(Outside),
}

/// A place that has no frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outside {
    /// As a frame's number, counted from the first frame.
    Frame(i64),
    /// In seconds of the video's own time.
    Second(f64),
}

impl Spot {
    /// Frame number `at`.
    pub fn frame(video: &dyn Footage, at: i64) -> Self {
        match u32::try_from(at).ok().filter(|&at| at < video.num_frames()) {
            Some(at) => Spot::Real(at),
            None => Spot::Outside(Outside::Frame(at)),
        }
    }

    /// The frame on screen at `seconds`: frame *i* from its own appearance up to the next one's, the video's slack
    /// forgiven. A frame is on screen when it appears, even where the video ends with that.
    pub fn moment(video: &dyn Footage, seconds: f64) -> Self {
        let frames = video.num_frames();
        let outside = Spot::Outside(Outside::Second(seconds));
        let Some(at) = video.appeared_by(seconds).checked_sub(1) else { return outside };
        let over = seconds > video.begins_at(at) + video.slack_seconds()
            && seconds + video.slack_seconds() >= video.begins_at(frames);
        if at + 1 == frames && over {
            return outside;
        }
        Spot::Real(at)
    }

    /// Whether a frame is meant.
    pub fn is_real(self) -> bool {
        matches!(self, Spot::Real(_))
    }
}

impl Outside {
    /// The frame of the video that is nearest.
    pub fn nearest(self, video: &dyn Footage) -> u32 {
        let before = match self {
            Outside::Frame(at) => at < 0,
            Outside::Second(seconds) => seconds < video.begins_at(0),
        };
        if before {
            0
        } else {
            video.num_frames().saturating_sub(1)
        }
    }

    /// The frame there if the video is played over and over.
    pub fn looped(self, video: &dyn Footage) -> u32 {
        match self {
            // Below the number of frames.
            Outside::Frame(at) => at.rem_euclid(i64::from(video.num_frames().max(1))) as u32,
            Outside::Second(seconds) => {
                let (begin, whole) = (video.begins_at(0), video.duration_seconds());
                let into = (seconds - begin).rem_euclid(whole);
                // What rounding left just before the end is the beginning.
                let into = if into + video.slack_seconds() < whole { into } else { 0.0 };
                video.appeared_by(begin + into).saturating_sub(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::footage::{Steady, Timed};
    use super::*;

    #[test]
    fn a_moment_shows_the_frame_that_appeared_last() {
        let video = Timed::new(vec![1.0, 1.5, 3.0], 4.0).unwrap();
        let at = |t| Spot::moment(&video, t);
        assert_eq!([1.0, 1.49, 1.5, 2.9, 3.0, 3.99].map(at), [0, 0, 1, 1, 2, 2].map(Spot::Real));
        assert_eq!(at(0.5), Spot::Outside(Outside::Second(0.5)));
        assert_eq!(at(4.0), Spot::Outside(Outside::Second(4.0)));
        assert_eq!([0.5, 4.0].map(|t| Outside::Second(t).nearest(&video)), [0, 2]);
        // 3 seconds long: 4.6 is 1.6, 0.5 is 3.5.
        assert_eq!([4.6, 0.5, 7.0, 4.0 - 1e-9].map(|t| Outside::Second(t).looped(&video)), [1, 2, 0, 0]);
    }

    #[test]
    fn a_frame_is_on_screen_when_it_appears_even_if_it_lasts_no_time() {
        let video = Timed::new(vec![2.0], 2.0).unwrap();
        assert_eq!(Spot::moment(&video, 2.0), Spot::Real(0));
        assert_eq!(Spot::moment(&video, 2.1), Spot::Outside(Outside::Second(2.1)));
        assert_eq!(Outside::Second(2.1).looped(&video), 0);
    }

    #[test]
    fn no_number_is_too_odd() {
        for video in [Steady { num_frames: 0, fps: 25.0 }, Steady { num_frames: 3, fps: 25.0 }] {
            for t in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN] {
                assert!(!Spot::moment(&video, t).is_real());
                assert!(Outside::Second(t).looped(&video) < 3 && Outside::Second(t).nearest(&video) < 3);
            }
            for at in [i64::MIN, -1, i64::MAX] {
                assert!(!Spot::frame(&video, at).is_real());
                assert!(Outside::Frame(at).looped(&video) < 3 && Outside::Frame(at).nearest(&video) < 3);
            }
        }
        assert_eq!(Outside::Frame(-1).looped(&Steady { num_frames: 3, fps: 25.0 }), 2);
    }
}
