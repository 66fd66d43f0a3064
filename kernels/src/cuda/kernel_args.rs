//! Serializes kernel arguments and table records with the layout of `cuda/args.h`.
//! There is no padding: every byte belongs to a field.

/// A number in the device's representation; its byte order is the host's.
pub(crate) trait ToBytes {
    /// Size in bytes.
    const BYTES: usize;
    /// Appends its bytes.
    fn append_to(&self, to: &mut Vec<u8>);
}

macro_rules! impl_to_bytes {
    ($($number:ty),*) => {
        $(impl ToBytes for $number {
            const BYTES: usize = size_of::<Self>();
            fn append_to(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_ne_bytes());
            }
        })*
    };
}

impl_to_bytes!(i16, u32, i32, u64, i64, f32);

impl<T: ToBytes, const N: usize> ToBytes for [T; N] {
    const BYTES: usize = N * T::BYTES;
    fn append_to(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|one| one.append_to(to));
    }
}

/// Declares a struct of `cuda/args.h`: the same fields in the same order, and the offsets of both.
macro_rules! kernel_structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            pub(crate) struct $name { $(pub $field: $type,)* }

            impl ToBytes for $name {
                const BYTES: usize = size_of::<Self>();
                fn append_to(&self, to: &mut Vec<u8>) {
                    $(self.$field.append_to(to);)*
                }
            }

            const _: () = assert!($(<$type as ToBytes>::BYTES +)* 0 == size_of::<$name>(), "padding");
        )*

        /// The lines of `cuda/layout.h` that state the field offsets.
        #[cfg(test)]
        fn layout_lines() -> Vec<String> {
            let mut lines = Vec::new();
            $(
                lines.push(format!("SIZE_IS({}, {});", stringify!($name), size_of::<$name>()));
                $(
                    let at = std::mem::offset_of!($name, $field);
                    lines.push(format!("FIELD_IS_AT({}, {}, {});", stringify!($name), stringify!($field), at));
                )*
            )*
            lines
        }
    };
}

kernel_structs! {
    /// The samples of one position.
    TapRange { start: u32, count: u32, }

    /// The weights of an axis.
    AxisArgs { tap_ranges: u64, weights: u64, taps: u32, positions: u32, }

    PlaneArgs {
        address: u64,
        stride_bytes: u64,
        first: u32,
        components: u32,
        offsets: [u32; 3],
        step: u32,
        row_samples: u32,
        is_chroma: u32,
        chunk: u32,
        pitch: u32,
        aligned: u32,
        overshoots: u32,
    }

    MaskArgs {
        limit: u64,
        key: u64,
        region: u32,
        fill: u32,
        rect: [u32; 4],
        step_x: [u32; 2],
        step_y: [u32; 2],
        start: [u32; 2],
        elements: [u32; 3],
        unused: u32,
    }

    /// Tone mapping: the coefficients for its codes, and the addresses of its tables.
    ToneArgs {
        light: u64,
        gain: u64,
        code: u64,
        factors: [[i32; 3]; 3],
        zero: [i32; 3],
        shift: u32,
        weights: [u32; 3],
        gamut: [[i32; 3]; 3],
        unused: u32,
    }

    /// The argument of the pixel kernels.
    PixelArgs {
        planes: [PlaneArgs; 3],
        columns: [AxisArgs; 2],
        rows: [AxisArgs; 2],
        sums: u64,
        components: u64,
        slot: u64,
        elements: u64,
        masks: u64,
        tone: ToneArgs,
        origin: i64,
        step_i: i64,
        step_j: i64,
        channel_stride: i64,
        to_x: [i64; 3],
        to_y: [i64; 3],
        bias_constant: [i64; 3],
        fill_constant: [i64; 3],
        bias_mean_factors: [[i64; 3]; 3],
        fill_mean_factors: [[i64; 3]; 3],
        factors: [[i32; 3]; 3],
        zero: [i32; 3],
        bias: [i32; 3],
        fill: [i32; 3],
        color_shift: u32,
        plane_count: u32,
        component_count: u32,
        depth_bits: u32,
        word_shift: u32,
        single_tap: u32,
        needs_mean: u32,
        placement: u32,
        window: [u32; 2],
        canvas: [u32; 2],
        corner: [u32; 2],
        display_x: [i32; 3],
        display_y: [i32; 3],
        output_width: u32,
        channels: u32,
        dtype: u32,
        order: u32,
        mask_count: u32,
        row_buffer_bytes: u32,
        scale_u16: [f32; 3],
        bias_u16: [f32; 3],
        use_u16: u32,
        has_tone_map: u32,
    }

    /// The argument of the kernel that changes codes.
    OperationArgs {
        source: u64,
        out: u64,
        table: u64,
        histogram: u64,
        operation: u32,
        width: u32,
        height: u32,
        taps: u32,
        amount: i32,
        channel_step: u32,
    }

    /// The argument of the kernel that deinterlaces a plane.
    DeinterlaceArgs {
        source: u64,
        source_stride: u64,
        out: u64,
        out_stride: u64,
        row_bytes: u32,
        rows: u32,
        first_kept: u32,
        method: u32,
        depth_bits: u32,
        word_shift: u32,
        aligned: u32,
        unused: u32,
    }

    /// The argument of the kernel that expands codes.
    ExpandArgs {
        codes: u64,
        out: u64,
        elements: u64,
        plane: u64,
        planes: u32,
        plane_step: u32,
        channels: u32,
        first_channel: u32,
        interleaved: u32,
        dtype: u32,
        aligned: u32,
        unused: u32,
    }
}

impl ToBytes for &[TapRange] {
    const BYTES: usize = 0;
    fn append_to(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|span| span.append_to(to));
    }
}

/// The bytes of a record.
pub(crate) fn to_bytes(record: &impl ToBytes) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.append_to(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_offsets_match_the_kernels_header() {
        let text = include_str!("../../cuda/layout.h");
        let held: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("SIZE_IS") || line.starts_with("FIELD_IS_AT"))
            .collect();
        assert_eq!(
            held,
            layout_lines(),
            "expected content of cuda/layout.h:\n{}",
            layout_lines().join("\n")
        );
    }

    #[test]
    fn records_have_their_declared_size() {
        assert_eq!(
            to_bytes(&PixelArgs::default()).len(),
            size_of::<PixelArgs>()
        );
        assert_eq!(
            to_bytes(&ExpandArgs::default()).len(),
            size_of::<ExpandArgs>()
        );
        let span = TapRange { start: 1, count: 2 };
        assert_eq!(
            to_bytes(&span),
            [1u32.to_ne_bytes(), 2u32.to_ne_bytes()].concat()
        );
    }
}
