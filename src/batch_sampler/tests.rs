//! Tests that no clip is lost or repeated, that ranks have equal batches and that workers partition
//! them. Expected values are computed by hand or by another program, never by this code.

use proptest::prelude::*;

use super::*;

const POLICIES: [LastBatchPolicy; 3] = [
    LastBatchPolicy::Partial,
    LastBatchPolicy::Drop,
    LastBatchPolicy::Fill,
];

/// All ranks of one batch sampler.
fn ranks(
    num_clips: u64,
    num_shards: u32,
    batch_size: u32,
    last_batch: LastBatchPolicy,
) -> Vec<BatchSampler> {
    let (shuffle, seed) = (Shuffle::Full, 3);
    let config = |shard_id| BatchSamplerConfig {
        num_clips,
        shuffle,
        seed,
        shard_id,
        num_shards,
        batch_size,
        last_batch,
        ..BatchSamplerConfig::default()
    };
    (0..num_shards)
        .map(|rank| BatchSampler::new(config(rank)).unwrap())
        .collect()
}

/// All batches of one rank; also checks `len_batches` and `num_samples`.
fn batches(order: &BatchSampler, epoch: u64) -> Vec<Vec<SampledClip>> {
    let batches: Vec<_> = (0..order.len_batches())
        .map(|b| order.batch(epoch, b))
        .collect();
    assert!(
        batches.iter().all(|b| !b.is_empty()) && order.batch(epoch, order.len_batches()).is_empty()
    );
    assert_eq!(
        batches.iter().map(Vec::len).sum::<usize>() as u64,
        order.num_samples()
    );
    batches
}

fn real(batches: &[Vec<SampledClip>]) -> Vec<u64> {
    batches
        .iter()
        .flatten()
        .filter(|s| !s.padding)
        .map(|s| s.clip)
        .collect()
}

#[test]
fn clips_come_once_and_ranks_have_equal_length() {
    for policy in POLICIES {
        for (clips, shards, batch) in (0..=40).flat_map(|n| {
            (1..=6).flat_map(move |s| [1, 2, 3, 8].into_iter().map(move |b| (n, s, b)))
        }) {
            let what = format!("{clips} clips, {shards} ranks, batches of {batch}, {policy:?}");
            let all: Vec<_> = ranks(clips, shards, batch, policy)
                .iter()
                .map(|o| batches(o, 1))
                .collect();
            let lengths =
                |rank: &Vec<Vec<SampledClip>>| rank.iter().map(Vec::len).collect::<Vec<_>>();
            let expected = lengths(&all[0]);
            assert!(all.iter().all(|rank| lengths(rank) == expected), "{what}");
            let full = expected
                .iter()
                .filter(|&&length| length == batch as usize)
                .count();
            let short_last =
                policy == LastBatchPolicy::Partial && expected.last() != Some(&(batch as usize));
            assert_eq!(
                full + usize::from(short_last && clips > 0),
                expected.len(),
                "{what}"
            );

            let mut seen: Vec<u64> = all.iter().flat_map(|rank| real(rank)).collect();
            let delivered = seen.len() as u64;
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len() as u64, delivered, "{what}: a clip comes twice");
            let global = u64::from(shards) * u64::from(batch);
            match policy {
                LastBatchPolicy::Drop => assert_eq!(delivered, clips / global * global, "{what}"),
                _ => assert_eq!(delivered, clips, "{what}"),
            }
            let counts: Vec<_> = all.iter().map(|rank| real(rank).len()).collect();
            let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
            assert!(spread <= 1, "{what}: unbalanced {counts:?}");
            let slots = all[0].iter().flatten().count() as u64;
            match policy {
                LastBatchPolicy::Partial => {
                    assert_eq!(slots, clips.div_ceil(u64::from(shards)), "{what}")
                }
                LastBatchPolicy::Drop => {
                    assert_eq!(slots, clips / global * u64::from(batch), "{what}")
                }
                LastBatchPolicy::Fill => {
                    assert_eq!(slots, clips.div_ceil(global) * u64::from(batch), "{what}")
                }
            }
        }
    }
}

#[test]
fn global_batches_do_not_depend_on_rank_count() {
    for policy in POLICIES {
        for clips in [0, 5, 12, 24, 29, 100] {
            let global = |shards: u32| -> Vec<Vec<u64>> {
                let ranks = ranks(clips, shards, 12 / shards, policy);
                let of = |b| ranks.iter().flat_map(move |o| o.batch(4, b));
                let len = ranks[0].len_batches();
                (0..len)
                    .map(|b| of(b).filter(|s| !s.padding).map(|s| s.clip).collect())
                    .collect()
            };
            assert!(
                [2, 3, 4, 6, 12].iter().all(|&s| global(s) == global(1)),
                "{clips} {policy:?}"
            );
        }
    }
}

