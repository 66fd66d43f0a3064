#[path = "../tests/common/mod.rs"]
mod common;
use framespool::*;
use std::sync::Arc;
fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let (mut ok, mut bad) = (0, 0);
    for e in common::videos() {
        if !e.path.contains(&filter) {
            continue;
        }
        let t = std::time::Instant::now();
        let r = (|| -> Result<String> {
            let src = e.source()?;
            let ix = Arc::new(index::build(&src, &limits::Limits::default())?);
            let mut msg = format!(
                "{} n={} starts={} direct={}",
                ix.container,
                ix.num_frames(),
                ix.packets.iter().filter(|p| p.is_start()).count(),
                ix.direct
            );
            let all: Vec<_> = (0..ix.num_frames()).map(units::DisplayIndex).collect();
            let runs = plan::runs(&ix, &all);
            let mut rd = demux::read::PacketReader::new(src, ix.clone());
            let mut dec = decode::FrameDecoder::new(1);
            let mut got = vec![String::new(); ix.packets.len()];
            let mut err = None;
            for r in &runs {
                if let Err(e) = dec.run(&mut rd, r, &|| Ok(()), |p, f| {
                    got[p.at()] = common::hash(f);
                    Ok(())
                }) {
                    err = Some(e);
                }
            }
            let mine: Vec<(i64, String)> =
                ix.frames.iter().map(|f| (f.pts, got[f.packet.at()].clone())).collect();
            if e.has_hashes() {
                let want = e.hashes();
                let ptsok = want.len() == mine.len() && want.iter().zip(&mine).all(|(a, b)| a.0 == b.0);
                let hok = want.iter().zip(&mine).filter(|(a, b)| a.1 == b.1).count();
                msg += &format!(" want={} pts={} hash={}/{}", want.len(), ptsok, hok, want.len());
                if !ptsok {
                    msg += &format!(
                        "\n     want {:?}\n     mine {:?}",
                        want.iter().map(|x| x.0).take(12).collect::<Vec<_>>(),
                        mine.iter().map(|x| x.0).take(12).collect::<Vec<_>>()
                    );
                }
                if !(ptsok && hok == want.len() && err.is_none()) {
                    msg = format!("BAD {msg}");
                }
            } else {
                let have = mine.iter().filter(|m| !m.1.is_empty()).count();
                msg += &format!(" manifest={} have={have} (no hashes)", e.facts["frames_decoded"]);
            }
            if let Some(x) = err {
                msg += &format!("\n     ERR {x}");
            }
            Ok(msg)
        })();
        let (b, m) = match r {
            Ok(m) => (m.starts_with("BAD"), m),
            Err(x) => (!e.is_corrupt(), format!("ERROR[{}] {x}", x.kind())),
        };
        if b {
            bad += 1
        } else {
            ok += 1
        }
        if b || !e.has_hashes() || filter.len() > 0 {
            println!(
                "{} {} {} ({:.0} ms)",
                if b { "!!" } else { "  " },
                e.path,
                m,
                t.elapsed().as_secs_f64() * 1e3
            );
        }
    }
    println!("ok {ok} bad {bad}");
}
