//! 64-bit counters with one writer and many readers. Targets without 64-bit atomics use a seqlock over two 32-bit
//! halves.

#[cfg(target_has_atomic = "64")]
pub(crate) use core::sync::atomic::AtomicU64 as Counter;
#[cfg(not(target_has_atomic = "64"))]
pub(crate) use halves::Counter;

#[cfg(any(test, not(target_has_atomic = "64")))]
mod halves {
    use core::sync::atomic::{AtomicU32, Ordering, fence};

    /// A seqlock: `version` is odd while the writer changes the halves.
    #[derive(Debug, Default)]
    pub(crate) struct Counter {
        version: AtomicU32,
        low: AtomicU32,
        high: AtomicU32,
    }

    impl Counter {
        pub const fn new(value: u64) -> Counter {
            let [low, high] = [AtomicU32::new(value as u32), AtomicU32::new((value >> 32) as u32)];
            Counter { version: AtomicU32::new(0), low, high }
        }

        /// The last value written. Retries while a write is in progress, so it never mixes two values.
        pub fn load(&self, _: Ordering) -> u64 {
            loop {
                let before = self.version.load(Ordering::Acquire);
                let value = u64::from(self.low.load(Ordering::Relaxed)) | u64::from(self.high.load(Ordering::Relaxed)) << 32;
                fence(Ordering::Acquire);
                if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                    return value;
                }
                core::hint::spin_loop();
            }
        }

        /// Stores a value. Only one thread may write.
        pub fn store(&self, value: u64, _: Ordering) {
            let version = self.version.load(Ordering::Relaxed);
            self.version.store(version.wrapping_add(1), Ordering::Relaxed);
            fence(Ordering::Release);
            self.low.store(value as u32, Ordering::Relaxed);
            self.high.store((value >> 32) as u32, Ordering::Relaxed);
            self.version.store(version.wrapping_add(2), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::halves::Counter;
    use alloc::sync::Arc;
    use core::sync::atomic::Ordering::Relaxed;

    /// BY-6: a concurrent reader never sees a half-written number.
    #[test]
    fn a_reader_never_sees_half_of_a_number() {
        let counter = Arc::new(Counter::new(u64::MAX));
        assert_eq!((counter.load(Relaxed), Counter::default().load(Relaxed)), (u64::MAX, 0));
        let written = Arc::clone(&counter);
        let writer = std::thread::spawn(move || {
            for number in 0..200_000u64 {
                // Each number has equal halves, so a torn read shows.
                written.store(number << 32 | number, Relaxed);
            }
        });
        while !writer.is_finished() {
            let value = counter.load(Relaxed);
            assert_eq!(value >> 32, value & 0xffff_ffff);
        }
        writer.join().expect("the writer");
        assert_eq!(counter.load(Relaxed), 199_999 << 32 | 199_999);
    }
}
