#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| parler_testkit::fuzz::nkey(data));