#[test]
fn padding_repeats_the_first_clips() {
    let slots = |last_batch| -> Vec<Vec<(u64, bool)>> {
        let unshuffled = |o: BatchSampler| {
            BatchSampler::new(BatchSamplerConfig {
                shuffle: Shuffle::Off,
                ..o.config
            })
            .unwrap()
        };
        let of = |o: BatchSampler| {
            unshuffled(o)
                .batch(0, 1)
                .iter()
                .map(|s| (s.clip, s.padding))
                .collect()
        };
        ranks(9, 2, 3, last_batch).into_iter().map(of).collect()
    };
    let (real, padding) = (|clip| (clip, false), |clip| (clip, true));
    assert_eq!(
        slots(LastBatchPolicy::Partial),
        [[real(6), real(7)], [real(8), padding(0)]]
    );
    let fill = [
        [real(6), real(7), padding(0)],
        [real(8), padding(1), padding(2)],
    ];
    assert_eq!(slots(LastBatchPolicy::Fill), fill);
    assert!(slots(LastBatchPolicy::Drop).iter().all(Vec::is_empty));
}

#[test]
fn clips_of_a_group_follow_each_other() {
    for (shuffle, last_batch, repeats) in [
        (Shuffle::Off, LastBatchPolicy::Partial, 1),
        (Shuffle::Full, LastBatchPolicy::Fill, 1),
        (Shuffle::Full, LastBatchPolicy::Partial, 2),
    ] {
        let of_rank = |shard_id| {
            let config = BatchSamplerConfig {
                num_clips: 7,
                clips_per_group: 3,
                batch_size: 2,
                num_shards: 2,
                shard_id,
                shuffle,
                last_batch,
                repeats,
                ..BatchSamplerConfig::default()
            };
            BatchSampler::new(config).unwrap()
        };
        let mut seen = Vec::new();
        for order in [of_rank(0), of_rank(1)] {
            let all: Vec<_> = (0..order.len_batches())
                .flat_map(|batch| order.batch(1, batch))
                .collect();
            assert_eq!(all.len() as u64, order.num_samples());
            for group in all.chunks(3) {
                let first = group[0];
                assert_eq!(first.clip % 3, 0);
                let same = |s: &SampledClip| (s.repeat, s.padding) == (first.repeat, first.padding);
                assert!(group.iter().all(same));
                assert!(
                    group
                        .iter()
                        .zip(first.clip..)
                        .all(|(slot, clip)| slot.clip == clip)
                );
            }
            seen.extend(
                all.iter()
                    .filter(|slot| !slot.padding && slot.repeat == 0)
                    .map(|slot| slot.clip),
            );
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..21).collect::<Vec<_>>());
    }
}

#[test]
fn epochs_and_seeds_give_different_orders() {
    let order = &ranks(100, 1, 10, LastBatchPolicy::Partial)[0];
    assert_ne!(real(&batches(order, 0)), real(&batches(order, 1)));
    let other = BatchSampler::new(BatchSamplerConfig {
        seed: 4,
        ..order.config.clone()
    })
    .unwrap();
    assert_ne!(real(&batches(order, 0)), real(&batches(&other, 0)));
    let off = BatchSampler::new(BatchSamplerConfig {
        shuffle: Shuffle::Off,
        ..order.config.clone()
    })
    .unwrap();
    assert_eq!(real(&batches(&off, 5)), (0..100).collect::<Vec<_>>());
}

const SHUFFLES: [Shuffle; 3] = [
    Shuffle::Off,
    Shuffle::Buffer { initial_fill: 5 },
    Shuffle::Full,
];

fn config(num_clips: u64, num_shards: u32, batch_size: u32) -> BatchSamplerConfig {
    BatchSamplerConfig {
        num_clips,
        num_shards,
        batch_size,
        seed: 3,
        ..BatchSamplerConfig::default()
    }
}

/// All ranks of a batch sampler configuration.
fn all_ranks(config: &BatchSamplerConfig) -> Vec<BatchSampler> {
    (0..config.num_shards)
        .map(|shard_id| {
            BatchSampler::new(BatchSamplerConfig {
                shard_id,
                ..config.clone()
            })
            .unwrap()
        })
        .collect()
}

