//! The order of DALI's reader against what DALI itself delivered: every recorded sequence, by the public names alone.

use std::path::Path;

use framespool::order::{Kind, LastBatch, Order, OrderConfig, Shuffle};
use serde_json::Value;

/// What was recorded, or `None` (with a line that says so) where it is missing.
fn recorded() -> Option<Vec<Value>> {
    let corpus = std::env::var_os("FRAMESPOOL_CORPUS").map(|corpus| Path::new(&corpus).join("../reference"));
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference");
    let place = corpus.unwrap_or_else(beside).join("dali_order.json");
    let Ok(text) = std::fs::read_to_string(&place) else {
        eprintln!("SKIPPED: no {}; src/order/dali.rs has a dozen of its sequences", place.display());
        return None;
    };
    let recorded: Value = serde_json::from_str(&text).expect("recorded as JSON");
    Some(recorded["cases"].as_array().expect("cases").clone())
}

fn config(case: &Value) -> OrderConfig {
    let number = |name: &str| case[name].as_u64().unwrap_or_else(|| panic!("{name} of {case}"));
    let buffer = Shuffle::Buffer { initial_fill: number("initial_fill") as u32 };
    OrderConfig {
        kind: Kind::Dali,
        num_clips: number("num_samples"),
        batch_size: number("batch_size") as u32,
        shard_id: number("shard_id") as u32,
        num_shards: number("num_shards") as u32,
        seed: number("seed"),
        stick_to_shard: case["stick_to_shard"] == true,
        shuffle: if case["random_shuffle"] == true { buffer } else { Shuffle::Off },
        last_batch: LastBatch::Fill,
        ..OrderConfig::default()
    }
}

#[test]
fn all_sequences_that_dali_delivered_come_out_the_same() {
    let Some(cases) = recorded() else { return };
    assert!(cases.len() >= 288, "{} sequences", cases.len());
    for case in cases {
        let order = Order::new(config(&case)).unwrap();
        let expected: Vec<u64> =
            case["order"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        // Without pad_last_batch, the reader's epochs follow each other with nothing between them.
        let padded = case["pad_last_batch"] == true;
        let batches = (0..).flat_map(|epoch| (0..order.len_batches()).map(move |batch| (epoch, batch)));
        let slots = batches.flat_map(|(epoch, batch)| order.batch(epoch, batch));
        let found = slots.filter(|slot| padded || !slot.padding).map(|slot| slot.clip);
        assert_eq!(found.take(expected.len()).collect::<Vec<_>>(), expected, "{case}");
    }
}
