//! Runs the compiled stages of one view: each pixel pass but the last writes R, G, B codes to
//! scratch memory, where operations change them, and the next pass reads them.

use framespool_kernels as kernels;
use kernels::{
    Channels, ColorRange, Colorimetry, DeviceFrame, DevicePlane, DeviceSlot, FrameView,
    GenericPlanes, Geometry, MatrixCoefficients, OutputSlot, PassError, PixelPass, Plane,
};

use super::compile::{CompiledStage, Stage};
use super::cuda_executor::CudaExecutor;
use super::pass_id::PassId;
use crate::error::{Error, Result, Site};
use crate::limits::resize;

/// The compiled stages of one view; at least one.
#[derive(Clone, Debug)]
pub(super) struct CompiledView {
    stages: Vec<CompiledStage>,
}

/// Scratch memory of one worker.
#[derive(Default)]
pub(super) struct StageScratch {
    pass: kernels::Scratch,
    operation: kernels::OperationScratch,
    /// The codes that a stage reads, and those that it writes.
    codes: [Vec<u8>; 2],
}

impl StageScratch {
    pub(super) fn bytes(&self) -> usize {
        let codes: usize = self.codes.iter().map(Vec::capacity).sum();
        self.pass.bytes() + self.operation.bytes() + codes
    }
}

impl CompiledView {
    /// Compiles stages; `first` is the geometry of the first one, for the frame that is really
    /// decoded.
    ///
    /// # Errors
    /// If the kernels refuse a geometry or an output.
    pub(super) fn new(stages: Vec<Stage>, first: Geometry) -> Result<Self, PassError> {
        let compile = |(number, stage): (usize, Stage)| {
            let geometry = if number == 0 { first } else { stage.geometry };
            stage.compile(geometry)
        };
        Ok(Self {
            stages: stages
                .into_iter()
                .enumerate()
                .map(compile)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The pass that reads the frame.
    pub(crate) fn first_pass(&self) -> &PixelPass {
        &self.stages[0].pass
    }

    pub(super) fn output_size(&self) -> (u32, u32) {
        self.stages.last().expect("there is one").pass.output_size()
    }

    /// Whether another view computes the same pixels from the same frame.
    pub(super) fn has_same_output(&self, other: &Self) -> bool {
        let same = |(one, other): (&CompiledStage, &CompiledStage)| {
            one.pass.has_same_output(&other.pass) && one.operations == other.operations
        };
        self.stages.len() == other.stages.len() && self.stages.iter().zip(&other.stages).all(same)
    }

    /// Writes one frame into its slot.
    pub(super) fn run(
        &mut self,
        site: &Site,
        frame: &FrameView<'_>,
        slot: &mut OutputSlot<'_>,
        scratch: &mut StageScratch,
    ) -> Result<()> {
        let unsupported = |e: PassError| Error::Unsupported {
            site: site.clone(),
            what: e.to_string(),
        };
        let (last, before) = self.stages.split_last_mut().expect("there is one");
        let StageScratch {
            pass: pass_scratch,
            operation: operation_scratch,
            codes: [source, target],
        } = scratch;
        let mut format = None;
        for CompiledStage { pass, operations } in before {
            let written = CodesFormat::of(pass);
            resize(site, target, written.bytes())?;
            target.truncate(written.bytes());
            let mut codes =
                OutputSlot::chw(target, written.width as usize, written.height as usize);
            match &format {
                None => pass.run(frame, &mut codes, pass_scratch),
                Some(read) => pass.run(&codes_view(read, source), &mut codes, pass_scratch),
            }
            .map_err(unsupported)?;
            for operation in operations {
                let size = (written.width, written.height);
                operation
                    .apply(target, size, operation_scratch)
                    .map_err(unsupported)?;
            }
            format = Some(written);
            std::mem::swap(source, target);
        }
        match &format {
            None => last.pass.run(frame, slot, pass_scratch),
            Some(read) => last.pass.run(&codes_view(read, source), slot, pass_scratch),
        }
        .map_err(unsupported)
    }

    /// Enqueues everything that writes one frame into its slot in device memory.
    pub(super) fn launch(
        &self,
        site: &Site,
        id: PassId,
        frame: &DeviceFrame,
        slot: DeviceSlot,
        cuda: &mut CudaExecutor,
    ) -> Result<()> {
        let (last, before) = self.stages.split_last().expect("there is one");
        let largest = before
            .iter()
            .map(|stage| CodesFormat::of(&stage.pass).bytes())
            .max()
            .unwrap_or(0);
        // Of three buffers, the codes that a stage reads are in one, and its operations alternate
        // between the others.
        let buffers = cuda.code_buffers(largest)?;
        let mut read = None;
        for (number, stage) in before.iter().enumerate() {
            let id = PassId {
                stage: number,
                ..id
            };
            let written = CodesFormat::of(&stage.pass);
            let (frame, occupied) = read.unwrap_or((*frame, 0));
            let [target, other] = free_buffers(buffers, occupied);
            let slot = DeviceSlot {
                address: target,
                channel_stride: written.plane_bytes(),
                row_stride: written.width as usize,
                column_stride: 1,
            };
            let address = cuda.run(site, id, stage, &frame, slot, other)?;
            read = Some((written.device_frame(address), address));
        }
        let id = PassId {
            stage: before.len(),
            ..id
        };
        cuda.run(
            site,
            id,
            last,
            &read.map_or(*frame, |(frame, _)| frame),
            slot,
            0,
        )?;
        Ok(())
    }
}

fn free_buffers(buffers: [u64; 3], occupied: u64) -> [u64; 2] {
    let [a, b, c] = buffers;
    match occupied {
        _ if occupied == a => [b, c],
        _ if occupied == b => [a, c],
        _ => [a, b],
    }
}

/// The codes that a stage writes: planes without gaps.
#[derive(Clone, Copy)]
struct CodesFormat {
    width: u32,
    height: u32,
    channels: Channels,
}

impl CodesFormat {
    fn of(pass: &PixelPass) -> Self {
        let (width, height) = pass.output_size();
        Self {
            width,
            height,
            channels: pass.output_spec().channels,
        }
    }

    fn plane_bytes(&self) -> usize {
        self.width as usize * self.height as usize
    }

    fn bytes(&self) -> usize {
        self.channels.count() * self.plane_bytes()
    }

    fn frame<P>(&self, planes: GenericPlanes<P>) -> kernels::GenericFrame<P> {
        let color = Colorimetry {
            matrix: MatrixCoefficients::Rgb,
            range: ColorRange::Full,
        };
        kernels::GenericFrame {
            width: self.width,
            height: self.height,
            depth_bits: 8,
            shift: 0,
            planes,
            color,
        }
    }

    fn device_frame(&self, address: u64) -> DeviceFrame {
        let plane = |number: usize| DevicePlane {
            address: address + (number * self.plane_bytes()) as u64,
            stride_bytes: self.width as usize,
        };
        self.frame(match self.channels {
            Channels::One => GenericPlanes::Gray(plane(0)),
            Channels::Three => GenericPlanes::PlanarRgb([plane(0), plane(1), plane(2)]),
        })
    }
}

fn codes_view<'a>(format: &CodesFormat, codes: &'a [u8]) -> FrameView<'a> {
    let bytes = format.plane_bytes();
    let plane = |number: usize| Plane {
        data: &codes[number * bytes..][..bytes],
        stride_bytes: format.width as usize,
    };
    format.frame(match format.channels {
        Channels::One => GenericPlanes::Gray(plane(0)),
        Channels::Three => GenericPlanes::PlanarRgb([plane(0), plane(1), plane(2)]),
    })
}