#[test]
fn stick_to_shard_keeps_the_shard() {
    let base = BatchSamplerConfig {
        stick_to_shard: true,
        ..config(11, 3, 2)
    };
    for shuffle in [
        Shuffle::Off,
        Shuffle::Buffer { initial_fill: 2 },
        Shuffle::Full,
    ] {
        let ranks = all_ranks(&BatchSamplerConfig {
            shuffle,
            ..base.clone()
        });
        let parts: Vec<Vec<u64>> = ranks.iter().map(|rank| real(&batches(rank, 1))).collect();
        let sorted = parts.iter().map(|part| {
            let mut part = part.clone();
            part.sort_unstable();
            part
        });
        // floor(11 i / 3) = 0 3 7 11
        assert_eq!(
            sorted.collect::<Vec<_>>(),
            [vec![0, 1, 2], vec![3, 4, 5, 6], vec![7, 8, 9, 10]]
        );
        let padding: Vec<SampledClip> = batches(&ranks[0], 1)
            .concat()
            .into_iter()
            .filter(|slot| slot.padding)
            .collect();
        assert_eq!(
            padding.iter().map(|slot| slot.clip).collect::<Vec<_>>(),
            [parts[0][0]],
            "from its own head"
        );
    }
}

// Expected values computed by an independent Python implementation of the permutation.
const GOLDEN_SHARD_1_OF_2: [u64; 12] = [19, 12, 21, 16, 20, 14, 15, 17, 18, 13, 22, 23];

#[test]
fn stick_to_shard_shuffles_with_rank_keys() {
    let base = BatchSamplerConfig {
        stick_to_shard: true,
        shuffle: Shuffle::Full,
        ..config(24, 2, 12)
    };
    let ranks = all_ranks(&base);
    assert_eq!(real(&batches(&ranks[1], 0)), GOLDEN_SHARD_1_OF_2);
    let shifted: Vec<u64> = real(&batches(&ranks[0], 0))
        .iter()
        .map(|clip| clip + 12)
        .collect();
    assert_ne!(shifted, GOLDEN_SHARD_1_OF_2);
    let alone = |stick_to_shard| {
        let order = BatchSampler::new(BatchSamplerConfig {
            num_shards: 1,
            stick_to_shard,
            ..base.clone()
        })
        .unwrap();
        batches(&order, 5)
    };
    assert_eq!(alone(true), alone(false));
}

#[test]
fn stick_to_shard_ranks_have_equal_length() {
    for last_batch in POLICIES {
        for (clips, shards, batch) in [
            (11, 3, 2),
            (3, 3, 2),
            (10, 4, 3),
            (100, 7, 4),
            (9, 1, 4),
            (29, 5, 6),
        ] {
            let base = BatchSamplerConfig {
                stick_to_shard: true,
                last_batch,
                ..config(clips, shards, batch)
            };
            let all: Vec<_> = all_ranks(&base)
                .iter()
                .map(|rank| batches(rank, 0))
                .collect();
            let lengths =
                |rank: &Vec<Vec<SampledClip>>| rank.iter().map(Vec::len).collect::<Vec<_>>();
            assert!(
                all.iter().all(|rank| lengths(rank) == lengths(&all[0])),
                "{base:?}"
            );
            let (least, most) = (clips / u64::from(shards), clips.div_ceil(u64::from(shards)));
            let slots = all[0].iter().flatten().count() as u64;
            let each = u64::from(batch);
            let expected = match last_batch {
                LastBatchPolicy::Partial => most,
                LastBatchPolicy::Fill => most.div_ceil(each) * each,
                LastBatchPolicy::Drop => least / each * each, // full batches on every rank
            };
            assert_eq!(slots, expected, "{base:?}");
        }
    }
}

#[test]
fn workers_together_equal_one_worker() {
    for shuffle in SHUFFLES {
        for last_batch in POLICIES {
            for (clips, workers) in [(50, 1), (50, 2), (50, 3), (50, 20), (47, 4), (6, 7)] {
                let base = BatchSamplerConfig {
                    shuffle,
                    last_batch,
                    ..config(clips, 2, 3)
                };
                let alone = batches(&BatchSampler::new(base.clone()).unwrap(), 2);
                let worker = |worker_id| {
                    let config = BatchSamplerConfig {
                        worker_id,
                        num_workers: workers,
                        ..base.clone()
                    };
                    batches(&BatchSampler::new(config).unwrap(), 2)
                };
                let each: Vec<_> = (0..workers).map(worker).collect();
                let turns = alone.len().div_ceil(workers as usize);
                let in_turn =
                    (0..turns).flat_map(|turn| each.iter().filter_map(move |own| own.get(turn)));
                assert_eq!(
                    in_turn.cloned().collect::<Vec<_>>(),
                    alone,
                    "{base:?}, {workers} workers"
                );
                assert_eq!(each.iter().map(Vec::len).sum::<usize>(), alone.len());
            }
        }
    }
}

