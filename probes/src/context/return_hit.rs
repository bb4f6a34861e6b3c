//! The argument of a return probe's handlers: a hit with the data of its call.
//!
//! A [`ReturnHit`] is a [`Hit`], so all its functions work. It adds the call's private bytes and its true return address.

use super::Hit;
use core::ops::{Deref, DerefMut};

/// A followed call, at its entry or its return: a [`Hit`], plus this call's private data and return address.
pub struct ReturnHit<'a> {
    hit: Hit<'a>,
    data: &'a mut [u8],
    ret_addr: u64,
}

impl<'a> ReturnHit<'a> {
    #[inline]
    pub(crate) fn new(hit: Hit<'a>, data: &'a mut [u8], ret_addr: u64) -> Self {
        ReturnHit { hit, data, ret_addr }
    }

    /// The true return address of the call.
    pub fn ret_addr(&self) -> u64 {
        self.ret_addr
    }

    /// The call's private bytes, shared by its entry handler and return handler. They are not cleared between calls.
    pub fn data(&mut self) -> &mut [u8] {
        self.data
    }
}

impl<'a> Deref for ReturnHit<'a> {
    type Target = Hit<'a>;
    fn deref(&self) -> &Hit<'a> {
        &self.hit
    }
}

impl DerefMut for ReturnHit<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.hit
    }
}
