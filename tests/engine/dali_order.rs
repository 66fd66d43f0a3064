//! Compares the order "dali" with every sequence recorded from DALI's reader, through the public
//! API alone.

use framespool::batch_sampler::{
    BatchSampler, BatchSamplerConfig, ClipOrder, LastBatchPolicy, Shuffle,
};

/// One recorded sequence.
struct RecordedRun {
    config: BatchSamplerConfig,
    /// With `pad_last_batch`, the reader repeats the last sample of a shard; without it, epochs
    /// follow each other without a gap.
    padded: bool,
    samples: Vec<u64>,
}

/// Parses one line of `dali_order/recorded.txt`; that file explains its columns.
fn parse_run(line: &str) -> RecordedRun {
    let (numbers, samples) = line.rsplit_once(' ').expect(line);
    let numbers: Vec<u32> = numbers
        .split(' ')
        .map(|number| number.parse().expect(line))
        .collect();
    let [
        num_clips,
        batch_size,
        num_shards,
        shard_id,
        stick,
        pad,
        initial_fill,
        seed,
    ] = numbers[..]
    else {
        panic!("{} numbers in {line}", numbers.len())
    };
    let config = BatchSamplerConfig {
        clip_order: ClipOrder::Dali,
        num_clips: u64::from(num_clips),
        batch_size,
        shard_id,
        num_shards,
        seed: u64::from(seed),
        stick_to_shard: stick == 1,
        shuffle: if initial_fill > 0 {
            Shuffle::Buffer { initial_fill }
        } else {
            Shuffle::Off
        },
        last_batch: LastBatchPolicy::Fill,
        ..BatchSamplerConfig::default()
    };
    let samples = samples
        .chars()
        .map(|digit| digit.to_digit(36).expect(line).into())
        .collect();
    RecordedRun {
        config,
        padded: pad == 1,
        samples,
    }
}

#[test]
fn order_equals_every_sequence_recorded_from_dali() {
    let recorded = include_str!("dali_order/recorded.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let (mut cases, mut samples) = (0, 0);
    for line in recorded {
        let RecordedRun {
            config,
            padded,
            samples: expected,
        } = parse_run(line);
        let order = BatchSampler::new(config).unwrap();
        let batches =
            (0..).flat_map(|epoch| (0..order.len_batches()).map(move |batch| (epoch, batch)));
        let slots = batches.flat_map(|(epoch, batch)| order.batch(epoch, batch));
        let found = slots
            .filter(|slot| padded || !slot.padding)
            .map(|slot| slot.clip);
        assert_eq!(
            found.take(expected.len()).collect::<Vec<_>>(),
            expected,
            "{line}"
        );
        cases += 1;
        samples += expected.len();
    }
    assert_eq!(
        (cases, samples),
        (288, 14_688),
        "sequences and samples recorded"
    );
}
