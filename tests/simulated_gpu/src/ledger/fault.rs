//! In: `function:call=code`, `function:call+=code`.
//! Out: whether a call is the one that is to fail.
//! Never: counts.

use super::Code;

pub struct Fault {
    function: String,
    call: u64,
    later_too: bool,
    pub code: Code,
}

impl Fault {
    pub fn parse(text: &str) -> Option<Fault> {
        let (place, code) = text.split_once('=')?;
        let (function, call) = place.split_once(':').unwrap_or((place, "1+"));
        let call = call.trim();
        let later_too = call.ends_with('+');
        Some(Fault {
            function: function.trim().to_owned(),
            call: call.trim_end_matches('+').parse().ok()?,
            later_too,
            code: code.trim().parse().ok()?,
        })
    }

    pub fn hits(&self, function: &str, call: u64) -> bool {
        function == self.function && (call == self.call || self.later_too && call > self.call)
    }
}