#[test]
fn an_order_of_no_clips_has_no_batches() {
    for shuffle in [Shuffle::Off, Shuffle::Full] {
        for last_batch in POLICIES {
            let order = BatchSampler::new(BatchSamplerConfig {
                shuffle,
                last_batch,
                ..config(0, 2, 3)
            })
            .unwrap();
            assert_eq!((order.len_batches(), order.num_samples()), (0, 0));
            assert!(order.batch(0, 0).is_empty() && order.batch(0, u64::MAX).is_empty());
        }
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let most = BatchSamplerConfig {
        num_clips: u64::MAX,
        batch_size: 3,
        ..BatchSamplerConfig::default()
    };
    let sizes = vec![1 << 62, u64::MAX - (1 << 62)];
    let mix = MixConfig {
        sizes,
        weights: vec![1.0, 3.0],
        replacement: false,
        epoch_clips: None,
    };
    let buffer = Shuffle::Buffer {
        initial_fill: u32::MAX,
    };
    for (shuffle, stick_to_shard, mix) in [
        (Shuffle::Full, false, None),
        (buffer, false, None),
        (buffer, true, None),
        (Shuffle::Full, false, Some(mix)),
    ] {
        for (last_batch, num_shards) in POLICIES
            .into_iter()
            .flat_map(|p| [(p, 1), (p, 2), (p, u32::MAX)])
        {
            let config = BatchSamplerConfig {
                shuffle,
                stick_to_shard,
                mix: mix.clone(),
                last_batch,
                num_shards,
                ..most.clone()
            };
            let last_rank = BatchSamplerConfig {
                shard_id: num_shards - 1,
                ..config
            };
            for (worker_id, num_workers) in [(0, 1), (u32::MAX - 1, u32::MAX)] {
                let order = BatchSampler::new(BatchSamplerConfig {
                    worker_id,
                    num_workers,
                    ..last_rank.clone()
                })
                .unwrap();
                let Some(last) = order.len_batches().checked_sub(1) else {
                    assert!(num_workers > 1 && num_shards > 2, "a worker too many");
                    continue;
                };
                assert!(order.num_samples() > last);
                for (epoch, batch) in [(0, 0), (u64::MAX, last), (1, last / 2)] {
                    let slots = order.batch(epoch, batch);
                    assert!(
                        (1..=3).contains(&slots.len()),
                        "{shuffle:?} {last_batch:?} {num_shards}"
                    );
                }
                assert!(order.batch(0, last + 1).is_empty() && order.batch(0, u64::MAX).is_empty());
            }
        }
    }
}

#[test]
fn a_mix_is_split_over_ranks_like_any_order() {
    let mix = MixConfig {
        sizes: vec![20, 4],
        weights: vec![1.0, 1.0],
        replacement: false,
        epoch_clips: Some(30),
    };
    let base = BatchSamplerConfig {
        shuffle: Shuffle::Full,
        mix: Some(mix),
        ..config(24, 2, 4)
    };
    let all: Vec<Vec<Vec<SampledClip>>> = all_ranks(&base)
        .iter()
        .map(|rank| batches(rank, 1))
        .collect();
    assert_eq!(
        all[0].iter().map(Vec::len).collect::<Vec<_>>(),
        [4, 4, 4, 3]
    );
    let mut pairs: Vec<(u64, u32)> = all
        .iter()
        .flatten()
        .flatten()
        .map(|slot| (slot.clip, slot.occurrence))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), 30, "no clip comes twice in the same pass");
    let (first, second): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|&(clip, _)| clip < 20);
    assert_eq!((first.len(), second.len()), (15, 15));
    assert!(
        first.iter().all(|&(_, occurrence)| occurrence == 0)
            && second.iter().any(|&(_, occurrence)| occurrence == 3)
    );
}

