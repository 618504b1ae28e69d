// SPDX-License-Identifier: MIT
//
// Rust: a panic through a callback and out of a thread, caught; destructors; a payload.
//
// A failure means that a Rust program aborts where it would go on.
//
// run:
#![feature(backtrace)]
use std::panic;

// What the caller's program counter is.  Data never moves, and is near the original code.
std::arch::global_asm!("identity_here: mov rax, [rsp]", "ret");
extern "C" {
    fn identity_here() -> usize;
}

static HOME: u32 = 7;

#[inline(never)]
fn runs() {
    let copied = unsafe { identity_here() }.abs_diff(&HOME as *const u32 as usize) > 0x400000;
    if let Ok(wanted) = std::env::var("IDENTITY") {
        assert_eq!(copied, wanted == "moved", "does not run where it should");
    }
}

struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        println!("drop {} {}", self.0, std::thread::panicking());
    }
}

#[inline(never)]
fn compare(a: &i32, b: &i32) -> std::cmp::Ordering {
    let _here = Noisy("compare");
    runs();
    if *a + *b == 7 {
        panic!("seven");
    }
    a.cmp(b)
}

// The standard library looks for the names itself, in the files that it finds listed.
#[inline(never)]
fn traced() -> bool {
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    trace.contains("traced") && trace.contains("main")
}

fn main() {
    runs();
    panic::set_hook(Box::new(|info| {
        eprintln!("panic in line {}", info.location().map_or(0, |l| l.line()));
    }));
    let sorted = panic::catch_unwind(|| {
        let mut list = vec![5, 1, 4, 3, 2];
        let _here = Noisy("sorted");
        list.sort_by(compare);
        list
    });
    println!("{:?}", sorted.err().and_then(|e| e.downcast_ref::<&str>().map(|s| s.to_string())));
    let thread = std::thread::spawn(|| {
        let _here = Noisy("thread");
        let none: Option<i32> = None;
        none.unwrap()
    });
    println!("{}", thread.join().is_err());
    let inner = panic::catch_unwind(|| {
        let caught = panic::catch_unwind(|| panic::panic_any(42));
        panic::resume_unwind(caught.unwrap_err());
    });
    println!("{:?}", inner.unwrap_err().downcast_ref::<i32>());
    let empty: Vec<i32> = Vec::new();
    let at = panic::catch_unwind(|| empty[empty.len()]);
    println!("{}", at.is_err());
    println!("{}", traced());
}
