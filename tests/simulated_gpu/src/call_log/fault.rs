//! Parses `function:call=code` and `function:call+=code`, and decides whether a call must fail.

use super::Code;

pub struct Fault {
    function: String,
    call: u64,
    and_later: bool,
    pub code: Code,
}

impl Fault {
    pub fn parse(text: &str) -> Option<Fault> {
        let (function_and_call, code) = text.split_once('=')?;
        let (function, call) = function_and_call
            .split_once(':')
            .unwrap_or((function_and_call, "1+"));
        let call = call.trim();
        let and_later = call.ends_with('+');
        Some(Fault {
            function: function.trim().to_owned(),
            call: call.trim_end_matches('+').parse().ok()?,
            and_later,
            code: code.trim().parse().ok()?,
        })
    }

    pub fn matches(&self, function: &str, call: u64) -> bool {
        function == self.function && (call == self.call || self.and_later && call > self.call)
    }
}