#[test]
fn invalid_number_is_named_in_the_error() {
    let good = BatchSamplerConfig {
        shard_id: 1,
        shuffle: Shuffle::Full,
        ..config(10, 2, 2)
    };
    let buffer = |initial_fill| Shuffle::Buffer { initial_fill };
    let mix = Some(MixConfig {
        sizes: vec![4, 6],
        weights: vec![1.0, 2.0],
        replacement: true,
        epoch_clips: None,
    });
    let with = |change: &dyn Fn(&mut BatchSamplerConfig)| {
        let mut config = good.clone();
        change(&mut config);
        config
    };
    let cases: [(BatchSamplerConfig, &str); 9] = [
        (
            with(&|c| c.batch_size = 0),
            "batch_size must be at least 1, got 0",
        ),
        (
            with(&|c| c.num_shards = 0),
            "num_shards must be at least 1, got 0",
        ),
        (
            with(&|c| c.shard_id = 2),
            "shard_id must be below num_shards=2, got 2",
        ),
        (
            with(&|c| c.num_workers = 0),
            "num_workers must be at least 1, got 0",
        ),
        (
            with(&|c| c.worker_id = 1),
            "worker_id must be below num_workers=1, got 1",
        ),
        (
            with(&|c| c.shuffle = buffer(0)),
            "initial_fill must be at least 1, got 0",
        ),
        (
            with(&|c| (c.stick_to_shard, c.num_clips) = (true, 1)),
            "num_clips must be at least num_shards=2 with stick_to_shard, got 1",
        ),
        (
            with(&|c| (c.mix, c.shuffle) = (mix.clone(), Shuffle::Off)),
            "shuffle must be \"full\" or \"grouped\" with a mix",
        ),
        (
            with(&|c| (c.mix, c.stick_to_shard) = (mix.clone(), true)),
            "stick_to_shard must be False with a mix, got True",
        ),
    ];
    for (config, part) in cases {
        let text = BatchSampler::new(config).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
    BatchSampler::new(with(&|c| c.mix = mix.clone())).unwrap();
}

/// A random configuration among those that its kind supports.
fn any_config() -> impl Strategy<Value = BatchSamplerConfig> {
    let numbers = (0u64..200, 1u32..9, 1u32..14, 0u64..4, 1u32..5);
    let choices = (0usize..SHUFFLES.len(), 1u32..40, any::<bool>(), 0usize..3);
    (numbers, choices).prop_filter_map("what this kind refuses", |(numbers, choices)| {
        let (num_clips, num_shards, batch_size, seed, num_workers) = numbers;
        let (shuffle, initial_fill, stick_to_shard, policy) = choices;
        let shuffle = SHUFFLES[shuffle];
        let shuffle = if let Shuffle::Buffer { .. } = shuffle {
            Shuffle::Buffer { initial_fill }
        } else {
            shuffle
        };
        let last_batch = POLICIES[policy];
        let base = BatchSamplerConfig {
            num_clips,
            num_shards,
            batch_size,
            seed,
            num_workers,
            ..BatchSamplerConfig::default()
        };
        let config = BatchSamplerConfig {
            shuffle,
            stick_to_shard,
            last_batch,
            ..base
        };
        BatchSampler::new(config.clone()).is_ok().then_some(config)
    })
}

proptest! {
    #[test]
    fn random_configs_lose_and_duplicate_no_clip(config in any_config(), epoch in 0u64..5) {
        let BatchSamplerConfig { num_clips, num_shards, batch_size, last_batch, .. } = config;
        let (shards, each) = (u64::from(num_shards), u64::from(batch_size));
        let mut lengths = Vec::new();
        let mut seen = Vec::new();
        for rank in all_ranks(&config) {
            let mut own: Vec<Vec<SampledClip>> = Vec::new();
            let worker = |worker_id| BatchSampler::new(BatchSamplerConfig { worker_id, ..rank.config().clone() }).unwrap();
            let workers: Vec<_> = (0..config.num_workers).map(|id| batches(&worker(id), epoch)).collect();
            for turn in 0..workers[0].len() {
                own.extend(workers.iter().filter_map(|batches| batches.get(turn)).cloned());
            }
            lengths.push(own.iter().map(Vec::len).collect::<Vec<_>>());
            for batch in &own {
                // Real clips come first, and padding repeats clips that this rank or another one
                // delivers.
                prop_assert!(batch.windows(2).all(|pair| pair[0].padding <= pair[1].padding));
                prop_assert!(batch.iter().all(|slot| slot.clip < num_clips && slot.occurrence == 0));
            }
            seen.extend(real(&own));
        }
        prop_assert!(lengths.iter().all(|rank| rank == &lengths[0]), "{:?}", lengths);
        let (last, full) = lengths[0].split_last().map_or((0, &[][..]), |(last, full)| (*last, full));
        prop_assert!(full.iter().all(|&length| length == batch_size as usize) && last <= batch_size as usize);
        let delivered = seen.len() as u64;
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len() as u64, delivered, "a clip comes twice");
        let expected = match last_batch {
            LastBatchPolicy::Partial | LastBatchPolicy::Fill => num_clips,
            LastBatchPolicy::Drop => num_clips / shards / each * each * shards,
        };
        prop_assert_eq!(delivered, expected);
        if last_batch != LastBatchPolicy::Partial {
            prop_assert!(last == 0 || last == batch_size as usize);
        }
    }
}
