//! Scale and bias of each channel's colors, as vectors of eight consecutive colors.

/// Scales and biases of eight consecutive colors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneFactors {
    pub scale: [f32; 8],
    pub bias: [f32; 8],
}

/// The factors of colors of one channel, and of the three channels in turn.
#[derive(Clone, Debug)]
pub(crate) struct ColorFactors {
    planar: [LaneFactors; 3],
    /// By the channel of the first of the eight colors.
    interleaved: [LaneFactors; 3],
}

impl LaneFactors {
    fn new(factors: impl Fn(usize) -> (f32, f32)) -> Self {
        Self {
            scale: std::array::from_fn(|lane| factors(lane).0),
            bias: std::array::from_fn(|lane| factors(lane).1),
        }
    }
}

impl ColorFactors {
    /// From the scale and bias of each channel.
    pub(crate) fn new(of_channel: impl Fn(usize) -> (f32, f32)) -> Self {
        Self {
            planar: [0, 1, 2].map(|channel| LaneFactors::new(|_| of_channel(channel))),
            interleaved: [0, 1, 2]
                .map(|first| LaneFactors::new(|lane| of_channel((first + lane) % 3))),
        }
    }

    /// Scale and bias of a channel.
    pub(crate) fn of_channel(&self, channel: usize) -> (f32, f32) {
        let LaneFactors { scale, bias } = &self.planar[channel];
        (scale[0], bias[0])
    }

    /// The factors of 24 consecutive colors, which repeat. The colors are of channel `first`, or of
    /// three `channels` in turn beginning with `first`.
    #[inline(always)]
    pub(crate) fn of_consecutive(&self, first: usize, channels: usize) -> [&LaneFactors; 3] {
        if channels == 1 {
            [&self.planar[first]; 3]
        } else {
            [0, 8, 16].map(|lane| &self.interleaved[(first + lane) % 3])
        }
    }
}
